"""Our sessions, as jobs use them: `<workload>:plain` as on loopback, `<workload>:sealed` as between hosts."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.network.workload import WORKLOADS, held, other_end
from network import Controller, Serve
from network.dial import Target, dial
from network.keys import create_key_file
from network.nodes import SUBMITTER, Address

NODE = 0


def prepare(argument: str) -> Callable[[], float]:
    return held(lambda: rounds(*argument.split(":")))


def rounds(name: str, mode: str) -> Iterator[Callable[[], float]]:
    workload = WORKLOADS[name]
    data = np.zeros(workload.size, np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        key = create_key_file(Path(folder, "key")).offered
        with other_end("benchmarks.network.product", f"{name}:{Path(folder, 'key')}") as (_, port):
            caps = {"node": NODE, "seal": mode == "sealed"}
            session = dial(Target(Address("127.0.0.1", int(port)), key, "submitter", "agent", node_id=NODE, caps=caps))
            com = Controller(SUBMITTER, {NODE: session})

            def run() -> float:
                start = time.perf_counter()
                for _ in range(workload.count):
                    com.send_one(NODE, data)
                    if workload.echo:
                        com.get_one()
                if not workload.echo:
                    com.get_one()
                return time.perf_counter() - start

            yield run


def serve(name: str, key_file: str) -> None:
    workload = WORKLOADS[name]
    with Serve("127.0.0.1:0", key_file) as listener:
        print(listener.address.port, flush=True)
        com = listener.acquire()
    while True:
        for _ in range(workload.count):
            if not workload.echo:
                com.get_one()
            elif (found := com.get_one()) is not None:
                com.send_one(SUBMITTER, found[1])
        if not workload.echo:
            com.send_one(SUBMITTER, None)


if __name__ == "__main__":
    serve(*sys.argv[1].split(":", 1))

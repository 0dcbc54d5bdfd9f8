"""Our sessions, as jobs use them: `<workload>:plain` over a Unix socket, as peers on one host, `<workload>:sealed` over TCP."""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.network.workload import WORKLOADS, held, other_end
from network import Controller
from network.acceptor import Accept, Acceptor, Authenticated
from network.dial import Target, dial
from network.key_files import create_key_file, load_key_file
from network.keys import Keyring
from network.nodes import SUBMITTER, Address
from network.session import Session
from network.transport import listen_tcp, listen_unix, wait_sockets

NODE = 0


def prepare(argument: str) -> Callable[[], float]:
    return held(lambda: rounds(*argument.split(":")))


def rounds(name: str, mode: str) -> Iterator[Callable[[], float]]:
    workload = WORKLOADS[name]
    data = np.zeros(workload.size, np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        key = create_key_file(Path(folder, "key")).offered
        with other_end("benchmarks.network.product", f"{name}:{mode}:{folder}") as (_, port):
            path = str(Path(folder, "socket")) if mode == "plain" else ""
            session = dial(Target(Address("127.0.0.1", int(port)), key, "submitter", "agent", node_id=NODE, unix_path=path))
            if session.sealed != (mode == "sealed"):
                raise RuntimeError(f"The session is to be {mode}; the folder for its socket is {folder}.")
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


def serve(name: str, mode: str, folder: str) -> None:
    workload = WORKLOADS[name]
    listener = listen_unix(Path(folder, "socket")) if mode == "plain" else listen_tcp(Address("127.0.0.1", 0))
    print(1 if mode == "plain" else listener.getsockname()[1], flush=True)
    com = Controller(NODE, {SUBMITTER: admitted(listener, load_key_file(Path(folder, "key")))})
    while True:
        for _ in range(workload.count):
            if not workload.echo:
                com.get_one()
            elif (found := com.get_one()) is not None:
                com.send_one(SUBMITTER, found[1])
        if not workload.echo:
            com.send_one(SUBMITTER, None)


def admitted(listener: socket.socket, keys: Keyring) -> Session:
    """The session of the first that proves the key."""
    door = Acceptor(lambda _hello: Accept({"submitter": keys}, "agent"))
    wait_sockets([listener], [], None)
    door.add(listener.accept()[0])
    while True:
        for outcome in door.step():
            if isinstance(outcome, Authenticated):
                return outcome.session
        wait_sockets(door.links, [], None)


if __name__ == "__main__":
    serve(*sys.argv[1].split(":", 2))

"""torch.distributed with the gloo backend over loopback: send and recv of tensors that are used again."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.network.workload import WORKLOADS, held, other_end


def prepare(name: str) -> Callable[[], float]:
    return held(lambda: rounds(name))


def join(folder: str, rank: int) -> None:
    import torch.distributed

    torch.distributed.init_process_group("gloo", init_method=f"file://{Path(folder, 'store')}", rank=rank, world_size=2)


def rounds(name: str) -> Iterator[Callable[[], float]]:
    import torch
    import torch.distributed

    workload = WORKLOADS[name]
    data = torch.zeros(workload.size, dtype=torch.uint8)
    answer = torch.zeros(workload.size if workload.echo else 1, dtype=torch.uint8)
    with tempfile.TemporaryDirectory() as folder, other_end("benchmarks.network.gloo", f"{name}:{folder}"):
        join(folder, 0)

        def run() -> float:
            start = time.perf_counter()
            for _ in range(workload.count):
                torch.distributed.send(data, 1)
                if workload.echo:
                    torch.distributed.recv(answer, 1)
            if not workload.echo:
                torch.distributed.recv(answer, 1)
            return time.perf_counter() - start

        yield run


def serve(name: str, folder: str) -> None:
    import torch
    import torch.distributed

    print("started", flush=True)
    join(folder, 1)
    workload = WORKLOADS[name]
    buffer, answer = torch.zeros(workload.size, dtype=torch.uint8), torch.zeros(1, dtype=torch.uint8)
    while True:
        for _ in range(workload.count):
            torch.distributed.recv(buffer, 0)
            if workload.echo:
                torch.distributed.send(buffer, 0)
        if not workload.echo:
            torch.distributed.send(answer, 0)


if __name__ == "__main__":
    serve(*sys.argv[1].split(":", 1))

"""torch.distributed all_reduce with gloo. The argument is `<reduction>:<workers>`."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.exchange.workload import REDUCTIONS
from benchmarks.network.workload import held, other_end


def prepare(argument: str) -> Callable[[], float]:
    return held(lambda: rounds(*argument.split(":")))


def rounds(name: str, workers: str) -> Iterator[Callable[[], float]]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for rank in range(1, int(workers)):
            stack.enter_context(other_end("benchmarks.exchange.gloo", f"{name}:{folder}:{rank}:{workers}"))
        yield reducer(name, folder, 0, int(workers))


def reducer(name: str, folder: str, rank: int, count: int) -> Callable[[], float]:
    """Join the group, and return one round."""
    import torch
    import torch.distributed

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.distributed.init_process_group("gloo", init_method=f"file://{Path(folder, 'store')}", rank=rank, world_size=count)
    reduction = REDUCTIONS[name]
    data = torch.ones(reduction.size // 4)

    def run() -> float:
        for _ in range(2):
            torch.distributed.all_reduce(data)
        torch.distributed.barrier()
        start = time.perf_counter()
        for _ in range(reduction.count):
            torch.distributed.all_reduce(data)
        seconds = time.perf_counter() - start
        data.fill_(1)
        return seconds

    return run


def serve(name: str, folder: str, rank: str, count: str) -> None:
    print("started", flush=True)
    run = reducer(name, folder, int(rank), int(count))
    while True:
        run()


if __name__ == "__main__":
    serve(*sys.argv[1].split(":"))

"""`com.allreduce` of executors on agents of this machine. The argument is `<reduction>:<workers>`; a round is one job."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import network
import parallel_sgd
import rpc
from benchmarks.exchange.workload import REDUCTIONS
from benchmarks.network.workload import held
from rpc.support.logs import SUBMIT_LOGGER


class Reducing(rpc.AbsSimpleExecutor):
    """Reduces an array of `size` bytes a few times for warmth and then `count` times; its result is the seconds of those."""

    def run(self, com: rpc.Communication) -> Any:
        data = np.ones(self.shipped["size"] // 4, np.float32)
        for _ in range(2):
            total = com.allreduce(data, "sum")
        com.barrier()
        start = time.perf_counter()
        for _ in range(self.shipped["count"]):
            total = com.allreduce(data, "sum")
        seconds = time.perf_counter() - start
        if total[-1] != com.size:
            raise ValueError(f"The sum of ones must be {com.size}, got {total[-1]}.")
        return seconds


def prepare(argument: str) -> Callable[[], float]:
    logging.getLogger(SUBMIT_LOGGER).setLevel(logging.ERROR)
    return held(lambda: rounds(*argument.split(":")))


def rounds(name: str, workers: str) -> Iterator[Callable[[], float]]:
    reduction = REDUCTIONS[name]
    with parallel_sgd.local_workers(int(workers)) as nodes:

        def run() -> float:
            with network.Request().request(nodes) as com:
                job = rpc.Coordinator(com, title="reduce")
                job.submit_group(Reducing, objects={"size": reduction.size, "count": reduction.count})
                job.resources_dispatch(lambda node, request: rpc.ReplyPackage())
                results, _ = job.join()
            return float(max(results.values()))

        yield run

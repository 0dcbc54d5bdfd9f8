"""What sorting a collection is measured by: `sorted` in one process, and `collect` of the collection as it is."""

from __future__ import annotations

import atexit
import contextlib
import time
from collections.abc import Callable

from benchmarks.executor.workload import WORKERS, WORKLOADS, shuffled
from executor import ClusterExecutor, local_nodes
from executor.parallel import Context


def prepare(name: str) -> Callable[[], float]:
    """Start agents and an executor; they end with this process."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    executor = stack.enter_context(ClusterExecutor(stack.enter_context(local_nodes(WORKERS))))
    numbers = shuffled(WORKLOADS[name].count)
    return lambda: _seconds(executor, numbers)


def _seconds(executor: ClusterExecutor, numbers: list[int]) -> float:
    begin = time.perf_counter()
    sorted(numbers)
    collected = Context(executor).parallelize(numbers).collect()
    seconds = time.perf_counter() - begin
    if collected != numbers:
        raise ValueError("wrong results")
    return seconds

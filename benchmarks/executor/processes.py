"""ProcessPoolExecutor of the standard library."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from benchmarks.executor.workload import WORKERS, run


def prepare(name: str) -> Callable[[], float]:
    """Start the pool; it ends with this process."""
    executor = ProcessPoolExecutor(WORKERS)
    atexit.register(executor.shutdown)
    list(executor.map(abs, range(100)))
    return lambda: run(executor, name)

"""ClusterExecutor on agents of this machine."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Callable

from benchmarks.executor.workload import WORKERS, run
from executor import ClusterExecutor, local_nodes


def prepare(name: str) -> Callable[[], float]:
    """Start agents and an executor; they end with this process."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    executor = stack.enter_context(ClusterExecutor(stack.enter_context(local_nodes(WORKERS))))
    return lambda: run(executor, name)

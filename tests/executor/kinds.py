"""The three executors that keep the contract of `concurrent.futures`, by kind."""

from __future__ import annotations

import concurrent.futures as cf
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from executor import ClusterExecutor
from network import NodeAssignment
from tests.processes.harness import wait_for

from .calls import await_path, begin_and_await

KINDS = ("threads", "processes", "cluster")
WORKERS = 2
Make = Callable[[], cf.Executor]


def maker(kind: str, agents: NodeAssignment) -> Make:
    if kind == "threads":
        return lambda: cf.ThreadPoolExecutor(WORKERS)
    if kind == "processes":
        return lambda: cf.ProcessPoolExecutor(WORKERS, multiprocessing.get_context("forkserver"))
    return lambda: ClusterExecutor(agents)


@contextmanager
def occupy(executor: cf.Executor, folder: Path) -> Iterator[tuple[list[cf.Future[int]], Path]]:
    """All workers run a task until the yielded path exists, and their lines are full."""
    gate = folder / "gate"
    try:
        begun = [folder / f"begun-{number}" for number in range(8)]
        futures = [executor.submit(begin_and_await, str(path), str(gate)) for path in begun]
        for path in begun[:WORKERS]:
            await_path(path)
        # a file comes before the word of the node that its task has begun
        wait_for(lambda: all(future.running() for future in futures[:WORKERS]), "the tasks to be known to run")
        yield futures, gate
    finally:
        gate.touch()
        wait_for(lambda: all(future.done() for future in futures), "all futures to end")

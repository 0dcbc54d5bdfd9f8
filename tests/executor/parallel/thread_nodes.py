"""Nodes that are threads: an executor that keeps values as ClusterExecutor does, whose nodes may be lost at any moment."""

from __future__ import annotations

import contextvars
import itertools
from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from executor import NodeLost
from executor.keeper import SHELVES, Shelves


class ThreadNodes(Executor):
    """Tasks run in turn on the nodes that are there; `lose` takes one away with everything on its shelves.

    Attribute: `ran`, on which node each task ran, with its arguments.
    """

    def __init__(self, count: int, room: int) -> None:
        self.shelves = {node: Shelves(node, room) for node in range(count)}
        self.ran: list[tuple[int, tuple[Any, ...]]] = []
        self._threads = {node: ThreadPoolExecutor(1) for node in range(count)}
        self._lost: set[int] = set()
        self._numbers = itertools.count()

    @property
    def live_nodes(self) -> list[int]:
        return [node for node in self.shelves if node not in self._lost]

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self.submit_near((), fn, *args)

    def submit_near(self, nodes: Collection[int], fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        there = sorted(set(nodes) & set(self.live_nodes)) or self.live_nodes
        node = there[next(self._numbers) % len(there)]
        return self._threads[node].submit(contextvars.Context().run, self._run, node, fn, *args)

    def _run(self, node: int, fn: Callable[..., Any], *args: Any) -> Any:
        if node in self._lost:
            raise NodeLost(f"Node {node} was lost with this task.", node)
        SHELVES.set(self.shelves[node])
        self.ran.append((node, args))
        result = fn(*args)
        if node in self._lost:
            raise NodeLost(f"Node {node} was lost with this task.", node)
        return result

    def new_shelf(self) -> int:
        return next(self._numbers)

    def clear_shelf(self, shelf: int) -> None:
        for shelves in self.shelves.values():
            shelves.clear(shelf)

    def lose(self, node: int) -> None:
        """It is gone, unless it is the last one."""
        if len(self.live_nodes) > 1:
            self._lost.add(node)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for thread in self._threads.values():
            thread.shutdown(wait, cancel_futures=cancel_futures)

"""Cores of a host that several nodes share."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import Generic, TypeVar

Node = TypeVar("Node")


class Cores(Generic[Node]):
    """Cores of a host. A turn of a node begins when a core is free, in the order in which the nodes have asked for one.

    Args:
        count: number of cores.
    """

    __slots__ = ("_count", "_ends", "_queue")

    def __init__(self, count: int) -> None:
        self._count = count
        self._ends: list[float] = []
        self._queue: deque[Node] = deque()

    def grant(self, node: Node, moment: float) -> bool:
        """Tell if a node may begin a turn now; if not, it waits in the queue, the first of which is woken as `next` says.

        Args:
            node: the node.
            moment: the time in seconds.
        """
        free = self._is_free(moment)
        if self._queue and self._queue[0] is node:
            if free:
                self._queue.popleft()
            return free
        if free and not self._queue:  # when nodes wait, the core belongs to the first of them
            return True
        if node not in self._queue:
            self._queue.append(node)
        return False

    def is_first(self, node: Node) -> bool:
        """Tell if a node is the first in the queue."""
        return bool(self._queue) and self._queue[0] is node

    def leave(self, node: Node) -> bool:
        """Take a node that will have no turn any more out of the queue; tell if it was in it.

        Args:
            node: the node.
        """
        if node not in self._queue:
            return False
        self._queue.remove(node)
        return True

    def take(self, end: float) -> None:
        """Let the node that has begun a turn keep its core until `end`."""
        heappush(self._ends, end)

    def next(self, moment: float) -> tuple[float, Node] | None:
        """Return the node that is first in the queue and the time at which it gets a core, None where no node waits.

        Args:
            moment: the time in seconds.
        """
        if not self._queue:
            return None
        return (moment if self._is_free(moment) else self._ends[0]), self._queue[0]

    def _is_free(self, moment: float) -> bool:
        while self._ends and self._ends[0] <= moment:  # at the end of a turn its core is free already
            heappop(self._ends)
        return len(self._ends) < self._count

"""Tasks that no node holds: those that any node may execute, and those that are to run near what they need."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping


class Waiting:
    """Tasks in order. A task with nodes of its own waits for one of them, and for any node once all of them are lost.

    Attribute: `free`, the tasks that any node may have.
    """

    def __init__(self) -> None:
        self.free: deque[int] = deque()
        self._near: dict[int, frozenset[int]] = {}  # the nodes of all unfinished tasks that have some
        self._at: dict[int, deque[int]] = {}  # by node; a task that waits for several stands in several
        self._bound: dict[int, None] = {}  # which of those wait: what else stands in `_at` has been taken

    def __len__(self) -> int:
        return len(self.free) + len(self._bound)

    @property
    def has_bound(self) -> bool:
        """Whether some unfinished task has nodes of its own."""
        return bool(self._near)

    def may_run(self, task: int, node: int) -> bool:
        """Whether `node` is one of those where a task should run."""
        near = self._near.get(task)
        return near is None or node in near

    def append(self, tasks: Iterable[int], near: Mapping[int, frozenset[int]], nodes: Iterable[int]) -> None:
        """Add new tasks; of the nodes in `near` those count that are among `nodes`."""
        there = frozenset(nodes) if near else frozenset()
        for task in tasks:
            own = near.get(task, frozenset()) & there
            if not own:
                self.free.append(task)
                continue
            self._near[task] = own
            self._bound[task] = None
            for node in own:
                self._at.setdefault(node, deque()).append(task)

    def put_back(self, tasks: Iterable[int]) -> None:
        """Tasks that a node held wait again, before all others, in this order."""
        for task in reversed(list(tasks)):
            if task not in self._near:
                self.free.appendleft(task)
                continue
            self._bound[task] = None
            for node in self._near[task]:
                self._at.setdefault(node, deque()).appendleft(task)

    def first_at(self, node: int) -> int | None:
        """The first task that waits for `node`."""
        line = self._at.get(node)
        while line and line[0] not in self._bound:
            line.popleft()
        return line[0] if line else None

    def take_at(self, node: int) -> None:
        """Take the first task that waits for `node`."""
        del self._bound[self._at[node].popleft()]

    def lose(self, node: int) -> None:
        """A node is gone: tasks that it alone was near to may run anywhere, and come first."""
        self._at.pop(node, None)
        freed = []
        for task, near in list(self._near.items()):
            if node in near:
                self._near[task] = near - {node}
                if not self._near[task]:
                    del self._near[task]
                    if task in self._bound:
                        del self._bound[task]
                        freed.append(task)
        self.free.extendleft(reversed(freed))

    def forget(self, task: int) -> None:
        """A task has ended."""
        self._near.pop(task, None)
        self._bound.pop(task, None)

    def clear(self) -> tuple[int, ...]:
        """Take all that wait."""
        everything = (*self.free, *self._bound)
        self.free.clear()
        self._bound.clear()
        self._at.clear()
        return everything

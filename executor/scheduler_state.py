"""State of the scheduler: its events and actions, tasks that wait, and how long tasks take."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class TaskInfo(NamedTuple):
    """Properties of a task for the scheduler.

    Args:
        size: bytes of its arguments.
        kind: a number for its function.
        retries: retries after a loss (None: as many as all have).
    """

    size: int
    kind: int = 0
    retries: int | None = None


@dataclass(frozen=True)
class Submitted:
    """Event: new `tasks`, their properties, and for some the nodes that have the values they need."""

    tasks: tuple[int, ...]
    infos: tuple[TaskInfo, ...]
    near: Mapping[int, frozenset[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Finished:
    """Event: a node has done these tasks, which took it so many seconds each; those in `again` are to be tried once more."""

    node: int
    tasks: tuple[int, ...]
    seconds: tuple[float, ...]
    again: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Recalled:
    """Event: a caller wants to cancel these tasks, which no node is known to have begun."""

    tasks: tuple[int, ...]


@dataclass(frozen=True)
class GaveBack:
    """Event: a node answers a TakeBack: it has not begun these tasks, and will not. Those in `cancelled` are not wanted any
    more.
    """

    node: int
    tasks: tuple[int, ...]
    cancelled: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Withdrawn:
    """Event: these tasks, just dealt to `node`, were cancelled and are not sent."""

    node: int
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class Cut:
    """Event: no message reaches a node any more; the end of its tasks will be told by Lost."""

    node: int


@dataclass(frozen=True)
class Lost:
    """Event: a node is gone; with `returns` it will be there again.

    `last` is the task that it began last, -1 for none: those that it held behind that one have not begun. None: unknown, so
    that any of them may have.
    """

    node: int
    reason: str
    last: int | None = None
    returns: bool = False


@dataclass(frozen=True)
class Returned:
    """Event: a node that was lost is there again, and holds nothing."""

    node: int


@dataclass(frozen=True)
class Cleared:
    """Event: all tasks that no node has begun are cancelled, from now on."""


@dataclass(frozen=True)
class Send:
    """Action: send tasks to a node."""

    node: int
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class Begin:
    """Action: count a task as begun: its node is at it, or will be as soon as it hears of it."""

    task: int


@dataclass(frozen=True)
class Wait:
    """Action: these tasks, which have not begun, lie at no node any more."""

    tasks: tuple[int, ...]


@dataclass(frozen=True)
class TakeBack:
    """Action: ask a node for tasks; it gives back those that it has not begun."""

    node: int
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class Fail:
    """Action: give tasks up, because of `node` (None: there is none left)."""

    tasks: tuple[int, ...]
    node: int | None
    reason: str


@dataclass(frozen=True)
class Cancel:
    """Action: cancel tasks that have not begun and never will."""

    tasks: tuple[int, ...]


class PendingTasks:
    """Tasks in order. A task with nodes of its own waits for one of them, and for any node once all of them are lost.

    Attribute: `free`, the tasks that any node may have.
    """

    def __init__(self) -> None:
        self.free: deque[int] = deque()
        self._near: dict[int, frozenset[int]] = {}  # the nodes of all unfinished tasks that have some
        self._at: dict[int, deque[int]] = {}  # by node; a task that waits for several stands in several
        self._bound: dict[int, None] = {}  # which of those wait: the others in `_at` have been taken

    def __len__(self) -> int:
        return len(self.free) + len(self._bound)

    @property
    def has_bound(self) -> bool:
        return bool(self._near)

    def may_run(self, task: int, node: int) -> bool:
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
        """Put tasks that a node held back before all others, in this order."""
        # from the last one on: each is put in front of the others
        for task in reversed(list(tasks)):
            if task not in self._near:
                self.free.appendleft(task)
                continue
            self._bound[task] = None
            for node in self._near[task]:
                self._at.setdefault(node, deque()).appendleft(task)

    def first_at(self, node: int) -> int | None:
        line = self._at.get(node)
        # taken by another node that it stands at, too
        while line and line[0] not in self._bound:
            line.popleft()
        return line[0] if line else None

    def take_at(self, node: int) -> None:
        del self._bound[self._at[node].popleft()]

    def lose(self, node: int) -> None:
        """Remove a node: tasks that it alone was near to may run anywhere, and come first."""
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
        # `extendleft` turns the order round
        self.free.extendleft(reversed(freed))

    def forget(self, task: int) -> None:
        self._near.pop(task, None)
        self._bound.pop(task, None)

    def clear(self) -> tuple[int, ...]:
        everything = (*self.free, *self._bound)
        self.free.clear()
        self._bound.clear()
        self._at.clear()
        return everything


MOST_KINDS = 4096  # remembered; beyond that the one that was new longest ago is forgotten


class DurationEstimates:
    """Seconds per task by `kind`, a number for a function. Nothing is known of a kind that has ended no task.

    An estimate rises at once and falls by halves: one long task is enough to make those behind it wait where they can go to a
    free node, and a function that is quick again is soon known to be.
    """

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    def add(self, kind: int, seconds: float) -> None:
        known = self._seconds.get(kind)
        if known is None:
            if len(self._seconds) >= MOST_KINDS:
                # dicts keep the order of insertion, so this is the oldest
                del self._seconds[next(iter(self._seconds))]
            self._seconds[kind] = seconds
        else:
            self._seconds[kind] = max(seconds, 0.5 * (known + seconds))

    def of(self, kind: int) -> float | None:
        return self._seconds.get(kind)


class Question(NamedTuple):
    """Tasks that a node was asked to give back."""

    tasks: frozenset[int]
    steals: bool  # for a node without work


@dataclass
class NodeState:
    """State of a node, as the scheduler knows it."""

    held: dict[int, float] = field(default_factory=dict)  # in the order of sending, which is that of execution: seconds
    size: int = 0
    load: float = 0.0  # seconds that all it holds is expected to take, as each is, but for
    unknown: set[int] = field(default_factory=set)  # tasks of functions of which nothing was known, FIRST_TASKS at most
    at: int | None = None  # the task that it was told to be at
    questions: deque[Question] = field(default_factory=deque)  # without an answer so far, first to last
    fresh: bool = False  # it was sent tasks after it was asked for some for a node without work
    empty_handed: bool = False  # it had nothing to give back, and got nothing since
    since: float = 0.0  # when it began with its first task, at the earliest
    cut: bool = False

    @property
    def asked(self) -> bool:
        """Whether a node without work waits for its answer."""
        return any(question.steals for question in self.questions)

    def is_asked_for(self, task: int) -> bool:
        """Tell if it was asked to give `task` back, and has not answered."""
        return any(task in question.tasks for question in self.questions)

"""Which node gets which task, as a state machine: without socket, thread or clock inside.

Tasks go out in the order of submission. A node holds no more than what keeps it busy for a moment, so that later tasks can
go to whoever is free; what a node holds and has not begun is taken back when another has nothing to do. Tasks of a lost node
go to others as often as `retries` allows. A *pure* task may run twice: a copy of one that takes much longer than tasks
do goes to a node without work, and the first result counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from rpc.machine import Machine

LOOKAHEAD_SECONDS = 0.03  # of work that a node holds
MOST_TASKS = 1024  # that a node holds, however small
MOST_BYTES = 64 << 20  # of arguments that a node holds; one task may have more
FIRST_TASKS = 2  # that a node holds while nobody knows how long they take
LATE_SECONDS, LATE_FACTOR = 1.0, 4.0  # a pure task is late beyond both


@dataclass(frozen=True)
class Submitted:
    """New tasks, and the bytes of the arguments of each."""

    tasks: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Finished:
    """A node has done these tasks, which took it `seconds` in all."""

    node: int
    tasks: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class GaveBack:
    """A node has given these tasks back, not begun."""

    node: int
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class Withdrawn:
    """These tasks, just dealt to `node`, were cancelled and are not sent."""

    node: int
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class Lost:
    """A node is gone."""

    node: int
    reason: str


@dataclass(frozen=True)
class Cleared:
    """All tasks that no node holds were cancelled."""


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True)
class Send:
    """Send tasks to a node."""

    node: int
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class TakeBack:
    """Ask a node for up to `count` tasks that it has not begun."""

    node: int
    count: int


@dataclass(frozen=True)
class Fail:
    """Give tasks up, because of `node` (None: there is none left)."""

    tasks: tuple[int, ...]
    node: int | None
    reason: str


@dataclass(frozen=True)
class Cancel:
    """Tasks that were waiting and never will run."""

    tasks: tuple[int, ...]


@dataclass
class _Node:
    held: dict[int, None] = field(default_factory=dict)  # in the order of sending, which is that of execution
    size: int = 0
    each: float | None = None  # seconds per task, lately
    asked: bool = False  # to give tasks back, without an answer so far
    empty_handed: bool = False  # it had nothing to give back, and got nothing since
    since: float = 0.0  # when it began with its first task, at the earliest

    def depth(self, now: float) -> int:
        """How many tasks it may hold; few when one has taken longer already than all should."""
        if self.each is None or (self.held and now - self.since > LOOKAHEAD_SECONDS):
            return FIRST_TASKS
        return max(FIRST_TASKS, min(MOST_TASKS, int(LOOKAHEAD_SECONDS / max(self.each, 1e-9))))


class Scheduler(Machine):
    """See the module. `deadline` is when to send the next Tick, None for never."""

    def __init__(self, nodes: Iterable[int], retries: int = 0, pure: bool = False) -> None:
        super().__init__()
        self._nodes = {node: _Node() for node in nodes}
        self._waiting: deque[int] = deque()
        self._sizes: dict[int, int] = {}  # of all unfinished tasks
        self._losses: dict[int, int] = {}
        self._copies: dict[int, int] = {}  # how many nodes hold a task, if more than one
        self._retries, self._pure = retries, pure
        self.deadline: float | None = None

    @property
    def unfinished(self) -> int:
        """How many tasks wait or run."""
        return len(self._sizes)

    def _decide(self, event: object, now: float) -> list[object]:
        actions: list[object] = []
        if isinstance(event, Submitted):
            self._sizes.update(zip(event.tasks, event.sizes, strict=True))
            self._waiting.extend(event.tasks)
        elif isinstance(event, Finished):
            self._on_finished(event, now)
        elif isinstance(event, GaveBack):
            self._on_given_back(event)
        elif isinstance(event, Withdrawn):
            self._release(event.node, event.tasks, event)
            self._forget(event.tasks)
        elif isinstance(event, Lost):
            actions = self._on_lost(event)
        elif isinstance(event, Cleared):
            actions = [Cancel(tuple(self._waiting))]
            self._forget(self._waiting)
            self._waiting.clear()
        elif not isinstance(event, Tick):
            raise self._impossible(event)
        if not self._nodes and self._waiting:
            actions.append(Fail(tuple(self._waiting), None, "no node is left"))
            self._forget(self._waiting)
            self._waiting.clear()
        return actions + self._deal(now)

    # ---- events

    def _on_finished(self, event: Finished, now: float) -> None:
        node = self._release(event.node, event.tasks, event)
        each = event.seconds / max(1, len(event.tasks))
        node.each = each if node.each is None else 0.5 * (node.each + each)
        node.since, node.empty_handed = now, False
        self._forget(event.tasks)

    def _on_given_back(self, event: GaveBack) -> None:
        if event.node not in self._nodes or not self._nodes[event.node].asked:
            raise self._impossible(event)
        node = self._release(event.node, event.tasks, event)
        node.asked, node.empty_handed = False, not event.tasks
        back = [task for task in event.tasks if task in self._sizes and self._drop_copy(task)]
        self._waiting.extendleft(reversed(back))

    def _on_lost(self, event: Lost) -> list[object]:
        held = self._nodes.pop(event.node).held
        again: list[int] = []
        failed: list[int] = []
        for task in held:
            if task not in self._sizes or not self._drop_copy(task):
                continue  # its other copy has ended, or goes on elsewhere
            self._losses[task] = self._losses.get(task, 0) + 1
            (again if self._losses[task] <= self._retries else failed).append(task)
        self._waiting.extendleft(reversed(again))
        self._forget(failed)
        return [Fail(tuple(failed), event.node, event.reason)] if failed else []

    def _release(self, number: int, tasks: Collection[int], event: object) -> _Node:
        """A node does not hold these tasks any more."""
        node = self._nodes.get(number)
        if node is None or len(set(tasks)) != len(tasks) or not all(task in node.held for task in tasks):
            raise self._impossible(event)  # before anything has changed: what the node holds ends with its loss
        for task in tasks:
            del node.held[task]
            node.size -= self._sizes.get(task, 0)
        if not node.held:
            node.size = 0
        return node

    def _drop_copy(self, task: int) -> bool:
        """Whether that was the only copy of a task."""
        copies = self._copies.pop(task, 1)
        if copies > 2:
            self._copies[task] = copies - 1
        return copies == 1

    def _forget(self, tasks: Iterable[int]) -> None:
        for task in tasks:
            self._sizes.pop(task, None)
            self._losses.pop(task, None)
            self._copies.pop(task, None)

    # ---- decisions

    def _deal(self, now: float) -> list[object]:
        """Give waiting tasks to the nodes that hold least, then see to those that have nothing."""
        dealt: dict[int, list[int]] = {}
        while self._waiting:
            number = self._next_node(self._sizes[self._waiting[0]], now)
            if number is None:
                break
            task = self._waiting.popleft()
            self._hold(number, task, now)
            dealt.setdefault(number, []).append(task)
        actions: list[object] = [Send(number, tuple(tasks)) for number, tasks in dealt.items()]
        self.deadline = None
        if not self._waiting:
            for number, node in self._nodes.items():
                if not node.held:
                    actions += self._relieve(number, now)
        return actions

    def _next_node(self, size: int, now: float) -> int | None:
        best, least = None, 0
        for number, node in self._nodes.items():
            count = len(node.held)
            fits = count < node.depth(now) and (not count or node.size + size <= MOST_BYTES)
            if fits and (best is None or count < least):
                best, least = number, count
                if not count:
                    break
        return best

    def _hold(self, number: int, task: int, now: float) -> None:
        node = self._nodes[number]
        if not node.held:
            node.since = now
        node.held[task] = None
        node.size += self._sizes[task]
        node.empty_handed = False

    def _relieve(self, idle: int, now: float) -> list[object]:
        """Find something to do for a node without work."""
        victims = [(len(n.held), number) for number, n in self._nodes.items() if len(n.held) > 1 and not n.empty_handed]
        if victims:
            count, number = max(victims)
            if not self._nodes[number].asked:
                self._nodes[number].asked = True
                return [TakeBack(number, count // 2)]
            return []
        return self._copy(idle, now) if self._pure else []

    def _copy(self, idle: int, now: float) -> list[object]:
        typical = max((node.each or 0.0 for node in self._nodes.values()), default=0.0)
        patience = max(LATE_SECONDS, LATE_FACTOR * typical)
        for number, node in self._nodes.items():
            if number == idle or not node.held:
                continue
            task = next(iter(node.held))
            if task not in self._sizes or task in self._copies:
                continue
            if now - node.since >= patience:
                self._copies[task] = 2
                self._hold(idle, task, now)
                return [Send(idle, (task,))]
            due = node.since + patience
            self.deadline = due if self.deadline is None else min(self.deadline, due)
        return []

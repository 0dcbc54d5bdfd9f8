"""Which node gets which task, as a state machine: without socket, thread or clock inside.

Tasks go out in the order of submission, those that are to run near what they need to nodes that have it while there is one,
and only to these. A node holds no more than what keeps it busy for a moment, so that later tasks can
go to whoever is free; what a node holds and has not begun is taken back when another has nothing to do. Tasks of a lost node
go to others as often as `retries` allows. A *pure* task may run twice: a copy of one that takes much longer than tasks
do goes to a node without work, and the first result counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from rpc.machine import Machine

from .events import Cancel, Cleared, Fail, Finished, GaveBack, Lost, Send, Submitted, TakeBack, Tick, Withdrawn
from .waiting import Waiting

LOOKAHEAD_SECONDS = 0.03  # of work that a node holds
MOST_TASKS = 1024  # that a node holds, however small
MOST_BYTES = 64 << 20  # of arguments that a node holds; one task may have more
FIRST_TASKS = 2  # that a node holds while nobody knows how long they take
LATE_SECONDS, LATE_FACTOR = 1.0, 4.0  # a pure task is late beyond both


@dataclass
class _Node:
    held: dict[int, None] = field(default_factory=dict)  # in the order of sending, which is that of execution
    size: int = 0
    each: float | None = None  # seconds per task, lately
    asked: bool = False  # to give tasks back, without an answer so far
    fresh: bool = False  # it was sent tasks after it was asked
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
        self._waiting = Waiting()
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
            self._waiting.append(event.tasks, event.near, self._nodes)
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
            actions = [Cancel(self._clear())]
        elif not isinstance(event, Tick):
            raise self._impossible(event)
        if not self._nodes and self._waiting:
            actions.append(Fail(self._clear(), None, "no node is left"))
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
        node.asked, node.empty_handed = False, not (event.tasks or node.fresh)
        back = [task for task in event.tasks if task in self._sizes and self._drop_copy(task)]
        self._waiting.put_back(back)

    def _on_lost(self, event: Lost) -> list[object]:
        held = self._nodes.pop(event.node).held
        self._waiting.lose(event.node)
        again: list[int] = []
        failed: list[int] = []
        for task in held:
            if task not in self._sizes or not self._drop_copy(task):
                continue  # its other copy has ended, or goes on elsewhere
            self._losses[task] = self._losses.get(task, 0) + 1
            (again if self._losses[task] <= self._retries else failed).append(task)
        self._waiting.put_back(again)
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
            self._waiting.forget(task)

    def _clear(self) -> tuple[int, ...]:
        """Give up all tasks that wait."""
        waiting = self._waiting.clear()
        self._forget(waiting)
        return waiting

    # ---- decisions

    def _deal(self, now: float) -> list[object]:
        """Give waiting tasks to the nodes that hold least, then see to those that have nothing."""
        dealt: dict[int, list[int]] = {}
        if self._waiting.has_bound:
            self._deal_bound(dealt, now)
        free = self._waiting.free
        while free:
            number = self._next_node(self._sizes[free[0]], now)
            if number is None:
                break
            task = free.popleft()
            self._hold(number, task, now)
            dealt.setdefault(number, []).append(task)
        actions: list[object] = [Send(number, tuple(tasks)) for number, tasks in dealt.items()]
        self.deadline = None
        if not free:
            for number, node in self._nodes.items():
                if not node.held:
                    actions += self._relieve(number, now)
        return actions

    def _deal_bound(self, dealt: dict[int, list[int]], now: float) -> None:
        """Tasks with nodes of their own, to each node one in turn, so that those that have the same are used alike."""
        open_nodes = dict(self._nodes)
        while open_nodes:
            for number, node in list(open_nodes.items()):
                task = self._waiting.first_at(number)
                if task is None or not self._has_room(node, self._sizes[task], now):
                    del open_nodes[number]
                    continue
                self._waiting.take_at(number)
                self._hold(number, task, now)
                dealt.setdefault(number, []).append(task)

    def _next_node(self, size: int, now: float) -> int | None:
        best, least = None, 0
        for number, node in self._nodes.items():
            count = len(node.held)
            if self._has_room(node, size, now) and (best is None or count < least):
                best, least = number, count
                if not count:
                    break
        return best

    @staticmethod
    def _has_room(node: _Node, size: int, now: float) -> bool:
        return len(node.held) < node.depth(now) and (not node.held or node.size + size <= MOST_BYTES)

    def _hold(self, number: int, task: int, now: float) -> None:
        node = self._nodes[number]
        if not node.held:
            node.since = now
        node.held[task] = None
        node.size += self._sizes[task]
        node.fresh, node.empty_handed = True, False

    def _relieve(self, idle: int, now: float) -> list[object]:
        """Find something to do for a node without work."""
        victims = [(len(n.held), number) for number, n in self._nodes.items() if len(n.held) > 1 and not n.empty_handed]
        for _, number in sorted(victims, reverse=True):
            count = self._spare(self._nodes[number], idle)
            if count:
                if self._nodes[number].asked:
                    return []
                self._nodes[number].asked, self._nodes[number].fresh = True, False
                return [TakeBack(number, count)]
        return self._copy(idle, now) if self._pure else []

    def _spare(self, node: _Node, idle: int) -> int:
        """How many of the last tasks that `node` holds may run on `idle`, half of all at most."""
        half = len(node.held) // 2
        if not self._waiting.has_bound:
            return half
        last = itertools.islice(reversed(node.held), half)
        return sum(1 for _ in itertools.takewhile(lambda task: self._waiting.may_run(task, idle), last))

    def _copy(self, idle: int, now: float) -> list[object]:
        typical = max((node.each or 0.0 for node in self._nodes.values()), default=0.0)
        patience = max(LATE_SECONDS, LATE_FACTOR * typical)
        for number, node in self._nodes.items():
            if number == idle or not node.held:
                continue
            task = next(iter(node.held))
            if task not in self._sizes or task in self._copies or not self._waiting.may_run(task, idle):
                continue
            if now - node.since >= patience:
                self._copies[task] = 2
                self._hold(idle, task, now)
                return [Send(idle, (task,))]
            due = node.since + patience
            self.deadline = due if self.deadline is None else min(self.deadline, due)
        return []

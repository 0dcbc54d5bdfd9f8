"""Scheduler, which gives tasks to nodes, as a state machine: without socket, thread or clock inside.

Tasks go out in the order of submission, those that are to run near their values to nodes that have them while there is one, and
only to these. A node holds no more tasks than keep it busy for a moment, by the duration of earlier tasks of the same function,
so that later tasks can go to a free node. It executes the tasks it holds in the order of sending: the first task is the one
that it is at, the others have not begun as far as is known, and the node alone can say so: they are taken back from it when
another node has nothing to do, and when they are cancelled. Of a lost node, tasks that had begun go to others as often as their
`retries` allow, the others at no cost. A *pure* task may run twice: a copy of one that takes much longer than tasks do goes to
a node without work, and the first result counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable

from rpc.machine import Machine, Tick

from .scheduler_state import (
    Begin,
    Cancel,
    Cleared,
    Cut,
    DurationEstimates,
    Fail,
    Finished,
    GaveBack,
    Lost,
    NodeState,
    PendingTasks,
    Question,
    Recalled,
    Returned,
    Send,
    Submitted,
    TakeBack,
    TaskInfo,
    Wait,
    Withdrawn,
)

LOOKAHEAD_SECONDS = 0.03  # of work that a node holds
MOST_TASKS = 1024  # that a node holds, however small
MOST_BYTES = 64 << 20  # of arguments that a node holds; one task may have more
FIRST_TASKS = 2  # that a node holds while it is not known how long they take
LATE_SECONDS, LATE_FACTOR = 1.0, 4.0  # a pure task is late beyond both


class Scheduler(Machine):
    """State machine that deals tasks to nodes, takes them back, and deals them again after a loss.

    `deadline` is when to send the next Tick, None for never.

    Args:
        nodes: ids of the nodes.
        retries: how often a task is tried again after the loss of its node.
        pure: whether tasks may run twice.
    """

    def __init__(self, nodes: Iterable[int], retries: int = 0, pure: bool = False) -> None:
        super().__init__()
        self._nodes = {node: NodeState() for node in nodes}
        self._away: set[int] = set()  # lost nodes that return
        self._waiting = PendingTasks()
        self._infos: dict[int, TaskInfo] = {}  # of all unfinished tasks
        self._estimates = DurationEstimates()
        self._losses: dict[int, int] = {}
        self._copies: dict[int, int] = {}  # how many nodes hold a task, if more than one
        self._retries, self._pure = retries, pure
        self._clearing = False
        self.deadline: float | None = None

    @property
    def unfinished(self) -> int:
        return len(self._infos)

    @property
    def running(self) -> int:
        return sum(1 for node in list(self._nodes.values()) if node.at is not None)  # a copy: other threads ask for this

    def holder(self, task: int) -> int | None:
        """Find the node that holds a task which is known to have begun nowhere."""
        return next((number for number, node in self._nodes.items() if task in node.held), None)

    def held(self, node: int) -> list[int]:
        return list(self._nodes[node].held) if node in self._nodes else []

    def may_try_again(self, task: int) -> bool:
        info = self._infos[task]
        return self._losses.get(task, 0) < (self._retries if info.retries is None else info.retries)

    def _decide(self, event: object, now: float) -> list[object]:
        actions: list[object] = []
        if isinstance(event, Submitted):
            self._infos.update(zip(event.tasks, event.infos, strict=True))
            self._waiting.append(event.tasks, event.near, self._nodes)
        elif isinstance(event, Finished):
            self._on_finished(event, now)
        elif isinstance(event, Recalled):
            actions = self._recall(event.tasks)
        elif isinstance(event, GaveBack):
            actions = self._on_given_back(event)
        elif isinstance(event, Withdrawn):
            self._release(event.node, event.tasks, event)
            self._forget(event.tasks)
        elif isinstance(event, Cut):
            # it keeps its tasks: how its process ended decides which of them had begun
            self._nodes[event.node].cut = True
        elif isinstance(event, Lost):
            actions = self._on_lost(event)
        elif isinstance(event, Returned):
            self._away.remove(event.node)
            self._nodes[event.node] = NodeState()
        elif isinstance(event, Cleared):
            self._clearing = True
            held = [task for node in self._nodes.values() for task in node.held]
            actions = [*self._recall(held), Cancel(self._clear())]
        elif not isinstance(event, Tick):
            raise self._impossible(event)
        # no node, and none that returns
        if not self._nodes and not self._away and self._waiting:
            actions.append(Fail(self._clear(), None, "no node is left"))
        # after each event, as any of them may have made room
        return actions + self._deal(now) + self._begin()

    # ---- events

    def _on_finished(self, event: Finished, now: float) -> None:
        # first: a message that cannot be is refused before it has changed anything
        node = self._release(event.node, event.tasks, event)
        for task, seconds in zip(event.tasks, event.seconds, strict=True):
            info = self._infos.get(task)
            if info is not None:  # else the copy of one that has ended
                self._estimates.add(info.kind, seconds)
        node.since, node.empty_handed = now, False
        # an exception that is tried again counts like the loss of a node
        for task in event.again:
            self._losses[task] = self._losses.get(task, 0) + 1
        self._waiting.put_back(task for task in event.tasks if task in event.again and self._drop_copy(task))
        self._forget(task for task in event.tasks if task not in event.again)

    def _recall(self, tasks: Iterable[int]) -> list[object]:
        """Ask the nodes for tasks that they are not known to have begun, unless they have been asked already."""
        wanted = frozenset(tasks)
        actions: list[object] = []
        for number, node in self._nodes.items():
            # the first task may have begun; asking for it would only delay the answer
            asked = [task for task in node.held if task in wanted and task != node.at and not node.is_asked_for(task)]
            if asked and not node.cut:
                actions.append(self._ask(number, asked, steals=False))
        return actions

    def _ask(self, number: int, tasks: Iterable[int], *, steals: bool) -> TakeBack:
        question = TakeBack(number, tuple(tasks))
        self._nodes[number].questions.append(Question(frozenset(question.tasks), steals))
        return question

    def _on_given_back(self, event: GaveBack) -> list[object]:
        node = self._nodes.get(event.node)
        if node is None or not node.questions or not node.questions[0].tasks.issuperset(event.tasks):
            raise self._impossible(event)
        self._release(event.node, event.tasks, event)
        question = node.questions.popleft()
        if question.steals:
            # a node that had nothing to give is not asked again before it gets new tasks: it would be asked in a circle
            node.empty_handed = not (event.tasks or node.fresh)
        cancelled = event.tasks if self._clearing else tuple(task for task in event.tasks if task in event.cancelled)
        self._forget(cancelled)
        back = tuple(task for task in event.tasks if task in self._infos and self._drop_copy(task))
        self._waiting.put_back(back)
        actions: list[object] = [Wait(back)] if back else []
        return [*actions, Cancel(cancelled)] if cancelled else actions

    def _on_lost(self, event: Lost) -> list[object]:
        (self._away.add if event.returns else self._away.discard)(event.node)
        if event.node not in self._nodes:
            return []
        held = list(self._nodes.pop(event.node).held)
        # before its tasks are put back: those near to it alone may now run anywhere
        self._waiting.lose(event.node)
        # tasks run in the order of sending: the last one that it told has begun, and so have those before it; where it told
        # nothing all may have
        begun = len(held) if event.last is None else held.index(event.last) + 1 if event.last in held else 0
        actions: list[object] = [Begin(task) for task in held[:begun]]
        failed, again, spared = self._sort_out(held[:begun], held[begun:])
        cancelled, spared = (spared, []) if self._clearing else ([], spared)
        self._waiting.put_back([*again, *spared])
        self._forget([*failed, *cancelled])
        actions += [Fail(tuple(failed), event.node, event.reason)] if failed else []
        actions += [Cancel(tuple(cancelled))] if cancelled else []
        return [*actions, Wait(tuple(spared))] if spared else actions

    def _sort_out(self, begun: Iterable[int], others: Iterable[int]) -> tuple[list[int], list[int], list[int]]:
        """Sort the tasks of a lost node into those that fail, those that are tried again, and those that lose nothing."""
        failed: list[int] = []
        again: list[int] = []
        for task in begun:
            if task not in self._infos or not self._drop_copy(task):
                continue  # its other copy has ended, or goes on elsewhere
            (again if self.may_try_again(task) else failed).append(task)
            self._losses[task] = self._losses.get(task, 0) + 1
        return failed, again, [task for task in others if task in self._infos and self._drop_copy(task)]

    def _release(self, number: int, tasks: Collection[int], event: object) -> NodeState:
        """Take tasks off a node."""
        node = self._nodes.get(number)
        if node is None or len(set(tasks)) != len(tasks) or not all(task in node.held for task in tasks):
            raise self._impossible(event)  # before anything has changed: the tasks that the node holds end with its loss
        for task in tasks:
            node.load -= node.held.pop(task)
            node.unknown.discard(task)
            info = self._infos.get(task)
            node.size -= info.size if info is not None else 0
        if node.at not in node.held:
            node.at = None
        # sums of floats do not come back to 0 by themselves
        if not node.held:
            node.size, node.load = 0, 0.0
        return node

    def _drop_copy(self, task: int) -> bool:
        """Count a copy of a task as ended; return whether it was the only one."""
        copies = self._copies.pop(task, 1)  # one that is held once is not in the table
        if copies > 2:
            self._copies[task] = copies - 1
        return copies == 1

    def _forget(self, tasks: Iterable[int]) -> None:
        for task in tasks:
            self._infos.pop(task, None)
            self._losses.pop(task, None)
            self._copies.pop(task, None)
            self._waiting.forget(task)

    def _clear(self) -> tuple[int, ...]:
        waiting = self._waiting.clear()
        self._forget(waiting)
        return waiting

    # ---- decisions

    def _deal(self, now: float) -> list[object]:
        """Give waiting tasks to the nodes that hold least, then see to those that have nothing."""
        dealt: dict[int, list[int]] = {}
        # tasks bound to nodes first: free ones can go anywhere, and would fill the only nodes that may run these
        if self._waiting.has_bound:
            self._deal_bound(dealt, now)
        free = self._waiting.free
        while free:
            number = self._next_node(self._infos[free[0]], now)
            if number is None:
                # in order: small tasks that overtake a large one without room could starve it
                break
            task = free.popleft()
            self._hold(number, task, now)
            dealt.setdefault(number, []).append(task)
        actions: list[object] = [Send(number, tuple(tasks)) for number, tasks in dealt.items()]
        self.deadline = None
        # a node without work gets a copy of a late task, or one of another node's, only when nothing waits
        if not free:
            for number, node in self._nodes.items():
                if not node.held and not node.cut:
                    actions += self._relieve(number, now)
        return actions

    def _deal_bound(self, dealt: dict[int, list[int]], now: float) -> None:
        """Deal tasks with nodes of their own, to each node one in turn, so that those that have the same are used alike."""
        open_nodes = dict(self._nodes)
        while open_nodes:
            for number, node in list(open_nodes.items()):
                task = self._waiting.first_at(number)
                if task is None or not self._has_room(node, self._infos[task], now):
                    del open_nodes[number]
                    continue
                self._waiting.take_at(number)
                self._hold(number, task, now)
                dealt.setdefault(number, []).append(task)

    def _next_node(self, info: TaskInfo, now: float) -> int | None:
        best, least = None, 0
        for number, node in self._nodes.items():
            count = len(node.held)
            if (best is None or count < least) and self._has_room(node, info, now):
                best, least = number, count
                # an idle node cannot be beaten
                if not count:
                    break
        return best

    def _has_room(self, node: NodeState, info: TaskInfo, now: float) -> bool:
        """Tell if a node may hold one more task; few when the first has taken longer already than all should."""
        count = len(node.held)
        if node.cut or (count and node.size + info.size > MOST_BYTES):
            return False
        # two whatever they take: one that runs, and one that is there when it ends
        if count < FIRST_TASKS:
            return True
        seconds = self._estimates.of(info.kind)
        if seconds is None or count >= MOST_TASKS or now - node.since > LOOKAHEAD_SECONDS:
            return False
        return node.load + seconds + sum(map(self._expected, node.unknown)) <= LOOKAHEAD_SECONDS

    def _expected(self, task: int) -> float:
        """Estimate the seconds that a task will take; one of an unknown function keeps a node busy for as long as it should
        be.
        """
        info = self._infos.get(task)
        seconds = None if info is None else self._estimates.of(info.kind)
        return LOOKAHEAD_SECONDS if seconds is None else seconds

    def _hold(self, number: int, task: int, now: float) -> None:
        node, info = self._nodes[number], self._infos[task]
        if not node.held:
            node.since = now
        seconds = self._estimates.of(info.kind)
        if seconds is None:
            node.unknown.add(task)
        node.held[task] = seconds or 0.0
        node.load += node.held[task]
        node.size += info.size
        node.fresh, node.empty_handed = True, False

    def _begin(self) -> list[object]:
        """Begin the first task of each node. A task that a node was asked to give back is in doubt until it answers."""
        actions: list[object] = []
        for node in self._nodes.values():
            if node.at is None and node.held:
                first = next(iter(node.held))
                if not node.questions or not node.is_asked_for(first):
                    node.at = first
                    actions.append(Begin(first))
        return actions

    def _relieve(self, idle: int, now: float) -> list[object]:
        """Find something to do for a node without work."""
        victims = [
            (len(node.held), number)
            for number, node in self._nodes.items()
            if len(node.held) > 1 and not node.empty_handed and not node.cut
        ]
        # the node that holds most first
        for _, number in sorted(victims, reverse=True):
            node = self._nodes[number]
            # one question at a time: its answer may suffice
            if node.asked:
                return []
            spare = self._spare(node, idle)
            if spare:
                node.fresh = False
                return [self._ask(number, spare, steals=True)]
        return self._copy(idle, now) if self._pure else []

    def _spare(self, node: NodeState, idle: int) -> list[int]:
        """Choose the last tasks that `node` holds and that may run on `idle`, half of all at most, in order."""
        # from the end: the first ones may begin before the question arrives
        last = itertools.islice(reversed(node.held), len(node.held) // 2)
        asked = bool(node.questions)
        found = itertools.takewhile(
            lambda task: self._waiting.may_run(task, idle) and not (asked and node.is_asked_for(task)), last
        )
        return list(found)[::-1]

    def _copy(self, idle: int, now: float) -> list[object]:
        for number, node in self._nodes.items():
            if number == idle or not node.held:
                continue
            task = next(iter(node.held))
            if task not in self._infos or task in self._copies or not self._waiting.may_run(task, idle):
                continue
            patience = max(LATE_SECONDS, LATE_FACTOR * (self._estimates.of(self._infos[task].kind) or 0.0))
            if now - node.since >= patience:
                self._copies[task] = 2
                self._hold(idle, task, now)
                return [Send(idle, (task,))]
            due = node.since + patience
            self.deadline = due if self.deadline is None else min(self.deadline, due)
        return []

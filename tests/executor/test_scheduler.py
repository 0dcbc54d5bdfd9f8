"""Who gets which task: the scheduler on a virtual clock, by itself and against simulated nodes."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.scheduler import FIRST_TASKS, LATE_SECONDS, LOOKAHEAD_SECONDS, MOST_BYTES, MOST_TASKS
from executor.scheduler import Scheduler as Machine
from executor.scheduler_state import (
    Begin,
    Cancel,
    Cleared,
    Cut,
    Fail,
    GaveBack,
    Lost,
    Recalled,
    Returned,
    Send,
    Submitted,
    TakeBack,
    TaskInfo,
    Wait,
    Withdrawn,
)
from executor.scheduler_state import Finished as Ended
from rpc.errors import InvalidTransition
from rpc.machine import Tick


def submitted(numbers: Iterable[int], size: int = 1, near: Iterable[int] = (), kind: int = 0) -> Submitted:
    tasks = tuple(numbers)
    return Submitted(tasks, (TaskInfo(size, kind),) * len(tasks), dict.fromkeys(tasks, frozenset(near)) if near else {})


def Finished(node: int, tasks: tuple[int, ...], seconds: float) -> Ended:
    return Ended(node, tasks, (seconds,) * len(tasks))


class Scheduler(Machine):
    """The scheduler without what it says of beginnings, which has tests of its own."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.begun: list[int] = []

    def handle(self, event: Any, now: float) -> list[Any]:
        actions = super().handle(event, now)
        self.begun += [action.task for action in actions if isinstance(action, Begin)]
        return [action for action in actions if not isinstance(action, (Begin, Wait))]


def sent(actions: list[Any]) -> dict[int, tuple[int, ...]]:
    return {action.node: action.tasks for action in actions if isinstance(action, Send)}


def test_tasks_are_spread_and_few_are_sent_ahead() -> None:
    """While nobody knows how long tasks take, each node holds one to work on and one more; the rest waits."""
    scheduler = Scheduler([0, 1])
    assert sent(scheduler.handle(submitted(range(10)), 0.0)) == {0: (0, 2), 1: (1, 3)}
    assert FIRST_TASKS == 2
    assert sent(scheduler.handle(Finished(1, (1,), 5.0), 5.0)) == {1: (4,)}
    assert scheduler.unfinished == 9


def test_tiny_tasks_are_sent_in_crowds_and_long_ones_are_not() -> None:
    """A node holds about LOOKAHEAD_SECONDS of work, and never more than MOST_TASKS."""
    scheduler = Scheduler([0])
    line = deque(sent(scheduler.handle(submitted(range(10_000)), 0.0))[0])
    line += sent(scheduler.handle(Finished(0, (line.popleft(),), 0.001), 0.1))[0]
    assert len(line) == pytest.approx(LOOKAHEAD_SECONDS / 0.001, abs=1)
    longest = 0
    for _ in range(60):
        line += sent(scheduler.handle(Finished(0, (line.popleft(),), 0.0), 0.2)).get(0, ())
        longest = max(longest, len(line))
    assert longest == MOST_TASKS
    for _ in range(20):
        line += sent(scheduler.handle(Finished(0, (line.popleft(),), 3.0), 60.0)).get(0, ())
    assert len(line) < longest


def test_a_long_task_among_tiny_ones_gathers_no_crowd_behind_it() -> None:
    """Once it runs longer than all that a node holds should, little more is sent there."""
    scheduler = Scheduler([0])
    scheduler.handle(submitted(range(2)), 0.0)
    scheduler.handle(Finished(0, (0,), 0.0), 0.001)
    assert scheduler.handle(submitted(range(2, 100)), 0.001 + 2 * LOOKAHEAD_SECONDS) == [Send(0, (2,))]
    assert len(sent(scheduler.handle(Finished(0, (1,), 0.0), 1.0))[0]) == 97


def test_large_arguments_go_one_by_one() -> None:
    """A node holds at most MOST_BYTES, or a single task."""
    scheduler = Scheduler([0])
    assert sent(scheduler.handle(submitted(range(4), MOST_BYTES + 1), 0.0)) == {0: (0,)}
    assert sent(scheduler.handle(Finished(0, (0,), 0.0), 1.0)) == {0: (1,)}


def test_an_idle_node_gets_what_another_has_not_begun() -> None:
    """Work stealing: half of the fullest line is asked for, dealt to the idle node, and not asked for again in vain."""
    scheduler = Scheduler([0, 1])
    scheduler.handle(submitted(range(4)), 0.0)
    assert scheduler.handle(Finished(0, (0,), 0.001), 0.001) == []
    assert scheduler.handle(Finished(0, (2,), 0.001), 0.002) == [TakeBack(1, (3,))]
    assert scheduler.handle(Tick(), 0.02) == []
    assert sent(scheduler.handle(GaveBack(1, (3,)), 0.03)) == {0: (3,)}
    assert scheduler.handle(Finished(0, (3,), 0.001), 0.04) == []
    assert scheduler.handle(Finished(1, (1,), 0.001), 0.05) == []
    assert scheduler.unfinished == 0


def test_a_node_that_has_nothing_to_give_is_not_asked_again() -> None:
    """What it holds had begun before it heard the question."""
    scheduler = Scheduler([0, 1])
    scheduler.handle(submitted(range(4)), 0.0)
    assert scheduler.handle(Finished(0, (0, 2), 0.1), 0.1) == [TakeBack(1, (3,))]
    assert scheduler.handle(GaveBack(1, ()), 0.2) == []
    assert scheduler.handle(Tick(), 9.0) == []


def test_what_was_sent_after_the_question_is_asked_for_again() -> None:
    """A node that had nothing to give back may have got more before it answered."""
    scheduler = Scheduler([0, 1])
    scheduler.handle(submitted(range(4)), 0.0)  # node 1 holds 1 and 3, and works on 3 already
    scheduler.handle(Finished(0, (0,), 0.01), 0.01)
    assert scheduler.handle(Finished(0, (2,), 0.01), 0.02) == [TakeBack(1, (3,))]
    assert sent(scheduler.handle(submitted(range(4, 7), kind=1), 0.03)) == {0: (4, 5)}
    assert sent(scheduler.handle(Finished(1, (1,), 0.01), 0.03)) == {1: (6,)}
    scheduler.handle(GaveBack(1, ()), 0.04)
    assert scheduler.handle(Finished(0, (4, 5), 0.01), 0.05) == [TakeBack(1, (6,))]


def test_tiny_tasks_of_one_function_send_no_crowd_of_another() -> None:
    """How long tasks take is known for each function: one that nobody knows is sent like the first of all."""
    scheduler = Scheduler([0, 1])
    scheduler.handle(submitted(range(4)), 0.0)
    scheduler.handle(Finished(0, (0, 2), 0.0), 0.0)
    scheduler.handle(Finished(1, (1, 3), 0.0), 0.0)
    assert sent(scheduler.handle(submitted(range(10, 20), kind=1), 0.0)) == {0: (10, 12), 1: (11, 13)}
    assert scheduler.handle(submitted(range(20, 30)), 0.0) == []  # behind those, in their order
    assert scheduler.running == 2


def test_a_long_task_is_remembered_at_once_and_forgotten_by_halves() -> None:
    """One that takes long is enough for those of its function to wait."""
    scheduler = Scheduler([0])
    scheduler.handle(submitted(range(100)), 0.0)
    assert len(sent(scheduler.handle(Finished(0, (0,), 0.0), 0.0))[0]) == 98
    scheduler.handle(Finished(0, tuple(range(1, 100)), 0.0), 0.0)
    scheduler.handle(submitted([100]), 0.0)
    scheduler.handle(Finished(0, (100,), 1.0), 1.0)
    assert sent(scheduler.handle(submitted(range(101, 200)), 1.0)) == {0: (101, 102)}
    for task in range(101, 104):
        scheduler.handle(Finished(0, (task,), 0.0), 1.0)
    assert len(sent(scheduler.handle(Finished(0, (104,), 0.0), 1.0)).get(0, ())) <= 1


# ---- what has begun


def test_a_node_is_at_the_first_task_that_it_holds() -> None:
    """The others have not begun, as far as is known."""
    scheduler = Scheduler([0, 1])
    scheduler.handle(submitted(range(6)), 0.0)
    assert scheduler.begun == [0, 1]
    scheduler.handle(Finished(0, (0,), 9.0), 9.0)
    assert scheduler.begun == [0, 1, 2]
    assert scheduler.running == 2
    assert [scheduler.holder(task) for task in (2, 4, 5)] == [0, 0, None]


def test_a_recalled_task_is_in_doubt_until_its_node_answers() -> None:
    """What the node gives back never runs if nobody wants it, and waits again otherwise; what it keeps has begun."""
    scheduler = Scheduler([0])
    scheduler.handle(submitted(range(3)), 0.0)
    assert scheduler.handle(Recalled((0,)), 0.0) == []  # the node is at it
    assert scheduler.handle(Recalled((1,)), 0.0) == [TakeBack(0, (1,))]
    assert scheduler.handle(Recalled((1,)), 0.0) == []  # the answer to the first question is one to the second
    assert sent(scheduler.handle(Finished(0, (0,), 9.0), 9.0)) == {0: (2,)}
    assert scheduler.begun == [0]
    assert scheduler.handle(GaveBack(0, ()), 9.0) == []
    assert scheduler.begun == [0, 1]
    assert scheduler.handle(Recalled((2,)), 9.0) == [TakeBack(0, (2,))]
    assert scheduler.handle(GaveBack(0, (2,), frozenset([2])), 9.0) == [Cancel((2,))]
    assert scheduler.unfinished == 1
    scheduler.handle(submitted([3]), 9.0)
    assert scheduler.handle(Recalled((3,)), 9.0) == [TakeBack(0, (3,))]
    assert scheduler.handle(GaveBack(0, (3,)), 9.0) == [Send(0, (3,))]  # who wanted it has given up


def test_clearing_takes_back_what_no_node_has_begun() -> None:
    """Also what was on its way back to be given to another node."""
    scheduler = Scheduler([0, 1])
    scheduler.handle(submitted(range(6)), 0.0)
    scheduler.handle(Recalled((2,)), 0.0)
    assert scheduler.handle(Cleared(), 0.0) == [TakeBack(1, (3,)), Cancel((4, 5))]
    assert scheduler.handle(GaveBack(0, (2,)), 0.0) == [Cancel((2,))]
    assert scheduler.handle(GaveBack(1, ()), 0.0) == []
    assert scheduler.unfinished == 3


def test_a_lost_node_costs_only_what_it_had_begun() -> None:
    """It is known which task it began last; those behind that one go elsewhere without having lost a retry."""
    scheduler = Scheduler([0, 1, 2])
    scheduler.handle(submitted(range(6)), 0.0)
    scheduler.handle(Cut(0), 1.0)
    assert scheduler.handle(Finished(1, (1, 4), 9.0), 1.0) == [TakeBack(2, (5,))]  # 3 is where nobody can ask for it
    assert scheduler.handle(Lost(0, "gone", last=0), 1.0) == [Fail((0,), 0, "gone"), Send(1, (3,))]
    assert scheduler.handle(Lost(1, "gone before it began", last=-1), 1.0) == []
    assert sent(scheduler.handle(Finished(2, (2,), 9.0), 1.0)) == {2: (3,)}
    assert scheduler.begun[-1:] == [3]  # for the second time, which changes nothing
    assert scheduler.unfinished == 2


def test_what_a_lost_node_had_begun_is_known_to_have_begun() -> None:
    """Also what nobody had heard of: it is tried again if its retries allow that, and cannot be cancelled."""
    scheduler = Scheduler([0, 1], retries=1)
    scheduler.handle(submitted(range(4)), 0.0)
    assert scheduler.begun == [0, 1]
    assert scheduler.handle(Lost(0, "gone", last=2), 1.0) == []
    assert scheduler.begun == [0, 1, 0, 2]
    scheduler.handle(Finished(1, (1, 3), 9.0), 1.0)
    assert scheduler.handle(Lost(1, "gone, too", last=0), 1.0)[0] == Fail((0,), 1, "gone, too")


def test_tasks_wait_for_a_node_that_returns() -> None:
    """While one does, no task fails because there is none; it comes back with nothing in hand."""
    scheduler = Scheduler([0])
    scheduler.handle(submitted(range(3)), 0.0)
    assert scheduler.handle(Lost(0, "crashed", last=0, returns=True), 1.0) == [Fail((0,), 0, "crashed")]
    assert scheduler.handle(submitted([3]), 1.0) == []
    assert scheduler.handle(Returned(0), 2.0) == [Send(0, (1, 2))]
    scheduler.handle(Lost(0, "crashed", last=1, returns=True), 3.0)
    assert scheduler.handle(Lost(0, "it does not start"), 4.0) == [Fail((2, 3), None, "no node is left")]
    assert scheduler.unfinished == 0


def test_a_task_may_have_retries_of_its_own() -> None:
    """And may be tried again after an error, which counts like a loss."""
    scheduler = Scheduler([0, 1])
    scheduler.handle(Submitted((0, 1), (TaskInfo(1, 0, 2), TaskInfo(1))), 0.0)
    assert not scheduler.may_try_again(1)
    assert scheduler.may_try_again(0)
    assert scheduler.handle(Ended(0, (0,), (0.1,), frozenset([0])), 0.1) == [Send(0, (0,))]
    assert scheduler.handle(Lost(1, "gone"), 0.2) == [Fail((1,), 1, "gone")]
    assert scheduler.handle(Ended(0, (0,), (0.1,), frozenset([0])), 0.3) == [Send(0, (0,))]
    assert not scheduler.may_try_again(0)


def test_a_lost_node_costs_its_tasks_unless_they_are_retried() -> None:
    """Without retries they fail, naming the node; with them they go first to another, as often as allowed."""
    scheduler = Scheduler([0, 1])
    scheduler.handle(submitted(range(6)), 0.0)
    assert scheduler.handle(Lost(0, "gone"), 1.0) == [Fail((0, 2), 0, "gone")]
    scheduler = Scheduler([0, 1, 2], retries=1)
    scheduler.handle(submitted(range(6)), 0.0)
    assert scheduler.handle(Lost(0, "gone"), 1.0) == []
    scheduler.handle(Finished(1, (1,), 9.0), 2.0)
    assert scheduler.handle(Lost(1, "gone, too"), 3.0) == [Fail((0,), 1, "gone, too")]
    assert scheduler.handle(Lost(2, "gone as well"), 4.0)[-1] == Fail((2, 5, 4, 3), None, "no node is left")
    assert scheduler.unfinished == 0
    assert scheduler.handle(submitted([7]), 5.0) == [Fail((7,), None, "no node is left")]


def test_a_late_pure_task_gets_a_second_chance() -> None:
    """A copy goes to an idle node once it takes much longer than tasks do; the first result counts, the other is ignored."""
    scheduler = Scheduler([0, 1], pure=True)
    scheduler.handle(submitted(range(2)), 0.0)
    assert scheduler.handle(Finished(0, (0,), 0.5), 0.5) == []
    assert scheduler.deadline == 4 * 0.5
    assert scheduler.handle(Tick(), 1.9) == []
    assert scheduler.handle(Tick(), 2.0) == [Send(0, (1,))]
    assert scheduler.handle(Finished(0, (1,), 0.5), 2.5) == []
    assert scheduler.unfinished == 0
    assert scheduler.handle(Finished(1, (1,), 9.0), 9.0) == []


def test_a_copy_outlives_its_original_and_the_other_way_round() -> None:
    """When one of two nodes with the same task is lost, the other goes on, and nothing is retried or failed."""
    for lost in (0, 1):
        scheduler = Scheduler([0, 1], pure=True)
        scheduler.handle(submitted(range(2)), 0.0)
        scheduler.handle(Finished(0, (0,), 0.001), 0.1)
        assert scheduler.handle(Tick(), LATE_SECONDS) == [Send(0, (1,))]
        assert scheduler.handle(Lost(lost, "gone"), 2.0) == []
        assert scheduler.unfinished == 1
        scheduler.handle(Finished(1 - lost, (1,), 1.0), 3.0)
        assert scheduler.unfinished == 0


def test_impure_tasks_never_run_twice() -> None:
    """Without `pure` a late task is waited for."""
    scheduler = Scheduler([0, 1])
    scheduler.handle(submitted(range(2)), 0.0)
    scheduler.handle(Finished(0, (0,), 0.001), 0.1)
    assert scheduler.handle(Tick(), 1000.0) == []
    assert scheduler.deadline is None


def test_cancelled_tasks_leave_room() -> None:
    """Withdrawn tasks are replaced at once; Cleared cancels what no node holds, and asks for the rest."""
    scheduler = Scheduler([0])
    scheduler.handle(submitted(range(5)), 0.0)
    assert sent(scheduler.handle(Withdrawn(0, (0, 1)), 0.0)) == {0: (2, 3)}
    assert scheduler.handle(Cleared(), 0.0) == [TakeBack(0, (3,)), Cancel((4,))]
    assert scheduler.unfinished == 2


@pytest.mark.parametrize(
    "event",
    [
        Finished(0, (9,), 0.0),
        Finished(0, (0, 0), 0.0),
        Finished(0, (0, 1), 0.0),
        Finished(7, (0,), 0.0),
        GaveBack(0, (1,)),
        GaveBack(0, ()),
        "nonsense",
    ],
)
def test_what_cannot_happen_is_refused(event: object) -> None:
    """A node that finishes or gives back what it does not hold, or was not asked for, breaks the protocol."""
    scheduler = Scheduler([0, 1])
    scheduler.handle(submitted(range(2)), 0.0)
    with pytest.raises(InvalidTransition, match="Last events"):
        scheduler.handle(event, 1.0)
    assert scheduler.handle(Lost(0, "it lied"), 1.0) == [Fail((0,), 0, "it lied")]


class Simulation:
    """Nodes that execute in order, answer late, give back, and die; each task's ends are counted."""

    def __init__(self, nodes: int, retries: int, pure: bool, seed: int) -> None:
        self.random = random.Random(seed)
        self.scheduler = Scheduler(range(nodes), retries, pure)
        self.lines: dict[int, deque[int]] = {node: deque() for node in range(nodes)}
        self.asked: list[tuple[int, tuple[int, ...]]] = []
        self.ends: dict[int, int] = {}
        self.done: set[int] = set()
        self.runs: dict[int, int] = {}
        self.near: dict[int, frozenset[int]] = {}
        self.recalled: set[int] = set()
        self.away: list[int] = []
        self.unbegun: set[int] = set()  # of the node that is lost just now
        self.now = 0.0

    def submit(self, tasks: range) -> None:
        """Some of them near one or two nodes, which may be lost, or never have been there."""
        own = {task: frozenset(self.random.choices(range(6), k=2)) for task in tasks if self.random.random() < 0.4}
        self.near.update({task: nodes & self.lines.keys() for task, nodes in own.items()})
        self.feed(Submitted(tuple(tasks), tuple(TaskInfo(1, self.random.randrange(3)) for _ in tasks), own))

    def feed(self, event: object) -> None:
        for action in self.scheduler.handle(event, self.now):
            if isinstance(action, Send):
                self.lines[action.node].extend(action.tasks)
                for task in action.tasks:
                    there = self.near.get(task, frozenset()) & self.lines.keys()
                    assert action.node in there or not there
            elif isinstance(action, TakeBack):
                self.asked.append((action.node, action.tasks))
            elif isinstance(action, (Fail, Cancel)):
                if isinstance(action, Fail) and action.node is not None:
                    assert not self.unbegun.intersection(action.tasks)
                if isinstance(action, Cancel):
                    assert not self.runs.keys() & set(action.tasks)
                for task in action.tasks:
                    self.ends[task] = self.ends.get(task, 0) + 1

    def step(self, dying: float) -> None:
        self.now += self.random.expovariate(1.0)
        self.asked = [(node, tasks) for node, tasks in self.asked if node in self.lines]
        busy = [node for node, line in self.lines.items() if line]
        if self.asked and self.random.random() < 0.5:
            node, wanted = self.asked.pop(0)
            line = self.lines[node]
            back = [task for task in wanted if task in list(line)[1:]]
            self.lines[node] = deque(task for task in line if task not in back)
            self.feed(GaveBack(node, tuple(back), frozenset(self.recalled.intersection(back) - self.runs.keys())))
        elif self.away and self.random.random() < 0.5:
            node = self.away.pop()
            returns = self.random.random() < 0.8
            if returns:
                self.lines[node] = deque()
            self.feed(Returned(node) if returns else Lost(node, "it does not start"))
        elif busy and self.random.random() < 0.1:
            task = self.random.choice(self.random.choice([list(self.lines[node]) for node in busy]))
            self.recalled.add(task)
            self.feed(Recalled((task,)))
        elif busy and self.random.random() < dying:
            node = self.random.choice(busy)
            line = self.lines.pop(node)
            self.near = {task: there - {node} for task, there in self.near.items()}
            self.runs[line[0]] = self.runs.get(line[0], 0) + 1
            returns = self.random.random() < 0.5
            self.away += [node] if returns else []
            if self.random.random() < 0.3:
                self.feed(Lost(node, "it died", returns=returns))
            else:
                self.unbegun = set(list(line)[1:])
                self.feed(Lost(node, "it died", line[0], returns))
                self.unbegun = set()
        elif busy:
            node = self.random.choice(busy)
            task = self.lines[node].popleft()
            self.runs[task] = self.runs.get(task, 0) + 1
            if task not in self.done:
                self.done.add(task)
                self.ends[task] = self.ends.get(task, 0) + 1
            self.feed(Finished(node, (task,), self.random.choice([0.0, 0.001, 2.0])))
        else:
            self.feed(Tick())


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 5), st.integers(0, 60), st.integers(0, 2), st.booleans(), st.sampled_from([0.0, 0.05]), st.integers(0, 2**32)
)
def test_every_task_ends_exactly_once(nodes: int, tasks: int, retries: int, pure: bool, dying: float, seed: int) -> None:
    """Whatever dies, lags or gives back: none is forgotten, none ends twice, impure ones run again after a loss only."""
    simulation = Simulation(nodes, retries, pure, seed)
    for first in range(0, tasks, 7):
        simulation.submit(range(first, min(first + 7, tasks)))
        simulation.step(dying)
    for _ in range(tasks * 20 + 50):
        if not simulation.scheduler.unfinished:
            break
        simulation.step(dying)
    assert simulation.ends == dict.fromkeys(range(tasks), 1)
    if not pure:
        assert all(count <= retries + 1 for count in simulation.runs.values())
    if not dying:
        assert simulation.done | simulation.recalled >= set(range(tasks))


# ---- tasks that are to run near what they need


def test_tasks_wait_for_the_node_that_has_what_they_need() -> None:
    """Others pass them, and no node without work takes them from it."""
    scheduler = Scheduler([0, 1])
    assert sent(scheduler.handle(submitted(range(4), near=[1]), 0.0)) == {1: (0, 1)}
    assert sent(scheduler.handle(submitted(range(4, 6)), 0.0)) == {0: (4, 5)}
    assert scheduler.handle(Finished(0, (4, 5), 0.1), 0.1) == []
    assert sent(scheduler.handle(Finished(1, (0,), 9.0), 9.0)) == {1: (2,)}
    assert scheduler.handle(submitted([6]), 9.0) == [Send(0, (6,))]
    assert scheduler.handle(Cleared(), 9.0) == [TakeBack(1, (2,)), Cancel((3,))]


def test_only_what_may_move_is_taken_back() -> None:
    """The last tasks in the line of a node that may run on the idle one; a task that came back waits for its node again."""
    scheduler = Scheduler([0, 1])
    assert sent(scheduler.handle(submitted([0], near=[1]), 0.0)) == {1: (0,)}
    assert sent(scheduler.handle(submitted([1, 2, 3]), 0.0)) == {0: (1, 2), 1: (3,)}
    assert scheduler.handle(Finished(0, (1, 2), 0.001), 0.0) == [TakeBack(1, (3,))]
    scheduler.handle(submitted([4], near=[1]), 0.0)
    assert scheduler.handle(Recalled((4,)), 0.0) == [TakeBack(1, (4,))]
    assert scheduler.handle(GaveBack(1, ()), 0.0) == []
    assert scheduler.handle(GaveBack(1, (4,)), 0.0) == [Send(1, (4,))]


def test_nodes_that_have_the_same_are_used_alike() -> None:
    """Tasks near several nodes are dealt out in turn, and each is dealt once."""
    scheduler = Scheduler([0, 1, 2])
    assert sent(scheduler.handle(submitted(range(6), near=[1, 2]), 0.0)) == {1: (0, 2), 2: (1, 3)}
    assert sent(scheduler.handle(Finished(2, (1, 3), 0.1), 0.1)) == {2: (4, 5)}
    assert scheduler.handle(Finished(1, (0, 2), 0.1), 0.1) == [TakeBack(2, (5,))]


def test_tasks_near_lost_nodes_run_anywhere() -> None:
    """First near another node that has what they need, and by any node when there is none."""
    scheduler = Scheduler([0, 1, 2], retries=1)
    scheduler.handle(submitted(range(3), near=[0, 1]), 0.0)
    assert sent(scheduler.handle(Lost(0, "gone"), 0.1)) == {1: (0,)}
    assert sent(scheduler.handle(Lost(1, "gone, too"), 0.2))[2] == (1, 2)
    scheduler.handle(Finished(2, (1, 2), 0.1), 0.3)
    assert sent(scheduler.handle(submitted([7], near=[0, 1]), 0.3)) == {2: (7,)}


def test_a_late_task_is_copied_near_what_it_needs_only() -> None:
    """Elsewhere it could not begin."""
    for near, copied in (([0], []), ([0, 1], [Send(1, (0,))])):
        scheduler = Scheduler([0, 1], pure=True)
        scheduler.handle(submitted([0], near=near), 0.0)
        assert scheduler.handle(Tick(), LATE_SECONDS) == copied

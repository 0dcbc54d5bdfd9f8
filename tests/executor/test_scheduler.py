"""Who gets which task: the scheduler on a virtual clock, by itself and against simulated nodes."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor.events import Cancel, Cleared, Fail, Finished, GaveBack, Lost, Send, Submitted, TakeBack, Tick, Withdrawn
from executor.scheduler import FIRST_TASKS, LATE_SECONDS, LOOKAHEAD_SECONDS, MOST_BYTES, MOST_TASKS, Scheduler
from rpc.errors import InvalidTransition


def submitted(numbers: Iterable[int], size: int = 1, near: Iterable[int] = ()) -> Submitted:
    tasks = tuple(numbers)
    return Submitted(tasks, (size,) * len(tasks), dict.fromkeys(tasks, frozenset(near)) if near else {})


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
    assert scheduler.handle(Finished(0, (2,), 0.001), 0.002) == [TakeBack(1, 1)]
    assert scheduler.handle(Tick(), 0.02) == []
    assert sent(scheduler.handle(GaveBack(1, (3,)), 0.03)) == {0: (3,)}
    assert scheduler.handle(Finished(0, (3,), 0.001), 0.04) == []
    assert scheduler.handle(Finished(1, (1,), 0.001), 0.05) == []
    assert scheduler.unfinished == 0


def test_a_node_that_has_nothing_to_give_is_not_asked_again() -> None:
    """What it holds had begun before it heard the question."""
    scheduler = Scheduler([0, 1])
    scheduler.handle(submitted(range(4)), 0.0)
    assert scheduler.handle(Finished(0, (0, 2), 0.1), 0.1) == [TakeBack(1, 1)]
    assert scheduler.handle(GaveBack(1, ()), 0.2) == []
    assert scheduler.handle(Tick(), 9.0) == []


def test_what_was_sent_after_the_question_is_asked_for_again() -> None:
    """A node that had nothing to give back may have got more before it answered."""
    scheduler = Scheduler([0, 1])
    scheduler.handle(submitted(range(4)), 0.0)  # node 1 holds 1 and 3, and works on 3 already
    scheduler.handle(Finished(0, (0,), 0.01), 0.01)
    assert scheduler.handle(Finished(0, (2,), 0.01), 0.02) == [TakeBack(1, 1)]
    assert sent(scheduler.handle(submitted(range(4, 8)), 0.03)) == {0: (4, 5, 6)}
    assert sent(scheduler.handle(Finished(1, (1,), 0.01), 0.03)) == {1: (7,)}
    scheduler.handle(GaveBack(1, ()), 0.04)
    assert scheduler.handle(Finished(0, (4, 5, 6), 0.01), 0.05) == [TakeBack(1, 1)]


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
    """Withdrawn tasks are replaced at once; Cleared cancels exactly what no node holds."""
    scheduler = Scheduler([0])
    scheduler.handle(submitted(range(5)), 0.0)
    assert sent(scheduler.handle(Withdrawn(0, (0, 1)), 0.0)) == {0: (2, 3)}
    assert scheduler.handle(Cleared(), 0.0) == [Cancel((4,))]
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
        self.asked: list[tuple[int, int]] = []
        self.ends: dict[int, int] = {}
        self.done: set[int] = set()
        self.runs: dict[int, int] = {}
        self.near: dict[int, frozenset[int]] = {}
        self.now = 0.0

    def submit(self, tasks: range) -> None:
        """Some of them near one or two nodes, which may be lost, or never have been there."""
        own = {task: frozenset(self.random.choices(range(6), k=2)) for task in tasks if self.random.random() < 0.4}
        self.near.update(own)
        self.feed(Submitted(tuple(tasks), (1,) * len(tasks), own))

    def feed(self, event: object) -> None:
        for action in self.scheduler.handle(event, self.now):
            if isinstance(action, Send):
                self.lines[action.node].extend(action.tasks)
                for task in action.tasks:
                    there = self.near.get(task, frozenset()) & self.lines.keys()
                    assert action.node in there or not there
            elif isinstance(action, TakeBack):
                self.asked.append((action.node, action.count))
            elif isinstance(action, (Fail, Cancel)):
                for task in action.tasks:
                    self.ends[task] = self.ends.get(task, 0) + 1

    def step(self, dying: float) -> None:
        self.now += self.random.expovariate(1.0)
        self.asked = [(node, count) for node, count in self.asked if node in self.lines]
        busy = [node for node, line in self.lines.items() if line]
        if self.asked and self.random.random() < 0.5:
            node, count = self.asked.pop(0)
            line = self.lines[node]
            back = [line.pop() for _ in range(min(count, max(0, len(line) - 1)))][::-1]
            self.feed(GaveBack(node, tuple(back)))
        elif busy and self.random.random() < dying:
            node = self.random.choice(busy)
            line = self.lines.pop(node)
            self.runs[line[0]] = self.runs.get(line[0], 0) + 1
            self.feed(Lost(node, "it died"))
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
        assert simulation.done == set(range(tasks))

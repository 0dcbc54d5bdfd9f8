"""The agent's decision about one job: random lives of a slot keep its promises, and each path ends in the right word."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rpc.agent.job_state import (
    AbortAsked,
    Condemned,
    Free,
    JobStateMachine,
    Kill,
    OrderHalt,
    ProcessGone,
    Reported,
    Stage,
    StopAsked,
    SubmitterGone,
    Tell,
    Tick,
)
from rpc.errors import InvalidTransition
from rpc.liveness.limits import EXIT_SECONDS, HALT_SECONDS, ROLL_BACK_SECONDS

from ...statements import covers

LIMIT = 60.0
OUTCOMES = ["done", "failed", "stopped"]


class LifeOfASlot(RuleBasedStateMachine):
    """Events in any order, at any times; the process dies at the latest when it is killed."""

    @initialize()
    def accept(self) -> None:
        self.now = 0.0
        self.slot = JobStateMachine(LIMIT, self.now)
        self.told: list[str] = []
        self.freed = 0
        self.killed_at: float | None = None

    def feed(self, event: Any) -> list[Any]:
        actions = self.slot.handle(event, self.now)
        for action in actions:
            if isinstance(action, Tell):
                self.told.append(action.state)
            elif isinstance(action, Free):
                self.freed += 1
            elif isinstance(action, Kill) and self.killed_at is None:
                self.killed_at = self.now
        return actions

    busy = precondition(lambda self: self.slot.stage is not Stage.FREE)

    @busy
    @rule(state=st.sampled_from(["running", *OUTCOMES]))
    def report(self, state: str) -> None:
        was = self.slot.stage
        self.feed(Reported(state, state))
        if state == "running" and was is not Stage.STARTING:
            assert self.slot.stage is was

    @busy
    @rule(event=st.sampled_from([SubmitterGone(), AbortAsked("a"), StopAsked("s"), Condemned("c"), Tick()]))
    def disturb(self, event: Any) -> None:
        self.feed(event)

    @busy
    @rule(seconds=st.sampled_from([0.1, EXIT_SECONDS, HALT_SECONDS, LIMIT, 1e6]))
    def wait(self, seconds: float) -> None:
        """The agent wakes at the deadlines on the way (killing again is the same every time)."""
        end = self.now + seconds
        for _ in range(3):
            if self.slot.deadline is not None and self.now < self.slot.deadline <= end:
                self.now = self.slot.deadline
                self.feed(Tick())
        self.now = end
        self.feed(Tick())

    @busy
    @rule()
    def process_ends(self) -> None:
        *_, told, free = self.feed(ProcessGone("exit code 1"))
        assert isinstance(told, Tell)
        assert free == Free()

    @precondition(lambda self: self.slot.stage is Stage.FREE)
    @rule(event=st.sampled_from([Tick(), SubmitterGone(), AbortAsked(""), ProcessGone("again"), Reported("done")]))
    def nothing_more(self, event: Any) -> None:
        with pytest.raises(InvalidTransition, match="JobStateMachine cannot take"):
            self.slot.handle(event, self.now)

    @invariant()
    def promises(self) -> None:
        slot = getattr(self, "slot", None)
        if slot is None:
            return
        assert self.told in [
            [],
            ["running"],
            *([e] for e in (*OUTCOMES, "aborted")),
            *(["running", e] for e in (*OUTCOMES, "aborted")),
        ]
        assert self.freed == (slot.stage is Stage.FREE)
        assert (slot.stage is Stage.FREE) <= (self.told[-1:] != ["running"] and bool(self.told))
        if slot.stage in (Stage.STARTING, Stage.LEAVING):  # nothing waits without a limit
            assert slot.deadline is not None
        else:
            assert slot.deadline is None
        if self.killed_at is not None:
            assert slot.stage in (Stage.LEAVING, Stage.FREE)


LifeOfASlot.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
TestLifeOfASlot = LifeOfASlot.TestCase


RUN, GONE = Reported("running"), ProcessGone("exit code 0")
DONE, STOPPED = Reported("done", "", ("EV.csv",)), Reported("stopped", "s")
STOP, LEAVE, ABORT, STUCK = StopAsked("s"), StopAsked("s", 20.0, "left"), AbortAsked("no"), Condemned("stuck")
HALTED = "The job did not react to the order to stop and was killed."
TOLD_RUN, TOLD_DONE = Tell("running", ""), Tell("done", "", ("EV.csv",))


def live(*steps: Any) -> tuple[JobStateMachine, list[Any]]:
    """Events, each a second after the one before; a number is the moment of the next one."""
    slot, now, actions = JobStateMachine(LIMIT, 0.0), 0.0, []
    for step in steps:
        if isinstance(step, float):
            now = step - 1.0
        else:
            now += 1.0
            actions += slot.handle(step, now)
    return slot, actions


@covers("SUB-8", "SUB-9", "SUB-14", "SUB-15", "INV-1")
@pytest.mark.parametrize(
    ("steps", "actions"),
    [
        ((RUN, DONE, GONE), [TOLD_RUN, TOLD_DONE]),
        ((RUN, RUN, DONE, GONE), [TOLD_RUN, TOLD_DONE]),  # it may say so twice
        ((GONE,), [Tell("failed", "The job process ended without a report: exit code 0.")]),
        ((SubmitterGone(), GONE), [Kill(), Tell("aborted", "The submitter left before the job had started.")]),
        ((RUN, SubmitterGone(), DONE, GONE), [TOLD_RUN, TOLD_DONE]),
        ((ABORT, DONE, GONE), [Kill(), Tell("aborted", "no")]),
        ((RUN, ABORT, GONE), [TOLD_RUN, Kill(), Tell("aborted", "no")]),
        ((RUN, DONE, ABORT, GONE), [TOLD_RUN, TOLD_DONE]),
        ((STOP, GONE), [Kill(), Tell("aborted", "s")]),
        ((STUCK, RUN, DONE, GONE), [Kill(), Tell("failed", "stuck")]),
        ((RUN, STUCK, GONE), [TOLD_RUN, Kill(), Tell("failed", "stuck")]),
        ((RUN, DONE, STUCK, GONE), [TOLD_RUN, TOLD_DONE]),
        ((RUN, STUCK, DONE, Condemned("again"), GONE), [TOLD_RUN, Kill(), Tell("failed", "stuck")]),
        ((RUN, STOP, STOP, STOPPED, GONE), [TOLD_RUN, OrderHalt("s"), Tell("stopped", "s")]),
        # the agent leaves: what stops for that is told apart, also when the process had the signal before the agent
        ((RUN, LEAVE, STOPPED, GONE), [TOLD_RUN, OrderHalt("s"), Tell("left", "s")]),
        ((RUN, STOPPED, LEAVE, GONE), [TOLD_RUN, Tell("left", "s")]),
        ((RUN, DONE, LEAVE, GONE), [TOLD_RUN, TOLD_DONE]),
        ((RUN, LEAVE, 21.9, Tick(), 22.0, Tick(), GONE), [TOLD_RUN, OrderHalt("s"), Kill(), Tell("left", HALTED)]),
        ((RUN, STOP, ABORT, GONE), [TOLD_RUN, OrderHalt("s"), Kill(), Tell("aborted", "no")]),
        ((RUN, STOP, 2 + HALT_SECONDS, Tick(), GONE), [TOLD_RUN, OrderHalt("s"), Kill(), Tell("stopped", HALTED)]),
        ((RUN, DONE, 2 + EXIT_SECONDS, Tick(), GONE), [TOLD_RUN, Kill(), TOLD_DONE]),
        (
            (LIMIT + ROLL_BACK_SECONDS, Tick(), GONE),
            [Kill(), Tell("failed", "The job process did not start its executor in time.")],
        ),
    ],
)
def test_lives(steps: tuple[Any, ...], actions: list[Any]) -> None:
    slot, found = live(*steps)
    assert found == [*actions, Free()] and slot.stage is Stage.FREE


def test_a_process_that_survives_its_kill_is_killed_again() -> None:
    slot, _ = live(ABORT)
    for _ in range(3):
        assert slot.deadline is not None
        assert slot.handle(Tick(), slot.deadline - 1e-6) == []
        assert slot.handle(Tick(), slot.deadline) == [Kill()]


@pytest.mark.parametrize("event", ["rubbish", None, Free()])
def test_what_cannot_be(event: Any) -> None:
    """Style 9."""
    with pytest.raises(InvalidTransition, match=r"Last events: 1.000 Reported.*; 2.000 "):
        live(RUN, event)


def test_history_is_bounded() -> None:
    slot, _ = live(*[Tick()] * 50)
    with pytest.raises(InvalidTransition) as caught:
        slot.handle("rubbish", 50.0)
    assert str(caught.value).count("Tick()") == 19

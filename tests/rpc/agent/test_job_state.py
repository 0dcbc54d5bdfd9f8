"""What an agent decides about one job, and about its own going: random lives keep the promises, each path has its word."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rpc.agent import drain
from rpc.agent.drain import Drain, Exit, LeaveAsked, Seen, StopJobs
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
from rpc.liveness.limits import EXIT_SECONDS, FAREWELL_SECONDS, HALT_SECONDS, ROLL_BACK_SECONDS

from ...statements import covers

LIMIT = 60.0
OUTCOMES = ["done", "failed", "stopped"]
ENDS = [[end] for end in (*OUTCOMES, "aborted")]


class LifeOfASlot(RuleBasedStateMachine):
    """Events in any order, at any times; the process dies at the latest when it is killed."""

    @initialize()
    def accept(self) -> None:
        self.now = 0.0
        self.slot = JobStateMachine(LIMIT, self.now)
        self.told: list[str] = []
        self.freed = 0
        self.killed = False

    def feed(self, event: Any) -> list[Any]:
        actions = self.slot.handle(event, self.now)
        self.told += [action.state for action in actions if isinstance(action, Tell)]
        self.freed += actions.count(Free())
        self.killed |= Kill() in actions
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
        assert isinstance(told, Tell) and free == Free()

    @precondition(lambda self: self.slot.stage is Stage.FREE)
    @rule(event=st.sampled_from([Tick(), SubmitterGone(), AbortAsked(""), ProcessGone("again"), Reported("done")]))
    def nothing_more(self, event: Any) -> None:
        with pytest.raises(InvalidTransition, match="JobStateMachine cannot take"):
            self.slot.handle(event, self.now)

    @invariant()
    def promises(self) -> None:
        stage = self.slot.stage
        assert self.told in [[], ["running"], *ENDS, *(["running", *end] for end in ENDS)]
        assert self.freed == (stage is Stage.FREE) and (stage is not Stage.FREE or self.told[-1:] in ENDS)
        assert (self.slot.deadline is not None) == (stage in (Stage.STARTING, Stage.LEAVING))  # nothing waits without a limit
        assert not self.killed or stage in (Stage.LEAVING, Stage.FREE)


LifeOfASlot.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
TestLifeOfASlot = LifeOfASlot.TestCase


RUN, GONE, KILLED = Reported("running"), ProcessGone("exit code 0"), ProcessGone("signal 9", killed=True)
DONE, STOPPED = Reported("done", "", ("EV.csv",)), Reported("stopped", "s")
LOST = Reported("failed", "Traceback\nnetwork.errors.PeerLost: Node(1) at h:1 is lost: it has left.")
STOP, LEAVE, ABORT, STUCK = StopAsked("s"), StopAsked("s", 20.0, "left"), AbortAsked("no"), Condemned("stuck")
HALTED = "The job did not react to the order to stop and was killed."
TOO_LATE = Tell("failed", "The job process did not start its executor in time.")
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
        (
            (RUN, LOST, STOP, GONE),
            [TOLD_RUN, Tell("stopped", "This job has been aborted. s")],
        ),  # who was lost had obeyed before
        ((RUN, LOST, LEAVE, GONE), [TOLD_RUN, Tell("failed", LOST.detail)]),
        ((RUN, Reported("failed", "x"), STOP, GONE), [TOLD_RUN, Tell("failed", "x")]),
        # it was killed, the others lost it, and their failure gave rise to the order, which came before its end was seen
        ((RUN, STOP, KILLED), [TOLD_RUN, OrderHalt("s"), Tell("failed", "The job process ended without a report: signal 9.")]),
        (
            (RUN, STOP, GONE),
            [TOLD_RUN, OrderHalt("s"), Tell("stopped", "The job process ended without a report: exit code 0.")],
        ),
        ((RUN, LEAVE, KILLED), [TOLD_RUN, OrderHalt("s"), Tell("left", "The job process ended without a report: signal 9.")]),
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
        ((LIMIT + ROLL_BACK_SECONDS, Tick(), GONE), [Kill(), TOO_LATE]),
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
    """Style 9; of a long history only the end is told."""
    with pytest.raises(InvalidTransition, match=r"Last events: 1.000 Reported.*; 2.000 "):
        live(RUN, event)
    with pytest.raises(InvalidTransition) as caught:
        live(*[Tick()] * 50, event)
    assert str(caught.value).count("Tick()") == 19


ASKED, AGAIN, STOP_JOBS = (
    LeaveAsked("Its time is up.", 20.0),
    LeaveAsked("Once more.", 1.0),
    [StopJobs("Its time is up.", 16.0)],
)
IDLE, LATE = Seen(0, 0, False), 7.9 + FAREWELL_SECONDS


@pytest.mark.parametrize(
    "story",
    [
        # an idle agent goes at once; what is said before it is asked to, or after it has gone, changes nothing
        [(1.0, IDLE, []), (2.0, ASKED, STOP_JOBS), (2.0, IDLE, [Exit()]), (2.1, IDLE, [])],
        # jobs have most of the grace; then the submitter is told, may fetch, and does
        [
            *[(0.0, ASKED, STOP_JOBS), (0.0, Seen(2, 1, False), 20.0), (5.0, Seen(0, 1, False), 5.0 + FAREWELL_SECONDS)],
            *[(7.9, Seen(0, 1, True), LATE), (LATE - 0.1, Seen(0, 1, False), LATE), (LATE, Seen(0, 1, False), [Exit()])],
        ],
        # who leaves by himself is not waited for
        [(0.0, ASKED, STOP_JOBS), (1.0, Seen(0, 1, False), 1.0 + FAREWELL_SECONDS), (1.1, IDLE, [Exit()])],
        # one signal may come on two ways: the second word changes nothing
        [(0.0, ASKED, STOP_JOBS), (0.5, AGAIN, 20.0), (20.0, Seen(1, 0, False), [Exit()]), (20.1, ASKED, [])],
    ],
)
def test_how_an_agent_goes(story: list[tuple[float, object, object]]) -> None:
    """First its jobs, then who wants their files. What is decided at each moment, or the deadline where that is nothing."""
    leaving = Drain()
    for now, said, expected in story:
        decided = leaving.handle(said, now)
        assert (decided == [] and leaving.deadline == expected) if isinstance(expected, float) else decided == expected
    assert leaving.deadline is None
    with pytest.raises(InvalidTransition, match="Drain cannot take 5 now"):
        leaving.handle(5, 100.0)


@pytest.mark.parametrize("seen", [Seen(1, 0, False), Seen(0, 9, True)], ids=["a job that hangs", "a visitor without end"])
def test_an_agent_never_takes_longer_than_the_grace(seen: Seen) -> None:
    leaving, now, gone = Drain(), 0.0, list[object]()
    leaving.handle(ASKED, 0.0)
    while leaving.deadline is not None:
        assert now < 20.0
        now = leaving.deadline if seen.jobs else min(leaving.deadline, now + FAREWELL_SECONDS / 2)
        gone = leaving.handle(seen, now)
    assert gone == [Exit()] and now == 20.0


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 2), st.integers(0, 2), st.booleans())))
def test_an_agent_goes_exactly_once_and_in_time(looks: list[tuple[float, int, int, bool]]) -> None:
    leaving, now, gone = Drain(), 0.0, 0
    leaving.handle(ASKED, now)
    for step, jobs, visitors, sending in looks:
        now += step
        gone += leaving.handle(Seen(jobs, visitors, sending), now).count(Exit())
        assert gone == (leaving.stage is drain.Stage.GONE) and (gone or now < 20.0)

"""The failure detector's decisions about one process, on a virtual clock: never while it works, always when it is silent."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpc.errors import InvalidTransition
from rpc.liveness.limits import (
    BETWEEN_SECONDS,
    FIRST_BATCH_SECONDS,
    LEAST_STEP_SECONDS,
    SAVE_SECONDS,
    Limits,
    Phase,
    RecentSteps,
)
from rpc.liveness.recorder import Kind, Signal
from rpc.liveness.stall_detector import Declare, Signs, StallDetector, Tick, Warn, Withdraw

from ...statements import covers

N = 2.0
BEAT = 1.0  # the agent looks at least that often
REACTION = 0.5


class Story:
    """A process and the agent that looks after it as `ProcessMonitor` does: when the watch asks for it, and each second."""

    def __init__(self, limits: Limits | None = None, late: float = 0.0) -> None:
        self.watch = StallDetector(Limits(stall=N) if limits is None else limits, 0.0)
        self.now = 0.0
        self.late = late  # how much later than asked for each look comes
        self.unread: list[Any] = []
        self.log: list[tuple[float, Any]] = []

    def signal(self, kind: Kind, epoch: int = 0, batch: int = 0) -> None:
        self.unread.append(Signal(kind, epoch, batch, self.now))

    def sign(self, moved: float = 0.0) -> None:
        self.unread.append(Signs(self.now, moved))

    def look(self) -> None:
        unread, self.unread = self.unread, []
        for event in [*unread, Tick()]:
            self.log += [(self.now, action) for action in self.watch.handle(event, self.now)]

    def pass_time(self, seconds: float) -> None:
        """Let time go by, with looks when they are due."""
        end = self.now + seconds
        while True:
            asked = self.watch.deadline
            pause = min(BEAT, max(0.02, self.watch.step_limit / 2))
            due = min(self.now + pause, max(self.now, self.now + BEAT if asked is None else asked) + 1e-6) + self.late
            if due > end:
                self.now = end
                return
            self.now = due
            self.look()

    def suspend(self, seconds: float) -> None:
        """Neither of them does anything for a while: the machine was asleep."""
        self.now += seconds
        self.look()

    def step(self, seconds: float, epoch: int = 0, batch: int = 0) -> None:
        self.signal(Kind.BEGIN, epoch, batch)
        self.pass_time(seconds)
        self.signal(Kind.END, epoch, batch)

    def of(self, kind: type) -> list[Any]:
        return [action for _, action in self.log if isinstance(action, kind)]

    @property
    def declared(self) -> list[tuple[float, Declare]]:
        return [(when, action) for when, action in self.log if isinstance(action, Declare)]


@covers("FD-2", "FD-6")
@pytest.mark.parametrize("stall", [2.0, 5.0, 20.0])
def test_a_silent_step_is_declared_in_time(stall: float) -> None:
    """N is honoured for N = 2, 5, 20 s: the declaration comes at N < t <= N + 0.5 s."""
    story = Story(Limits(stall=stall))
    story.step(0.01)
    story.signal(Kind.BEGIN, 2, 16)
    begun = story.now
    story.pass_time(3 * stall)
    ((when, found),) = story.declared
    assert stall < when - begun <= stall + REACTION and stall < found.silent <= stall + REACTION
    assert (found.phase, found.epoch, found.batch, found.limit) == (Phase.STEP, 3, 17, stall)


@covers("FD-3")
def test_slow_steps_are_no_stall() -> None:
    """1000 steps of 0.9 N each, no declaration."""
    story = Story()
    for batch in range(1000):
        story.step(0.9 * N, batch=batch)
    story.look()
    assert story.declared == [] and len(story.of(Warn)) == 1000 == len(story.of(Withdraw))


@covers("FD-3")
def test_a_step_of_exactly_the_limit_is_none() -> None:
    """Strictly longer than N, or no declaration; a look at that very moment decides nothing either."""
    watch = StallDetector(Limits(stall=N), 0.0)
    watch.handle(Signal(Kind.BEGIN, 0, 0, 0.0), 0.0)
    assert [type(action) for action in watch.handle(Tick(), 1.5)] == [Warn]
    assert watch.handle(Tick(), N) == [] and not watch.declared
    assert watch.handle(Signal(Kind.END, 0, 0, N), N + 0.1) == [Withdraw(Phase.STEP, 1, 1, N)]
    assert watch.handle(Tick(), N + 0.1) == []


@covers("FD-3")
def test_an_end_that_came_while_we_looked_counts() -> None:
    """What was signalled before the look is known before it decides."""
    story = Story()
    story.signal(Kind.BEGIN)
    story.now = N + 0.2
    story.signal(Kind.END)
    story.look()
    assert story.declared == []


@covers("FD-4")
@pytest.mark.parametrize("stall", [2.0, 30.0])
def test_validation_is_no_stall(stall: float) -> None:
    """Validation that takes 3 N outside BEGIN...END, whatever N is."""
    story = Story(Limits(stall=stall))
    for epoch in range(3):
        story.step(0.1, epoch)
        story.pass_time(3 * stall)
        story.signal(Kind.EPOCH, epoch)
    assert story.declared == []


@covers("FD-5")
def test_nobody_watches_after_the_end() -> None:
    """a process that has sent TRAIN END may be silent for ever."""
    story = Story()
    story.step(0.1)
    story.signal(Kind.TRAIN_END)
    story.pass_time(1000.0)
    assert story.log == [] and story.watch.phase is Phase.ENDED and story.watch.deadline is None


LIMITS = Limits(stall=N, start=3.0, between=7.0, save=5.0)
PHASES: list[tuple[Phase, float, list[Kind]]] = [
    (Phase.START, 3.0, [Kind.STARTED]),
    (Phase.STEP, N, [Kind.STARTED, Kind.BEGIN]),
    (Phase.BETWEEN, 7.0, [Kind.STARTED, Kind.BEGIN, Kind.END]),
    (Phase.BETWEEN, 7.0, [Kind.BEGIN, Kind.END, Kind.EPOCH]),
    (Phase.SAVE, 5.0, [Kind.BEGIN, Kind.END, Kind.SAVE_BEGIN]),
    (Phase.BETWEEN, 7.0, [Kind.BEGIN, Kind.END, Kind.SAVE_BEGIN, Kind.SAVE_END]),
    (Phase.SAVE, 5.0, [Kind.BEGIN, Kind.SAVE_BEGIN]),
    (Phase.STEP, N, [Kind.BEGIN, Kind.SAVE_BEGIN, Kind.SAVE_END]),
    (Phase.SAVE, 5.0, [Kind.BEGIN, Kind.EPOCH]),  # the step goes on after the epoch: what it does there is to save
]


@covers("FD-17")
@pytest.mark.parametrize(("phase", "limit", "kinds"), PHASES)
def test_every_phase_has_its_limit_and_its_word(phase: Phase, limit: float, kinds: list[Kind]) -> None:
    """a stall at the start, within a step, between steps and in a save: a limit and a word for each."""
    story = Story(LIMITS)
    for kind in kinds:
        story.signal(kind)
        story.pass_time(0.01)
    last = story.now - 0.01
    story.pass_time(20.0)
    ((when, found),) = story.declared
    assert found.phase is phase and limit < when - last <= limit + REACTION


@covers("FD-17")
def test_default_limits() -> None:
    """60 s for the start, between steps and for a save; N is 10 s or 20 medians, and 60 s for the first step."""
    steps = RecentSteps(Limits())
    assert [steps.of(phase) for phase in (Phase.START, Phase.BETWEEN, Phase.SAVE)] == [FIRST_BATCH_SECONDS, 240.0, SAVE_SECONDS]
    assert steps.step == FIRST_BATCH_SECONDS and steps.of(Phase.ENDED) is steps.of(Phase.UNWATCHED) is None
    steps.add(0.1)
    assert steps.step == LEAST_STEP_SECONDS and steps.of(Phase.BETWEEN) == BETWEEN_SECONDS
    for seconds in (2.0, 3.0):
        steps.add(seconds)
    assert steps.step == 40.0 and steps.of(Phase.BETWEEN) == 160.0
    for _ in range(64):
        steps.add(0.001)
    assert steps.step == LEAST_STEP_SECONDS  # the latest steps count


@covers("FD-2")
def test_the_limit_follows_the_steps() -> None:
    """Without a given N, a program with steps of 1 s is silent for 20 s before it is declared."""
    story = Story(Limits())
    for batch in range(5):
        story.step(1.0, batch=batch)
    story.signal(Kind.BEGIN, 0, 5)
    begun = story.now
    story.pass_time(100.0)
    ((when, found),) = story.declared
    assert 20.0 < when - begun <= 20.0 + REACTION and found.batch == 6


@covers("FD-17")
def test_a_save_within_a_step_does_not_count_as_a_slow_step() -> None:
    """The median is of steps; a save of 50 s in one of them changes neither it nor what is left for the step."""
    story = Story(Limits())
    for batch in range(3):
        story.signal(Kind.BEGIN, 0, batch)
        story.signal(Kind.SAVE_BEGIN, 0, batch)
        story.pass_time(50.0)
        story.signal(Kind.SAVE_END, 0, batch)
        story.pass_time(0.1)
        story.signal(Kind.END, 0, batch)
    story.look()
    assert story.declared == [] and story.watch.step_limit == FIRST_BATCH_SECONDS


@covers("FD-17")
def test_programs_that_do_not_signal_are_left_alone() -> None:
    """Without BEGIN and without a promise to signal nobody is stuck, whatever else is signalled."""
    story = Story(LIMITS)
    for kind in (Kind.END, Kind.EPOCH, Kind.SAVE_BEGIN, Kind.SAVE_END):
        story.signal(kind)
        story.pass_time(100.0)
    assert story.log == [] and story.watch.phase is Phase.UNWATCHED


@covers("FD-19")
def test_warning_and_recovery() -> None:
    """At N / 2 a warning that names the batch, once; END withdraws it with the time that it took."""
    story = Story()
    story.step(1.7, 2, 16)
    story.look()
    assert [type(action) for _, action in story.log] == [Warn, Withdraw]
    (when, warning), (_, recovery) = story.log
    assert N / 2 < when <= N / 2 + REACTION and (warning.phase, warning.epoch, warning.batch) == (Phase.STEP, 3, 17)
    assert recovery == Withdraw(Phase.STEP, 3, 17, 1.7)


@covers("FD-2")
def test_who_waits_for_a_peer_is_not_stuck() -> None:
    """a process that shows each quarter of a second that it waits may wait for ever; the culprit is somebody else."""
    story = Story()
    story.signal(Kind.BEGIN)
    for _ in range(400):
        story.sign()
        story.pass_time(0.25)
    story.sign()
    story.look()
    assert story.declared == [] == story.of(Warn)
    assert story.watch.waiting(story.now) == pytest.approx(100.0, abs=0.3)
    story.sign(moved=story.now)
    story.look()
    assert story.watch.waiting(story.now) == 0.0  # bytes have come


@covers("FD-2")
def test_who_is_stopped_while_it_waits_is_stuck() -> None:
    """Its signs of life end, and N counts from the last of them."""
    story = Story()
    story.signal(Kind.BEGIN)
    for _ in range(40):
        story.pass_time(0.25)
        story.sign()
    last = story.now
    story.pass_time(10.0)
    ((when, found),) = story.declared
    assert N < when - last <= N + REACTION and N < found.silent <= N + REACTION


@covers("FD-19")
def test_signs_of_life_withdraw_a_warning() -> None:
    """a process that was paused within a wait recovers when it waits on."""
    story = Story()
    story.signal(Kind.BEGIN)
    story.pass_time(1.5)
    story.sign()
    story.pass_time(0.1)
    story.look()
    assert [type(action) for _, action in story.log] == [Warn, Withdraw]
    assert story.log[1][1].silent == pytest.approx(1.5)


@covers("FD-3")
def test_a_machine_that_slept_accuses_nobody() -> None:
    """If the look itself comes late, the process may have been suspended too, and gets a moment to signal."""
    story = Story()
    story.signal(Kind.BEGIN)
    story.pass_time(0.5)
    story.suspend(3600.0)
    story.signal(Kind.END)
    story.pass_time(0.5)
    assert story.declared == []
    story.signal(Kind.BEGIN, 0, 1)
    story.pass_time(0.5)
    story.suspend(3600.0)
    resumed = story.now
    story.pass_time(10.0)
    ((when, _),) = story.declared  # it was stuck all the same
    assert when - resumed <= 1.0 + REACTION


@covers("FD-14")
def test_after_the_declaration_nothing_changes() -> None:
    """An END that comes after the declaration takes nothing back."""
    story = Story()
    story.signal(Kind.BEGIN)
    story.pass_time(3.0)
    count = len(story.log)
    story.signal(Kind.END)
    story.signal(Kind.BEGIN)
    story.pass_time(100.0)
    assert len(story.declared) == 1 and len(story.log) == count and story.watch.deadline is None


def test_unknown_events_are_refused() -> None:
    with pytest.raises(InvalidTransition, match="cannot take an END"):
        StallDetector(Limits(), 0.0).handle("an END", 1.0)


STEPS = st.lists(st.tuples(st.floats(0.001, 0.999), st.floats(0.0, 3.0), st.booleans()), min_size=1, max_size=25)


@covers("FD-2", "FD-3")
@settings(deadline=None)
@given(steps=STEPS, stall=st.floats(0.1, 30.0), late=st.floats(0.0, 0.04))
def test_random_work_is_never_declared_and_random_silence_always(
    steps: list[tuple[float, float, bool]], stall: float, late: float
) -> None:
    """Steps shorter than N and pauses shorter than theirs are never declared, silence always is, in time."""
    story = Story(Limits(stall=stall, between=60.0), late)
    for (share, pause, waits), batch in zip(steps, itertools.count(), strict=False):
        story.signal(Kind.BEGIN, 0, batch)
        if waits:  # for longer than N, but with signs of life
            for _ in range(int(3 * stall / 0.25) + 1):
                story.sign()
                story.pass_time(min(0.25, 0.9 * stall))
            story.sign()
        story.pass_time(share * stall)
        story.signal(Kind.END, 0, batch)
        story.pass_time(pause)
    assert story.declared == []
    assert len(story.of(Warn)) - len(story.of(Withdraw)) in (0, 1)
    story.signal(Kind.BEGIN, 1, 0)
    begun = story.now
    story.pass_time(3 * stall + 3.0)
    ((when, found),) = story.declared
    assert stall < when - begun <= stall + REACTION and (found.epoch, found.batch) == (2, 1)


KINDS = st.lists(st.tuples(st.sampled_from(list(Kind)), st.floats(0.0, 10.0)), max_size=40)


@covers("FD-15")
@settings(deadline=None)
@given(KINDS)
def test_signals_in_any_order_do_no_harm(signals: list[tuple[Kind, float]]) -> None:
    """a program that signals nonsense is watched as well as that allows; the watch goes on."""
    story = Story(LIMITS)
    for kind, pause in signals:
        story.signal(kind)
        story.pass_time(pause)
    story.pass_time(30.0)
    assert len(story.declared) <= 1
    assert story.watch.phase in (Phase.UNWATCHED, Phase.ENDED) or len(story.declared) == 1

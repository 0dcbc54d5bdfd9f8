"""The failure detector's decisions about one process, on a virtual clock: never while it works, always when it is silent."""

from __future__ import annotations

from typing import Any

import pytest

from rpc import Tick
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
from rpc.liveness.stall_detector import Declare, Signs, StallDetector, Unseen, Warn, Withdraw

from ...statements import covers

N = 2.0
BEAT = 1.0  # the agent looks at least that often
REACTION = 0.5


class Story:
    """A process and the agent that looks after it as `ProcessMonitor` does: when the watch asks for it, and each second.

    A declaration comes at limit < t <= limit + 0.5 s after the last sign of life, whatever the story is.
    """

    def __init__(self, limits: Limits) -> None:
        self.watch = StallDetector(limits, 0.0)
        self.now = self.shown = 0.0
        self.unread: list[Any] = []
        self.log: list[Any] = []

    def play(self, script: str) -> None:
        """`BEGIN@2.16` is a signal, of epoch 2 and batch 16; `sign` a sign of life, `+1.5` time with looks when they are
        due, `~1.5` time without, `look` a look; `sleep60` suspends both for a minute."""
        for word in script.split():
            if word.startswith("+"):
                self.pass_time(float(word))
            elif word.startswith("~"):
                self.now += float(word[1:])
            elif word == "sign":
                self.show(Signs(self.now, 0.0))
            elif word == "look":
                self.look()
            elif word.startswith("sleep"):
                seconds = float(word.removeprefix("sleep"))
                self.now += seconds
                self.look(unseen=seconds)
                self.shown += seconds
            else:
                kind, _, place = word.partition("@")
                epoch, _, batch = place.partition(".")
                self.show(Signal(Kind[kind], int(epoch or 0), int(batch or 0), self.now))

    def show(self, event: Any) -> None:
        self.unread.append(event)
        self.shown = self.now

    def look(self, unseen: float = 0.0) -> None:
        unread, self.unread = self.unread, []
        for event in [*unread, *([Unseen(unseen)] if unseen else []), Tick()]:
            for action in self.watch.handle(event, self.now):
                self.log.append(action)
                if isinstance(action, Declare):
                    assert action.limit < self.now - self.shown <= action.limit + REACTION
                    assert action.silent == pytest.approx(self.now - self.shown)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            asked = self.watch.deadline
            pause = min(BEAT, max(0.02, self.watch.step_limit / 2))
            due = min(self.now + pause, max(self.now, self.now + BEAT if asked is None else asked) + 1e-6)
            if due > end:
                self.now = end
                return
            self.now = due
            self.look()

    @property
    def told(self) -> str:
        """What was decided, as `declare step 3.17 2` for N = 2."""
        words = []
        for found in self.log:
            last = f"{found.limit:g}" if isinstance(found, Declare) else f"{found.silent:.1f}"
            place = f"{type(found).__name__.lower()} {found.phase.value} {found.epoch}.{found.batch}"
            words.append(place if isinstance(found, Warn) else f"{place} {last}")
        return ", ".join(words)


GIVEN = Limits(stall=N)
ALL_GIVEN = Limits(stall=N, start=3.0, between=7.0, save=5.0)
STORIES = {
    # N is honoured for N = 2, 5, 20 s, by batch
    "stuck, N = 2": (GIVEN, "BEGIN +0.01 END BEGIN@2.16 +6", "warn step 3.17, declare step 3.17 2"),
    "stuck, N = 5": (Limits(stall=5.0), "BEGIN +0.01 END BEGIN@2.16 +15", "warn step 3.17, declare step 3.17 5"),
    "stuck, N = 20": (Limits(stall=20.0), "BEGIN +0.01 END BEGIN@2.16 +60", "warn step 3.17, declare step 3.17 20"),
    # without a given N the limit follows the steps: 20 medians
    "steps of 1 s": (Limits(), "BEGIN +1 END " * 5 + "BEGIN@0.5 +100", "warn step 1.6, declare step 1.6 20"),
    # a save of 50 s in each step changes neither their median nor what is left for the step
    "saves within steps": (
        Limits(),
        "BEGIN SAVE_BEGIN +50 SAVE_END +0.1 END " * 3 + "BEGIN +100",
        "warn save 1.1, withdraw save 1.1 50.0, " * 3 + f"warn step 1.1, declare step 1.1 {FIRST_BATCH_SECONDS:g}",
    ),
    "slow steps": (GIVEN, "BEGIN +1.8 END " * 1000 + "look", ", ".join(["warn step 1.1, withdraw step 1.1 1.8"] * 1000)),
    "an end that came before the look": (GIVEN, "BEGIN ~2.2 END look", ""),
    # validation of 3 N outside BEGIN...END, whatever N is
    "validation": (GIVEN, "BEGIN +0.1 END +6 EPOCH BEGIN@1 +0.1 END +6 EPOCH@1 look", ""),
    "long validation": (
        Limits(stall=30.0),
        "BEGIN +0.1 END +90 EPOCH BEGIN@1 +0.1 END +90 EPOCH@1 look",
        "warn between 1.1, withdraw between 1.1 90.0, warn between 2.1, withdraw between 2.1 90.0",
    ),
    "silent after the end": (GIVEN, "BEGIN +0.1 END TRAIN_END +1000", ""),
    # without BEGIN and without a promise to signal nobody is stuck, whatever else is signalled
    "no signals": (ALL_GIVEN, "END +100 EPOCH +100 SAVE_BEGIN +100 SAVE_END +100", ""),
    "late": (GIVEN, "BEGIN@2.16 +1.7 END look", "warn step 3.17, withdraw step 3.17 1.7"),
    # who shows each quarter of a second that it waits may wait for ever; who is stopped meanwhile is stuck
    "waiting": (GIVEN, "BEGIN " + "sign +0.25 " * 400 + "sign look", ""),
    "stopped while it waits": (GIVEN, "BEGIN " + "+0.25 sign " * 40 + "+10", "warn step 1.1, declare step 1.1 2"),
    "paused while it waits": (GIVEN, "BEGIN +1.5 sign +0.1 look", "warn step 1.1, withdraw step 1.1 1.5"),
    # time in which nobody looked is no silence: the process may have been suspended, too; the last time it was stuck
    "a machine that slept": (
        GIVEN,
        "BEGIN +0.5 sleep3600 END +0.5 BEGIN@0.1 +0.5 sleep3600 +0.7 sleep5 +0.7 END BEGIN@0.2 +1.9 sleep2 +10",
        "warn step 1.2, withdraw step 1.2 1.9, warn step 1.3, declare step 1.3 2",
    ),
    "an end after the declaration": (GIVEN, "BEGIN +3 END BEGIN@0.1 +100", "warn step 1.1, declare step 1.1 2"),
    # a limit and a word for each phase
    "start": (ALL_GIVEN, "STARTED +20", "warn start 0.0, declare start 0.0 3"),
    "step": (ALL_GIVEN, "STARTED +.01 BEGIN +20", "warn step 1.1, declare step 1.1 2"),
    "between": (ALL_GIVEN, "STARTED +.01 BEGIN +.01 END +20", "warn between 1.1, declare between 1.1 7"),
    "between epochs": (ALL_GIVEN, "BEGIN +.01 END +.01 EPOCH +20", "warn between 1.1, declare between 1.1 7"),
    "save": (ALL_GIVEN, "BEGIN +.01 END +.01 SAVE_BEGIN +20", "warn save 1.1, declare save 1.1 5"),
    "after a save": (ALL_GIVEN, "BEGIN +.01 END SAVE_BEGIN +.01 SAVE_END +20", "warn between 1.1, declare between 1.1 7"),
    "save in a step": (ALL_GIVEN, "BEGIN +.01 SAVE_BEGIN +20", "warn save 1.1, declare save 1.1 5"),
    "after a save in a step": (ALL_GIVEN, "BEGIN +.01 SAVE_BEGIN +.01 SAVE_END +20", "warn step 1.1, declare step 1.1 2"),
    # the step goes on after the epoch: what it does there is to save
    "epoch in a step": (ALL_GIVEN, "BEGIN +.01 EPOCH +20", "warn save 1.1, declare save 1.1 5"),
}


@covers("FD-2", "FD-3", "FD-4", "FD-5", "FD-6", "FD-14", "FD-17", "FD-19")
@pytest.mark.parametrize("name", STORIES)
def test_stories(name: str) -> None:
    """Warned of at half of the limit, declared beyond it, once, and not afterwards; a sign of life takes a warning back."""
    limits, script, told = STORIES[name]
    story = Story(limits)
    story.play(script)
    assert story.told == told
    if story.watch.declared or story.watch.phase in (Phase.ENDED, Phase.UNWATCHED):
        assert story.watch.deadline is None


@covers("FD-3")
def test_a_step_of_exactly_the_limit_is_none() -> None:
    """Strictly longer than N, or no declaration; a look at that very moment decides nothing either."""
    watch = StallDetector(GIVEN, 0.0)
    watch.handle(Signal(Kind.BEGIN, 0, 0, 0.0), 0.0)
    assert [type(action) for action in watch.handle(Tick(), 1.5)] == [Warn]
    assert watch.handle(Tick(), N) == [] and not watch.declared
    assert watch.handle(Signal(Kind.END, 0, 0, N), N + 0.1) == [Withdraw(Phase.STEP, 1, 1, N)]
    assert watch.handle(Tick(), N + 0.1) == []


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
def test_for_how_long_it_has_waited() -> None:
    """Since bytes last came or went."""
    story = Story(GIVEN)
    story.play("BEGIN " + "sign +0.25 " * 400 + "sign look")
    assert story.watch.waiting(story.now) == pytest.approx(100.0, abs=0.3)
    story.show(Signs(story.now, story.now))
    story.look()
    assert story.watch.waiting(story.now) == 0.0


def test_unknown_events_are_refused() -> None:
    with pytest.raises(InvalidTransition, match="cannot take an END"):
        StallDetector(Limits(), 0.0).handle("an END", 1.0)

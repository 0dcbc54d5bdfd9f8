"""Failure detector for one job process: from its signals and the time to a warning, its withdrawal, or a declaration.

unwatched   until the process says that it signals, or begins a batch
start       until the first batch begins
step        from BEGIN to END
between     from END to the next BEGIN: validation, shuffling
save        from SAVE_BEGIN to SAVE_END, and from an EPOCH that comes within a step to the END of that step
ended       after TRAIN_END it is not watched any more

A process that waits for its peers and shows it is not stuck, but the one that it waits for is: silence counts from the last
signal or from the last sign of life while it waited, whichever is later. One that is stopped while it waits shows no signs.
Time in which the agent did not look (`Unseen`) is no silence: the whole machine may have been suspended.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..machine import Machine, Tick
from .limits import WAITING_SECONDS, WARN_AT, Limits, Phase, RecentSteps
from .recorder import Kind, Signal

_BEGINNINGS = (Kind.STARTED, Kind.BEGIN, Kind.TRAIN_END)


@dataclass(frozen=True)
class Signs:
    """Event: the last sign of life while waiting, and when bytes last came or went (monotonic seconds)."""

    alive: float
    moved: float


@dataclass(frozen=True)
class Unseen:
    """Event: in the last `seconds` the agent should have looked and did not; signals that it has found then were handed over
    before.
    """

    seconds: float


@dataclass(frozen=True)
class _Silence:
    """Silence of a process. Epoch and batch count from 1, 0 before the first."""

    phase: Phase
    epoch: int
    batch: int
    silent: float


class Warn(_Silence):
    """Action: warn, as half of the limit has passed in silence."""


class Withdraw(_Silence):
    """Action: withdraw the warning, as the process made progress again after `silent` seconds."""


@dataclass(frozen=True)
class Declare(_Silence):
    """Action: declare the process stuck."""

    limit: float


class StallDetector(Machine):
    """State machine that watches one job process: warns of a silent one, takes the warning back, or declares it stuck.

    `deadline` is when to send the next Tick, or None: all earlier signals have been
    handed over then. `phase`, `epoch` and `batch` (from 1) tell where the process is.
    """

    def __init__(self, limits: Limits, now: float) -> None:
        super().__init__()
        self.phase = Phase.UNWATCHED
        self.epoch = self.batch = 0
        self.declared = False
        self._steps = RecentSteps(limits)
        self._since = now  # the last signal
        self._alive = self._moved = 0.0
        self._step_begun: float | None = None
        self._whole = False  # the step is nothing but a step, so its duration counts
        self._warned_of: float | None = None  # since when the silence lasted that was warned of

    # ---- its state

    @property
    def silent_since(self) -> float:
        """Time of the last sign of life of any kind."""
        return max(self._since, self._alive)

    @property
    def limit(self) -> float | None:
        return None if self.declared else self._steps.of(self.phase)

    @property
    def step_limit(self) -> float:
        return self._steps.step

    @property
    def warned(self) -> bool:
        return self._warned_of is not None

    @property
    def deadline(self) -> float | None:
        limit = self.limit
        if limit is None:
            return None
        return self.silent_since + limit * (1.0 if self.warned else WARN_AT)

    def seconds(self, now: float) -> float:
        return max(0.0, now - self._since)

    def waiting(self, now: float) -> float:
        """Return for how long the process has waited for its peers without a byte; 0 when it does not wait."""
        # it shows a sign twice in that time while it waits, so without one it waits no more
        if now - self._alive > WAITING_SECONDS or self._alive < self._since:
            return 0.0
        return max(0.0, now - max(self._since, self._moved))

    # ---- its decisions

    def _decide(self, event: object, now: float) -> list[object]:
        if isinstance(event, Signal):
            return self._on_signal(event)
        if isinstance(event, Signs):
            self._alive, self._moved = max(self._alive, event.alive), max(self._moved, event.moved)
            return self._recovered()
        if isinstance(event, Unseen):
            return self._excuse(event.seconds, now)
        if isinstance(event, Tick):
            return self._on_tick(now)
        raise self._impossible(event)

    def _on_signal(self, signal: Signal) -> list[object]:
        kind = signal.kind
        if self.declared or self.phase is Phase.ENDED or (self.phase is Phase.UNWATCHED and kind not in _BEGINNINGS):
            return []
        # before the phase changes: the warning was about the old one
        actions = self._recovered(signal.time)
        if kind is Kind.BEGIN:
            self.phase, self._step_begun, self._whole = Phase.STEP, signal.time, True
            self.epoch, self.batch = signal.epoch + 1, signal.batch + 1
        elif kind is Kind.END:
            # a step with a save in it says nothing of steps
            if self._whole and self._step_begun is not None:
                self._steps.add(signal.time - self._step_begun)
            self.phase, self._step_begun = Phase.BETWEEN, None
        elif kind is Kind.SAVE_BEGIN or (kind is Kind.EPOCH and self._step_begun is not None):
            self.phase, self._whole = Phase.SAVE, False
        elif kind is Kind.SAVE_END:
            self.phase = Phase.BETWEEN if self._step_begun is None else Phase.STEP
        elif kind is Kind.STARTED:
            self.phase = Phase.START
        elif kind is Kind.TRAIN_END:
            self.phase = Phase.ENDED
        self._since = signal.time
        return actions

    def _recovered(self, at: float | None = None) -> list[object]:
        """Take a warning back if there is a sign of life since."""
        since = self._warned_of
        alive = self.silent_since if at is None else max(at, self.silent_since)
        if since is None or alive <= since or self.declared:  # a declaration is not taken back
            return []
        self._warned_of = None
        return [Withdraw(self.phase, self.epoch, self.batch, alive - since)]

    def _excuse(self, seconds: float, now: float) -> list[object]:
        """Count all times as so much later, but no later than `now`."""
        self._since = min(now, self._since + seconds)
        # 0 stands for never
        self._alive, self._moved = (moment and min(now, moment + seconds) for moment in (self._alive, self._moved))
        self._warned_of = None if self._warned_of is None else min(now, self._warned_of + seconds)
        return []

    def _on_tick(self, now: float) -> list[object]:
        limit = self.limit
        if limit is None:
            return []
        silent = now - self.silent_since
        if silent > limit:
            self.declared = True
            return [Declare(self.phase, self.epoch, self.batch, silent, limit)]
        # once for each silence
        if not self.warned and silent > limit * WARN_AT:
            self._warned_of = self.silent_since
            return [Warn(self.phase, self.epoch, self.batch, silent)]
        return []

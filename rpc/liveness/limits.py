"""How long a job process may be silent, in each phase of its work."""

from __future__ import annotations

import enum
import statistics
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

START_SECONDS = SAVE_SECONDS = 60.0
BETWEEN_SECONDS = 60.0
LEAST_STEP_SECONDS = 10.0
STEPS = 20.0  # medians
_BETWEEN_STEPS = 4.0  # step limits
REMEMBERED_STEPS = 64


class Phase(str, enum.Enum):
    """Where a job process is, by its signals; the value is the word that people read."""

    UNWATCHED = "unwatched"  # it has not said that it signals
    START = "start"
    STEP = "step"
    BETWEEN = "between"
    SAVE = "save"
    ENDED = "ended"


@dataclass(frozen=True)
class Limits:
    """Seconds of silence beyond which a process counts as stuck; 0 stands for the default.

    step: N, as given, else the larger of 10 s and 20 times the median of the last 64 steps; before the first step has ended
    nobody knows how long one takes, and the limit is that of the start if it is larger. start: 60 s. between: 60 s, or 4 N
    where that is more, so that a validation of 3 N is none. save: 60 s.
    """

    stall: float = 0.0
    start: float = 0.0
    between: float = 0.0
    save: float = 0.0

    def step_limit(self, steps: Iterable[float]) -> float:
        """N, after the durations `steps` of the recent ones."""
        if self.stall:
            return self.stall
        known = list(steps)
        if not known:
            return max(LEAST_STEP_SECONDS, self.start or START_SECONDS)
        return max(LEAST_STEP_SECONDS, STEPS * statistics.median(known))


class RecentSteps:
    """The limit of each phase as the durations of steps become known."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._durations: deque[float] = deque(maxlen=REMEMBERED_STEPS)
        self._step: float | None = None

    def add(self, seconds: float) -> None:
        """A step took `seconds`."""
        self._durations.append(seconds)
        self._step = None

    @property
    def step(self) -> float:
        """N as it is now."""
        if self._step is None:
            self._step = self._limits.step_limit(self._durations)
        return self._step

    def of(self, phase: Phase) -> float | None:
        """The limit of `phase`; None where a process may be silent for ever."""
        if phase is Phase.STEP:
            return self.step
        if phase is Phase.START:
            return self._limits.start or START_SECONDS
        if phase is Phase.BETWEEN:
            return self._limits.between or max(BETWEEN_SECONDS, _BETWEEN_STEPS * self.step)
        return (self._limits.save or SAVE_SECONDS) if phase is Phase.SAVE else None

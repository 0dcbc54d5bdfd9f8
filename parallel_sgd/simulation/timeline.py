"""Clocks of a kernel: the virtual one, and that of the machine, which skips the time in which all nodes only wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

#: Longest time that is given for a link or a step, thirty years: a clock of floats counts it to a ten-millionth of a second.
LONGEST_SECONDS: Final = 1e9


class JumpingClock(Protocol):
    """Clock that can be told to let time pass."""

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary start."""

    def advance_to(self, moment: float) -> None:
        """Let time pass until `monotonic()` is at least `moment`."""


class SkippingClock:
    """Time of the machine, plus the time that was skipped because all nodes waited.

    Args:
        monotonic: returns the seconds of the machine.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._skipped = 0.0

    def monotonic(self) -> float:
        """Return the seconds of the machine and those that were skipped."""
        return self._monotonic() + self._skipped

    def advance_to(self, moment: float) -> None:
        """Skip the seconds until `moment`."""
        # a loop, since rounding may leave the sum just below the moment
        while self.monotonic() < moment:
            self._skipped += moment - self.monotonic()


class Timeline:
    """Virtual clock: it stands at the moment of the current event, plus the seconds that the running node has been charged.

    Only the kernel moves it, and it may go back: while one node computes for a second, the events of the others in that second
    are still to come.

    Args:
        start: the first moment, in seconds.
        wall: `time()` at the first moment, in seconds since 1970-01-01 UTC.
    """

    __slots__ = ("_wall", "charged", "now")

    def __init__(self, start: float = 0.0, wall: float = 0.0) -> None:
        self.now = start
        self.charged = 0.0
        self._wall = wall - start

    def monotonic(self) -> float:
        """Return the virtual seconds of the running node."""
        return self.now + self.charged

    def time(self) -> float:
        """Return the virtual seconds since 1970-01-01 UTC."""
        return self.now + self.charged + self._wall

    def charge(self, seconds: float) -> None:
        """Let the running node compute for `seconds`."""
        self.charged += seconds

    def advance_to(self, moment: float) -> None:
        """Begin the event at `moment`; nothing has been charged yet."""
        self.now, self.charged = moment, 0.0

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass between two events: that of the driver, while no node runs."""
        self.advance_to(self.monotonic() + seconds)

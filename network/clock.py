"""Clocks as arguments: code that waits or measures is given one, so that tests and simulations bring their own."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SleepingClock", "SystemClock"]


class Clock(Protocol):
    """Source of time in seconds. Deadlines and durations use `monotonic`; `time` is for logs and file names only."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start; never goes back."""

    def time(self) -> float:
        """Return seconds since 1970-01-01 UTC; may jump in either direction when someone sets the machine's clock."""


class SleepingClock(Clock, Protocol):
    """Clock of a caller that may wait for time to pass."""

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""


class SystemClock:
    """Clock of this machine. Its methods are the system's functions themselves: each batch asks them several times."""

    __slots__ = ()

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    time = staticmethod(time.time)  # last, since it hides the module from what follows

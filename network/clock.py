"""Time as an argument: whatever waits or measures is given a clock, so that tests and simulations bring their own."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """A source of time in seconds. Deadlines and durations use `monotonic`; `time` is for logs and file names only."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""

    def time(self) -> float:
        """Seconds since 1970-01-01 UTC; may jump in either direction when someone sets the machine's clock."""


class SystemClock:
    """The clock of this machine. The functions of the system themselves: they are asked several times in every batch."""

    __slots__ = ()

    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)

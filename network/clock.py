"""Time as an argument: whatever waits or measures is given a clock, so that tests and simulations bring their own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time in seconds. Deadlines and durations use `monotonic`; `time` is for logs and file names only."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""

    def time(self) -> float:
        """Seconds since 1970-01-01 UTC; may jump in either direction when someone sets the machine's clock."""


class SystemClock:
    """The clock of this machine."""

    __slots__ = ()

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        return time.monotonic()

    def time(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return time.time()

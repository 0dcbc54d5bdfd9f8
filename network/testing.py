"""Clock and network faults under the control of a test, a lecture or a simulation."""

from __future__ import annotations

import math

from .faults import Fault, FaultPlan, InjectedFault, LinkFault, ProcessFault, Proxy, Route, Shape, Step, perform

__all__ = [
    "Fault",
    "FaultPlan",
    "InjectedFault",
    "LinkFault",
    "ProcessFault",
    "Proxy",
    "Route",
    "Shape",
    "Step",
    "VirtualClock",
    "perform",
]

# a fixed day, not that of the machine: two runs have the same times in their logs
_START_OF_2026 = 1767225600.0


class VirtualClock:
    """Clock (a `network.clock.Clock`) that its owner moves.

    Args:
        monotonic: first value of `monotonic()`, in seconds.
        wall: first value of `time()`, in seconds since 1970-01-01 UTC.
    """

    __slots__ = ("_monotonic", "_wall_ahead")

    def __init__(self, monotonic: float = 0.0, wall: float = _START_OF_2026) -> None:
        self._monotonic = monotonic
        self._wall_ahead = wall - monotonic

    def monotonic(self) -> float:
        """Return seconds on the time line of deadlines; never goes back."""
        return self._monotonic

    def time(self) -> float:
        """Return wall time in seconds: moves along with `monotonic()`, plus every `jump_wall`."""
        return self._monotonic + self._wall_ahead

    def advance(self, seconds: float) -> None:
        """Let both times pass by `seconds`; ValueError unless that is a finite number and not negative."""
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"VirtualClock.advance 'seconds' must be finite and not negative, got {seconds}")
        self._monotonic += seconds

    def advance_to(self, moment: float) -> None:
        """Let time pass until `monotonic()` is exactly `moment`; a moment that has passed changes nothing.

        A driver that jumps to a deadline uses this: now + (deadline - now) may round to just before the deadline.
        """
        if not math.isfinite(moment):
            raise ValueError(f"VirtualClock.advance_to 'moment' must be finite, got {moment}")
        self._monotonic = max(self._monotonic, moment)

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass, as `advance` does."""
        self.advance(seconds)

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock forward, or back when `seconds` is negative; `monotonic()` stays."""
        if not math.isfinite(seconds):
            raise ValueError(f"VirtualClock.jump_wall 'seconds' must be finite, got {seconds}")
        self._wall_ahead += seconds

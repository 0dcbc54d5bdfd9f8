"""How long the tasks of each function take, as far as is known: what decides how many of them a node holds."""

from __future__ import annotations

MOST_KINDS = 4096  # remembered; beyond that the one that was new longest ago is forgotten


class Estimates:
    """Seconds per task by `kind`, a number for a function. Nothing is known of a kind that has ended no task.

    An estimate rises at once and falls by halves: one long task is enough to make those behind it wait where they can go to
    whoever is free, and a function that is quick again is soon known to be.
    """

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    def add(self, kind: int, seconds: float) -> None:
        """A task took that long."""
        known = self._seconds.get(kind)
        if known is None:
            if len(self._seconds) >= MOST_KINDS:
                del self._seconds[next(iter(self._seconds))]
            self._seconds[kind] = seconds
        else:
            self._seconds[kind] = max(seconds, 0.5 * (known + seconds))

    def of(self, kind: int) -> float | None:
        """Seconds that a task is expected to take, None when nobody knows."""
        return self._seconds.get(kind)

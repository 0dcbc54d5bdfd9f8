"""A limit on how many log lines a peer can cause, so that a flood neither fills the disk nor pushes a job's lines out."""

from __future__ import annotations

from collections import Counter

from network.clock import Clock

LINES_PER_PEER = 10
LINES_IN_ALL = 100
WINDOW_SECONDS = 60.0


class Throttle:
    """Counts lines per peer host and window; what is left out is told when the window ends and something happens again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end = clock.monotonic() + WINDOW_SECONDS
        self._lines: Counter[str] = Counter()
        self._left_out = 0

    def pass_on(self, peer: str, line: str) -> list[str]:
        """The lines to write now that `peer` (an address) caused `line`: usually that one, none in a flood."""
        lines = self._turn_window()
        host = peer.rpartition(":")[0] or peer
        if self._lines[host] >= LINES_PER_PEER or self._lines.total() >= LINES_IN_ALL:
            self._left_out += 1
            return lines
        self._lines[host] += 1
        return [*lines, line]

    def _turn_window(self) -> list[str]:
        now = self._clock.monotonic()
        if now < self._end:
            return []
        self._end = now + WINDOW_SECONDS
        self._lines.clear()
        left_out, self._left_out = self._left_out, 0
        return [f"{left_out} more lines of this kind were left out."] if left_out else []

"""What shall happen to the bytes of one direction of a link: settings that any thread may change while the bytes flow."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager


class Shape:
    """Faults of one direction; what is not asked for does not happen. `counts` tells how often each kind has acted, `passed`
    how many bytes were brought.

    Changes hold from the next byte on, for every connection that has this shape. Faults at a byte happen once: to the first
    connection that comes there.
    """

    def __init__(self, changing: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext) -> None:
        self.counts: Counter[str] = Counter()
        self.passed = 0
        self.rate: float | None = None
        self.lag = self.jitter = 0.0
        self.swallows = self.stalls = False
        self.piece: int | None = None
        self.flip_at: int | None = None
        self.end_at: int | None = None
        self.loss = self.repeats = self.swaps = 0.0
        self._changing = changing  # keeps off whoever moves bytes, and wakes them up

    def throttle(self, bytes_per_second: float | None) -> None:
        """Let at most that many bytes pass in a second; None: no limit."""
        if bytes_per_second is not None and not bytes_per_second > 0:
            raise ValueError(f"throttle 'bytes_per_second' must be positive or None, got {bytes_per_second!r}.")
        with self._changing():
            self.rate = bytes_per_second

    def delay(self, seconds: float, jitter: float = 0.0) -> None:
        """Let everything arrive `seconds` later, and up to `jitter` seconds more, drawn from the proxy's seed; in order."""
        with self._changing():
            self.lag, self.jitter = _checked("delay", "seconds", seconds), _checked("delay", "jitter", jitter)

    def swallow(self, on: bool = True) -> None:
        """Take everything, bring nothing, and keep the end of the connection secret: a half-open link.

        What was swallowed is gone: a connection that is healed has a hole. One that heals without is stalled, as a partition.
        """
        with self._changing():
            self.swallows = on

    def stall(self, on: bool = True) -> None:
        """Read nothing: buffers fill, and the sender has to wait."""
        with self._changing():
            if on and not self.stalls:
                self.counts["stall"] += 1
            self.stalls = on

    def segment(self, size: int | None) -> None:
        """Bring at most `size` bytes at a time; None: as they come."""
        if size is not None and not size >= 1:
            raise ValueError(f"segment 'size' must be positive or None, got {size!r}.")
        with self._changing():
            self.piece = size

    def flip(self, at: int) -> None:
        """Flip the lowest bit of byte `at` of a connection, counted from 0."""
        with self._changing():
            self.flip_at = int(_checked("flip", "at", at))

    def truncate(self, at: int) -> None:
        """Let a connection end in this direction after `at` bytes."""
        with self._changing():
            self.end_at = int(_checked("truncate", "at", at))

    def lose(self, share: float) -> None:
        """Lose this share of the messages, drawn from the proxy's seed; only where frames are known."""
        if not 0 <= share <= 1:
            raise ValueError(f"lose 'share' must be from 0 to 1, got {share!r}.")
        with self._changing():
            self.loss = share

    def duplicate(self, messages: float = math.inf) -> None:
        """Bring each of the next messages (all) twice; only where frames are known."""
        with self._changing():
            self.repeats = _checked("duplicate", "messages", messages)

    def reorder(self, pairs: float = math.inf) -> None:
        """Swap each of the next pairs of messages (all); only where frames are known. A first one waits for its second, but
        not for longer than 50 ms: it may be the last that its sender says before it waits for an answer."""
        with self._changing():
            self.swaps = _checked("reorder", "pairs", pairs)


def _checked(method: str, name: str, value: float) -> float:
    if not value >= 0:
        raise ValueError(f"{method} '{name}' must not be negative, got {value!r}.")
    return value

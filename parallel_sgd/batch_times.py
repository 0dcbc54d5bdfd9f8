"""What the seconds of each batch of one worker went into, and whom it waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from .accounts import Stopwatch

COLUMNS: Final = (
    *("Time", "Epochs", "Batches"),
    *("Data", "Compute", "Encode", "Send", "Wait", "Merge", "Rule"),
    *("Put", "Sent", "Total", "Peer"),
)
"""Of the table `BA`; docs/results.md tells what they mean."""

LINE: Final = "%.6f,%d,%d" + 10 * ",%.6f" + ",%s\n"
"""A row as text, in microseconds: a fifth of the time that a general writer takes."""

_LOOKS: Final = 9
Row = tuple[float | int | str, ...]


def _zero(clock: Callable[[], float]) -> float:
    """What is to be added to the clock for seconds since 1970, by the quickest of some looks: during one others may have
    had the core."""
    looks = []
    for _ in range(_LOOKS):
        before, now, after = clock(), time.time(), clock()
        looks.append((after - before, now - (before + after) / 2))
    return min(looks)[1]


class BatchWatch:
    """Reads the stopwatch of a worker at the begin of a batch, when its own blocks are put, and at its end.

    Attributes: `data`, seconds for samples, which whoever fetches them adds; `clock`, that of the stopwatch.
    """

    __slots__ = ("_begin", "_longest", "_middle", "_peer", "_put", "_start", "_wait", "_watch", "_zero", "clock", "data")

    def __init__(self, watch: Stopwatch) -> None:
        self._watch, self.clock = watch, watch.clock
        self._zero = _zero(watch.clock)
        self.begin()

    def begin(self) -> None:
        """A batch begins."""
        watch = self._watch
        self.data = self._longest = 0.0
        self._peer: int | None = None
        self._wait, self._start = watch.wait, (watch.encode, watch.send, watch.merge)
        self._begin = self.clock()

    def put(self) -> None:
        """All own blocks are with their codecs: from now on it waits, merges, and applies."""
        watch = self._watch
        self._put, self._middle = self.clock(), watch.encode + watch.send + watch.merge

    def waited(self, before: float, peer: int | None) -> None:
        """A wait is over, before which the stopwatch had `before` seconds of that; a packet of `peer` has ended it."""
        if self._watch.wait - before > self._longest:
            self._longest, self._peer = self._watch.wait - before, peer

    def row(self, epoch: int, batch: int) -> Row:
        """The batch is over, `epoch` and `batch` from 0: its row."""
        end, watch, begin = self.clock(), self._watch, self._begin
        encode, send, merge = self._start
        compute = self._put - begin - self.data - (self._middle - encode - send - merge)
        after = watch.encode + watch.send + watch.merge - self._middle
        wait = watch.wait - self._wait
        encode, send, merge = watch.encode - encode, watch.send - send, watch.merge - merge
        rule = end - self._put - after - wait
        seconds = (self.data, compute, encode, send, wait, merge, rule)
        moments = (self._put - begin, max(watch.sent, begin) - begin, end - begin)
        peer = "" if self._peer is None else self._peer
        return self._zero + begin, epoch + 1, batch + 1, *seconds, *moments, peer

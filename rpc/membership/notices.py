"""Host changes on their way to rank 0: numbered, joined, and repeated until it has heard of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from network.nodes import Address

from .hosts import HostUpdateResult, Place, classify
from .rounds import NotifyRankZero, Worker

REPEAT_SECONDS = 1.0  # until a notice that nobody has acknowledged is sent again


class Notices:
    """Compares the slots of the coming round with those that rank 0 was told of.

    Notices carry a number and no time, so two of them within a moment, or a clock set back, lose nothing. `sequence` is the
    number of the last one, over all rounds.
    """

    def __init__(self) -> None:
        self.sequence = 0
        self._told: Counter[Address] = Counter()  # slots by host, as rank 0 expects them in the coming round
        self._unheard: NotifyRankZero | None = None
        self._sent = 0.0

    @property
    def deadline(self) -> float | None:
        """When to look for a repetition, or None."""
        return None if self._unheard is None else self._sent + REPEAT_SECONDS

    def begin(self, places: Collection[Place]) -> None:
        """A round begins with these slots: everything before is done."""
        self._told, self._unheard = _by_host(places), None

    def announce(self, places: Collection[Place], rank_zero: Worker, now: float) -> list[NotifyRankZero]:
        """The notice that the coming round would have these slots, if that is news; it includes one that was not heard."""
        coming = _by_host(places)
        result = classify(self._told, coming)
        if result is HostUpdateResult.no_update:
            return self._repeat(now)
        if self._unheard is not None:
            result |= self._unheard.result
        self._told = coming
        self.sequence += 1
        self._unheard, self._sent = NotifyRankZero(rank_zero, self.sequence, result), now
        return [self._unheard]

    def heard(self, sequence: int) -> None:
        """Rank 0 has received the notice with this number."""
        if self._unheard is not None and sequence >= self._unheard.sequence:
            self._unheard = None

    def _repeat(self, now: float) -> list[NotifyRankZero]:
        if self._unheard is None or now < self._sent + REPEAT_SECONDS:
            return []
        self._sent = now
        return [self._unheard]


def _by_host(places: Collection[Place]) -> Counter[Address]:
    return Counter(address for address, _ in places)

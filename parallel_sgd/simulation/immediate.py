"""Network without time: packets arrive at the moment when they are posted, or as the fate of each says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import cast

from ..engine.channel import Key
from .arrivals import Arrival
from .parcel import Parcel

#: Fate of a packet (sender, receiver, key) on a link: the seconds after which each copy arrives; `(0.0,)` is normal,
#: `()` loses it, `(0.0, 0.0)` delivers it twice, `(0.5,)` delays it.
Link = Callable[[int, int, Key], Sequence[float]]


def reliable(_sender: int, _receiver: int, _key: Key) -> Sequence[float]:
    """Deliver each packet once, at once."""
    return (0.0,)


class Immediate:
    """Carrier of packets without time.

    Args:
        link: decides about each packet; by default all arrive at once.

    Attributes:
        lost: packets per (sender, receiver, variable) that were lost, less those that were repeated.
    """

    def __init__(self, link: Link = reliable) -> None:
        self._link = link
        self._number = 0
        self._flying: list[tuple[float, int, int, int, object]] = []
        self.lost: Counter[tuple[int, int, int]] = Counter()

    def send(self, now: float, source: int, target: int, size: float, item: object) -> None:
        """Take a packet that is posted at `now`; see `kernel.Carrier.send`."""
        key = cast("Parcel", item).key
        copies = self._link(source, target, key)
        if len(copies) != 1:
            self.lost[source, target, key[-1]] += 1 - len(copies)
        for delay in copies:
            self._number += 1
            # the number breaks ties: packets of one moment arrive in the order in which they were posted
            heappush(self._flying, (now + delay, self._number, source, target, item))

    def next_moment(self) -> float | None:
        """Return the moment of the next arrival, or None."""
        return self._flying[0][0] if self._flying else None

    def advance(self, now: float) -> list[Arrival]:
        """Take the packets that have arrived by `now`, in the order of their arrival."""
        flying, found = self._flying, []
        while flying and flying[0][0] <= now:
            moment, _, source, target, item = heappop(flying)
            found.append((moment, source, target, item))
        return found

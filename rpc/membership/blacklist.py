"""Slots and hosts where a worker has failed, and for how long nobody is sent there."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TypeAlias

from network.nodes import Address

from .hosts import Place


@dataclass(frozen=True)
class CoolDown:
    """For how many seconds a failing slot or host is left alone: `low` at first, twice as long each time, at most `high`.

    Raises: ValueError unless 0 < low <= high, both finite.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high < math.inf:
            raise ValueError(f"CoolDown needs 0 < low <= high, both finite, got {self.low} and {self.high}.")

    def seconds(self, failures: int) -> float:
        """How long after that many failures, from 1: low, 2 low, 4 low ... capped at high."""
        # 2**64 times any low that matters is more than any high; without a limit the power would become too large a number
        return min(self.high, self.low * 2.0 ** min(failures - 1, 64))


Where: TypeAlias = Address | Place
"""A host as a whole, or one of its slots."""
ASK_AGAIN = CoolDown(0.5, 8.0)  # between attempts at a host that took nobody


@dataclass
class _Ban:
    """How long nobody is sent somewhere. `ask`: when to try again where nobody was taken; None where a worker had run."""

    failures: int = 0
    until: float = -math.inf
    ask: float | None = None


class Blacklist:
    """Slots and hosts that failed. Without a cool-down range they are not used again, unless `lift` gives them back; else each
    period is longer by a jitter of up to `low`.

    The jitter keeps hosts that failed together from coming back together; it is drawn from `seed`.
    """

    def __init__(self, cool_down: CoolDown | None = None, seed: int = 0) -> None:
        self._cool_down = cool_down
        self._random = random.Random(seed)  # noqa: S311 - spreads load, keeps no secret
        self._bans: dict[Where, _Ban] = {}

    def add(self, where: Where, now: float, *, answers: bool = True) -> None:
        """Take note of a failure; `answers` tells whether the host can be reached and takes workers. Several failures during
        one period are one: they have one cause."""
        if self.holds(where, now):
            return
        ban = self._bans.setdefault(where, _Ban())
        ban.failures += 1
        ban.ask = None if answers else now + ASK_AGAIN.seconds(ban.failures)
        if self._cool_down is None:
            ban.until = math.inf
        else:
            ban.until = now + self._cool_down.seconds(ban.failures) + self._random.uniform(0, self._cool_down.low)

    def holds(self, where: Where, now: float) -> bool:
        """Whether nobody may be sent there at `now`."""
        ban = self._bans.get(where)
        return ban is not None and now < ban.until

    def next_release(self, now: float) -> float | None:
        """When the next one comes back by itself, or None."""
        return min((ban.until for ban in self._bans.values() if now < ban.until < math.inf), default=None)

    def lift(self, now: float, *, silent: bool = False) -> None:
        """Give back what is out for ever, where hosts answer; with `silent` also those that did not, after a while."""
        for ban in self._bans.values():
            if ban.until == math.inf and (ban.ask is None or (silent and ban.ask <= now)):
                ban.until = now

    def next_ask(self, now: float) -> float | None:
        """When `lift` with `silent` gives back the next one, or None."""
        asks = (ban.ask for ban in self._bans.values() if ban.until == math.inf and ban.ask is not None)
        return min((ask for ask in asks if ask > now), default=None)

"""Hosts on which a worker has failed, and for how long nobody is sent there."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from network.nodes import Address


@dataclass(frozen=True)
class CoolDown:
    """For how many seconds a failing host is left alone: `low` at first, twice as long each time, at most `high`.

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


class Blacklist:
    """Failed hosts. Without a cool-down range they are never used again; else each period is longer by a jitter of up to `low`.

    The jitter keeps hosts that failed together from coming back together; it is drawn from `seed`.
    """

    def __init__(self, cool_down: CoolDown | None = None, seed: int = 0) -> None:
        self._cool_down = cool_down
        self._random = random.Random(seed)  # noqa: S311 - spreads load, keeps no secret
        self._failures: dict[Address, int] = {}
        self._until: dict[Address, float] = {}

    def add(self, address: Address, now: float) -> None:
        """Take note of a failure. Several failures during one period are one: they have one cause."""
        if self.holds(address, now):
            return
        self._failures[address] = self._failures.get(address, 0) + 1
        if self._cool_down is None:
            self._until[address] = math.inf
        else:
            jitter = self._random.uniform(0, self._cool_down.low)
            self._until[address] = now + self._cool_down.seconds(self._failures[address]) + jitter

    def holds(self, address: Address, now: float) -> bool:
        """Whether nobody may be sent to this host at `now`."""
        return now < self._until.get(address, -math.inf)

    def next_release(self, now: float) -> float | None:
        """When the next host comes back, or None."""
        return min((until for until in self._until.values() if now < until < math.inf), default=None)

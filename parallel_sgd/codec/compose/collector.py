"""Where contributions meet."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from parallel_sgd.codec.interfaces import Array
from parallel_sgd.merge import BlockMean, Span

from .merge.rule import MergeRule
from .units import Grain, Units


class Collector(ABC):
    """The contributions to one vector of one batch. Those that are there already change nothing and are counted."""

    duplicates: int

    @abstractmethod
    def add(self, span: Span, value: Array, stays: bool) -> bool:
        """Take what a span holds; True when nothing is missing any more. `stays`: it remains unchanged until `reset`."""

    @abstractmethod
    def has(self, unit: int) -> bool:
        """Whether a contribution is there."""

    @abstractmethod
    def missing(self) -> list[int]:
        """Return the contributions that are not there yet."""

    @abstractmethod
    def merged(self) -> Array:
        """Return what becomes of those that are there; valid until the next one is merged."""

    @abstractmethod
    def reset(self) -> None:
        """Make ready for another batch."""


class SpanCollector(Collector):
    """The exact mean over blocks, out of sums over spans."""

    def __init__(self, units: Units) -> None:
        self._mean = BlockMean(units.count)
        self._units = units.count
        self._done: Array | None = None

    @property
    def duplicates(self) -> int:  # type: ignore[override]
        """Spans that were there already."""
        return self._mean.duplicates

    def add(self, span: Span, value: Array, stays: bool) -> bool:
        """Add a sum."""
        if self._done is None:
            self._done = self._mean.mean_with(span, value, stays)
            return self._done is not None
        self._mean.add(span, value, stays)
        return False

    def has(self, unit: int) -> bool:
        """Whether a block is in a sum."""
        return unit not in self._mean.missing()

    def missing(self) -> list[int]:
        """The blocks that no sum holds."""
        return self._mean.missing()

    def merged(self) -> Array:
        """The mean."""
        if self._done is None:
            raise RuntimeError(f"There is no mean over {self._units} blocks before all of them are there")
        return self._done

    def reset(self) -> None:
        """Forget the sums."""
        self._mean.reset()
        self._done = None


class Gatherer(Collector):
    """Copies of all contributions, for any merge rule, in the order of their numbers."""

    def __init__(self, units: Units, rule: MergeRule) -> None:
        self._weights = units.weights
        self._rule = rule
        self._rooms: dict[int, Array] = {}
        self._here: set[int] = set()
        self.duplicates = 0

    def add(self, span: Span, value: Array, stays: bool) -> bool:
        """Copy a contribution."""
        unit = span[0]
        if unit in self._here:
            self.duplicates += 1
            return False
        room = self._rooms.get(unit)
        if room is None or room.shape != value.shape or room.dtype != value.dtype:
            room = self._rooms[unit] = np.empty_like(value, subok=False)
        np.copyto(room, value)
        self._here.add(unit)
        return len(self._here) == len(self._weights)

    def has(self, unit: int) -> bool:
        """Whether it has been copied."""
        return unit in self._here

    def missing(self) -> list[int]:
        """Those that were not copied."""
        return [unit for unit in range(len(self._weights)) if unit not in self._here]

    def share(self) -> float:
        """Return how much of the weight of all contributions is there."""
        return sum(self._weights[unit] for unit in self._here) / sum(self._weights)

    def merged(self) -> Array:
        """What the rule makes of those that are there; the copies are used up."""
        here = sorted(self._here)
        return self._rule.combine([self._rooms[unit] for unit in here], [self._weights[unit] for unit in here])

    def reset(self) -> None:
        """Forget all."""
        self._here.clear()


def collector(units: Units, rule: MergeRule) -> Collector:
    """Return what suits the grain of the contributions."""
    return SpanCollector(units) if units.grain is Grain.SPANS else Gatherer(units, rule)

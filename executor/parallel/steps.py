"""What tasks do with the elements of one partition. A step names only its function, so that it travels as data."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

_DRAWS = 1024  # random numbers at once


def elements(_number: int, items: Iterable[Any]) -> Iterable[Any]:
    """The items themselves."""
    return items


@dataclass(frozen=True)
class Map:
    """f(x) for every x."""

    function: Callable[[Any], Any]

    def __call__(self, _number: int, items: Iterable[Any]) -> Iterable[Any]:
        """See the class."""
        return map(self.function, items)


@dataclass(frozen=True)
class FlatMap:
    """All elements of f(x), for every x."""

    function: Callable[[Any], Iterable[Any]]

    def __call__(self, _number: int, items: Iterable[Any]) -> Iterable[Any]:
        """See the class."""
        return itertools.chain.from_iterable(map(self.function, items))


@dataclass(frozen=True)
class Filter:
    """Every x for which f(x) is true."""

    function: Callable[[Any], Any]

    def __call__(self, _number: int, items: Iterable[Any]) -> Iterable[Any]:
        """See the class."""
        return filter(self.function, items)


@dataclass(frozen=True)
class MapPartitions:
    """f(iterator over the partition)."""

    function: Callable[[Iterator[Any]], Iterable[Any]]

    def __call__(self, _number: int, items: Iterable[Any]) -> Iterable[Any]:
        """See the class."""
        return self.function(iter(items))


@dataclass(frozen=True)
class Sample:
    """Each element with probability `fraction`, drawn by Philox keyed by (seed, partition)."""

    fraction: float
    seed: int

    def __call__(self, number: int, items: Iterable[Any]) -> Iterable[Any]:
        """See the class."""
        draws = np.random.Generator(np.random.Philox(key=np.array([self.seed, number], np.uint64)))
        source = iter(items)
        while block := list(itertools.islice(source, _DRAWS)):
            chosen = draws.random(_DRAWS) < self.fraction  # a whole block, so that the draws do not depend on what follows
            yield from (item for item, keep in zip(block, chosen, strict=False) if keep)


@dataclass(frozen=True)
class Reduce:
    """[f(f(x0, x1), x2)...], or [] for an empty partition."""

    function: Callable[[Any, Any], Any]

    def __call__(self, _number: int, items: Iterable[Any]) -> Iterable[Any]:
        """See the class."""
        source = iter(items)
        for first in source:
            return [functools.reduce(self.function, source, first)]
        return []


@dataclass(frozen=True)
class Limit:
    """The first elements."""

    most: int

    def __call__(self, _number: int, items: Iterable[Any]) -> Iterable[Any]:
        """See the class."""
        return itertools.islice(items, self.most)


def count(_number: int, items: Iterable[Any]) -> list[int]:
    """[how many]."""
    return [sum(1 for _ in items)]

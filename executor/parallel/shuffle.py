"""Wide operations: elements of all partitions that belong together come together.

Each task of the first stage sorts its elements into buckets, the process of the Context deals the buckets out, each task of
the second stage merges those of one number, in the order of the partitions that they come from.
"""

from __future__ import annotations

import bisect
import dataclasses
import enum
import itertools
import numbers
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter, methodcaller
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .lineage import Lineage, Runner
from .pipeline import Step

SAMPLES = 256  # of the keys for each partition, about, of which borders between partitions are made


@dataclass(frozen=True)
class Combine:
    """Step that puts pairs (key, value) into buckets by key, the values of a key reduced by `function`, or listed if it is
    None.
    """

    function: Callable[[Any, Any], Any] | None
    buckets: int

    def __call__(self, _number: int, pairs: Iterable[tuple[Any, Any]]) -> list[list[tuple[Any, Any]]]:
        """Return [[(key, value or values), ...] of each bucket]."""
        found: dict[Any, Any] = {}
        for key, value in pairs:
            # a new list: lists that are extended below must not be the user's
            _add(found, key, [value] if self.function is None else value, self.function)
        dealt: list[list[tuple[Any, Any]]] = [[] for _ in range(self.buckets)]
        for key, value in found.items():
            # not `hash`, which for texts differs from process to process
            dealt[stable_hash(key) % self.buckets].append((key, value))
        return dealt


@dataclass(frozen=True)
class Merge:
    """Step that turns buckets of one number into pairs; the counterpart of `Combine`."""

    function: Callable[[Any, Any], Any] | None

    def __call__(self, _number: int, item: list[list[list[tuple[Any, Any]]]]) -> Iterable[tuple[Any, Any]]:
        """Return (key, value or values) for every key."""
        return _merged(item[0], self.function).items()


def join(_number: int, item: list[list[list[tuple[Any, list[Any]]]]]) -> Iterable[tuple[Any, tuple[Any, Any]]]:
    """Yield (key, (a, b)) for every pair of values that two collections have for a key."""
    left, right = (_merged(buckets, None) for buckets in item)
    for key, values in left.items():
        for pair in itertools.product(values, right.get(key, ())):
            yield key, pair


def _merged(buckets: list[list[tuple[Any, Any]]], function: Callable[[Any, Any], Any] | None) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for bucket in buckets:
        for key, value in bucket:
            # a copy: the input may be kept, and computed with again
            _add(found, key, list(value) if function is None else value, function)
    return found


def _add(found: dict[Any, Any], key: Any, value: Any, function: Callable[[Any, Any], Any] | None) -> None:
    if key not in found:
        found[key] = value
    elif function is None:
        found[key] += value
    else:
        found[key] = function(found[key], value)


class ByKey(Lineage):
    """Elements of one or more `parents` with equal keys in one partition.

    Args:
        parents: the collections.
        combine: makes buckets of each.
        merge: opens the buckets of one number.
        what: name of the operation, for people.
    """

    def __init__(self, parents: Sequence[Lineage], combine: Combine, merge: Step, what: str) -> None:
        super().__init__(combine.buckets, what)
        self._parents, self._combine, self._merge = parents, combine, merge

    def inputs(self, runner: Runner, wanted: Sequence[int]) -> Mapping[int, Any]:
        """Return for each parent the buckets of that number of all its partitions."""
        # all partitions of the parents, whatever is wanted: any of them may have elements for each bucket
        dealt = [parent.compute(runner, range(parent.count), [self._combine]) for parent in self._parents]
        return {number: [[partitions[p][number] for p in range(len(partitions))] for partitions in dealt] for number in wanted}

    def steps(self) -> list[Step]:
        return [self._merge]


@dataclass(frozen=True)
class SortPartition:
    """Step that makes [keys, elements] of a partition, both sorted by key; elements of equal keys stay in their order.

    Without a key function the elements are the keys, and stand there once: [elements].
    """

    key: Callable[[Any], Any] | None
    reverse: bool

    def __call__(self, _number: int, items: Iterable[Any]) -> list[Column]:
        if self.key is None:
            return [column(sorted(items, reverse=self.reverse))]
        # the key is computed once for each element, and only keys are compared
        pairs = sorted([(self.key(item), item) for item in items], key=itemgetter(0), reverse=self.reverse)
        return [column([key for key, _ in pairs]), column([item for _, item in pairs])]


@dataclass(frozen=True)
class MergeSorted:
    """Step that merges several runs in order: parts of the results of `SortPartition`."""

    reverse: bool

    def __call__(self, _number: int, runs: list[list[Column]]) -> Iterable[Any]:
        # sorting finds the runs and merges them, stably
        if all(len(run) == 1 for run in runs):
            return sorted(itertools.chain.from_iterable(listed(run[0]) for run in runs), reverse=self.reverse)
        pairs = [pair for keys, elements in runs for pair in zip(listed(keys), listed(elements), strict=True)]
        pairs.sort(key=itemgetter(0), reverse=self.reverse)
        return (item for _, item in pairs)


class Sorted(Lineage):
    """Elements sorted by key, stable: every key of a partition comes before those of the next one.

    Args:
        parent: the collection to sort.
        key: gives the key of an element; None: the element itself.
        reverse: whether the largest key comes first.
        count: number of partitions.
    """

    def __init__(self, parent: Lineage, key: Callable[[Any], Any] | None, reverse: bool, count: int) -> None:
        super().__init__(count, "sort_by")
        self._parent, self._key, self._reverse = parent, key, reverse

    def inputs(self, runner: Runner, wanted: Sequence[int]) -> Mapping[int, Any]:
        """Return for each partition the part of every sorted run that belongs there."""
        runs = self._parent.compute(runner, range(self._parent.count), [SortPartition(self._key, self._reverse)])
        borders = self._borders([runs[number][0] for number in range(len(runs))])
        found: dict[int, list[list[Column]]] = {number: [] for number in range(self.count)}
        for number in range(len(runs)):
            own = runs[number][0]
            cuts = [0, *(self._place(own, border) for border in borders), len(own)]
            cuts = list(itertools.accumulate(cuts, max))  # keys without an order, as nan, are sorted anyhow, but all are there
            for place, (start, end) in enumerate(itertools.pairwise(cuts)):
                found[place].append([part[start:end] for part in runs[number]])
        return {number: found[number] for number in wanted}

    def _borders(self, keys: list[Column]) -> list[Any]:
        """Find the first key of each partition but the first one, so that all have about as many elements."""
        total = sum(map(len, keys))
        step = max(1, total // (SAMPLES * self.count))
        samples: list[Any] = []
        start = step // 2  # in the middle of a step, so that neither end weighs more
        for own in keys:
            places = range(start, len(own), step)
            samples += at(own, places)
            start += len(places) * step - len(own)  # as if all runs were one
        samples.sort(reverse=self._reverse)
        return [samples[len(samples) * place // self.count] for place in range(1, self.count)] if samples else []

    def _place(self, keys: Column, border: Any) -> int:
        """Find the place in a run of the first key that does not come before `border`."""
        # as Python's numbers: NumPy would compare an integer of 64 bits with a float as two floats
        plain = methodcaller("item") if isinstance(keys, np.ndarray) else None
        if self._reverse:
            # bisect knows ascending order only
            return len(keys) - bisect.bisect_right(keys[::-1], border, key=plain)
        return bisect.bisect_left(keys, border, key=plain)

    def steps(self) -> list[Step]:
        return [MergeSorted(self._reverse)]


Column: TypeAlias = "list[Any] | NDArray[np.int64] | NDArray[np.float64]"


def column(items: list[Any]) -> Column:
    """Make an array for integers of 64 bits or for floats, if there is nothing else in the list; else return the list
    itself.
    """
    kinds = set(map(type, items))
    try:
        if kinds == {int}:  # by exact type: True must not come back as 1
            return np.array(items, np.int64)
        if kinds == {float}:
            return np.array(items, np.float64)
    except OverflowError:  # an integer of more than 64 bits
        return items
    return items


def listed(items: Column) -> list[Any]:
    """Return the list of which `column` has made `items`."""
    return items.tolist() if isinstance(items, np.ndarray) else items


def at(items: Column, places: Sequence[int]) -> list[Any]:
    """Return some of the items, as they were in the list."""
    return items[np.array(places, np.intp)].tolist() if isinstance(items, np.ndarray) else [items[place] for place in places]


_PRIME, _MASK = 1_000_003, (1 << 64) - 1


def stable_hash(key: Any) -> int:
    """Hash a key to 0 .. 2**64 - 1, equal for equal keys.

    Keys are numbers, str, bytes, None, enum members, frozen dataclasses, and tuples and frozensets of these.

    Raises: TypeError for any other key.
    """
    # it equals the Python value, and must come into the same bucket
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, numbers.Number):
        # equal numbers of all types have equal hashes, by Python's own rule; nan equals nothing, so any place will do
        return hash(key) & _MASK if key == key else 0
    if isinstance(key, str):
        return zlib.crc32(key.encode("utf-8", "surrogatepass"))  # a lone surrogate may be a key, too
    if isinstance(key, bytes):
        return zlib.crc32(key)
    if key is None:
        return 1
    if isinstance(key, tuple):
        total = len(key)
        for part in key:
            # the order of the parts counts
            total = (total * _PRIME ^ stable_hash(part)) & _MASK
        return total
    if isinstance(key, frozenset):
        # and here it does not
        return sum(map(stable_hash, key)) & _MASK
    if isinstance(key, enum.Enum):  # after all that a member may be as well, and be equal to
        return zlib.crc32(f"{type(key).__qualname__}.{key.name}".encode())
    if dataclasses.is_dataclass(key) and not isinstance(key, type) and key.__hash__ is not None:
        # fields that are not compared may differ between equal keys
        return stable_hash(tuple(getattr(key, f.name) for f in dataclasses.fields(key) if f.compare))
    raise TypeError(
        f"A key must be a number, str, bytes, None, enum member, frozen dataclass, or a tuple or frozenset of these, "
        f"got {type(key).__qualname__}."
    )

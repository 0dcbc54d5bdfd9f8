"""Lazy collections in the manner of an RDD: a collection knows how its partitions are made, and makes them when asked."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from numbers import Integral, Real
from typing import Any, Generic, TypeVar

from . import pipeline
from .lineage import Indexed, Lineage, Narrow, Runner
from .pipeline import Step
from .shuffle import ByKey, Combine, Merge, Sorted, join

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")

_NOTHING = object()


class Collection(Generic[T]):
    """Elements in partitions, in a fixed order; made by a `Context`.

    Operations that return a collection compute nothing. The others run one task per partition, and all collections behind this
    one that are not persisted are computed anew. Functions must be pure: the task of a lost worker runs again elsewhere.
    Elements are data (see `network.values`) unless the executor is a pool of threads.

    Args:
        lineage: how each partition is made.
        runner: runs the tasks.
    """

    def __init__(self, lineage: Lineage, runner: Runner) -> None:
        self._lineage, self._runner = lineage, runner

    @property
    def partitions(self) -> int:
        return self._lineage.count

    def __repr__(self) -> str:
        kept = "" if self._lineage.kept is None else ", kept"
        return f"<Collection of {self.partitions} partitions by '{self._lineage.what}'{kept}>"

    def _then(self, step: Step, what: str) -> Collection[Any]:
        return Collection(Narrow(self._lineage, step, what), self._runner)

    def _apply(self, what: str, how: Callable[..., Iterable[Any]], function: Any) -> Collection[Any]:
        return self._then(pipeline.Apply(how, checked_function(what, function)), what)

    # ---- element by element

    def map(self, function: Callable[[T], U]) -> Collection[U]:
        """Apply `function` to every element x: f(x)."""
        return self._apply("map", map, function)

    def flat_map(self, function: Callable[[T], Iterable[U]]) -> Collection[U]:
        """Apply `function` to every element x and chain the results: all elements of f(x)."""
        return self._apply("flat_map", pipeline.flat_map, function)

    def filter(self, function: Callable[[T], Any]) -> Collection[T]:
        """Keep every x for which `function` returns a true value."""
        return self._apply("filter", filter, function)

    def map_partitions(self, function: Callable[[Iterator[T]], Iterable[U]]) -> Collection[U]:
        """Apply `function` to the iterator over every partition and chain the results."""
        return self._apply("map_partitions", pipeline.whole, function)

    def sample(self, fraction: float, seed: int = 0) -> Collection[T]:
        """Keep each element with the same probability, independently of the others; the same ones for equal seed and
        partitions.

        Args:
            fraction: the probability.
            seed: seed of the draws.

        Raises: ValueError for a fraction outside 0 to 1 or a seed outside 0 to 2**64 - 1.
        """
        if not isinstance(fraction, Real) or not 0 <= fraction <= 1:
            raise ValueError(f"sample 'fraction' must be from 0 to 1, got {fraction!r}.")
        if not isinstance(seed, Integral) or not 0 <= seed < 1 << 64:
            raise ValueError(f"sample 'seed' must be from 0 to 2**64 - 1, got {seed!r}.")
        return self._then(pipeline.Sample(float(fraction), int(seed)), "sample")

    def zip_with_index(self) -> Collection[tuple[T, int]]:
        """Pair every element with its place: (x, place of x in the whole collection)."""
        return Collection(Indexed(self._lineage), self._runner)

    # ---- by key

    def reduce_by_key(
        self: Collection[tuple[K, V]], function: Callable[[V, V], V | W], partitions: int | None = None
    ) -> Collection[tuple[K, V | W]]:
        """Reduce the values of each key: (key, f(f(v0, v1), v2)...) of pairs (key, v), the values in their order.

        Keys may be any that `shuffle.stable_hash` takes; in which order they come is not defined, here and below.

        Args:
            function: f, which must be associative.
            partitions: of the result; default: as many as here.
        """
        combine = Combine(checked_function("reduce_by_key", function), self._count(partitions))
        return Collection(ByKey([self._lineage], combine, Merge(function), "reduce_by_key"), self._runner)

    def group_by_key(self: Collection[tuple[K, V]], partitions: int | None = None) -> Collection[tuple[K, list[V]]]:
        """List the values of each key: (key, [v0, v1, ...]) of pairs (key, v), in their order. `partitions` as in
        `reduce_by_key`.
        """
        combine = Combine(None, self._count(partitions))
        return Collection(ByKey([self._lineage], combine, Merge(None), "group_by_key"), self._runner)

    def join(
        self: Collection[tuple[K, V]], other: Collection[tuple[K, W]], partitions: int | None = None
    ) -> Collection[tuple[K, tuple[V, W]]]:
        """Join by key: (key, (v, w)) for every (key, v) here and (key, w) in the other collection.

        Args:
            other: the other collection, of pairs too.
            partitions: as in `reduce_by_key`.
        """
        if not isinstance(other, Collection):
            raise TypeError(f"join needs another collection, got {type(other).__qualname__}.")
        combine = Combine(None, self._count(partitions))
        return Collection(ByKey([self._lineage, other._lineage], combine, join, "join"), self._runner)

    def distinct(self, partitions: int | None = None) -> Collection[T]:
        """Keep one element of those that are equal. `partitions` as in `reduce_by_key`."""
        return self.map(_keyed).reduce_by_key(_first, partitions).map(operator.itemgetter(0))

    def sort_by(
        self, key: Callable[[T], Any] | None = None, *, reverse: bool = False, partitions: int | None = None
    ) -> Collection[T]:
        """Sort the elements as `sorted` does; elements of equal keys keep their order.

        Args:
            key, reverse: as of `sorted`.
            partitions: as in `reduce_by_key`.
        """
        if key is not None:
            checked_function("sort_by", key)
        return Collection(Sorted(self._lineage, key, reverse, self._count(partitions)), self._runner)

    def _count(self, partitions: int | None) -> int:
        return max(1, self.partitions) if partitions is None else checked_count("'partitions'", partitions)

    # ---- results

    def collect(self) -> list[T]:
        """Return all elements."""
        return self._collected()

    def count(self) -> int:
        """Count the elements."""
        return sum(self._collected(pipeline.count))

    def take(self, most: int) -> list[T]:
        """Return the first `most` elements; computes no more partitions than it needs, in growing steps.

        Raises: ValueError unless it is an integer from 0.
        """
        if isinstance(most, bool) or not isinstance(most, Integral) or most < 0:
            raise ValueError(f"take 'most' must be an integer from 0, got {most!r}.")
        found: list[T] = []
        done, width = 0, 1
        # one partition first, then four times as many: the first often are enough
        while len(found) < most and done < self.partitions:
            wanted = range(done, min(done + width, self.partitions))
            # each task stops when it has as many as are missing in all
            parts = self._lineage.compute(self._runner, wanted, [pipeline.Limit(most - len(found))])
            for number in wanted:
                found += parts[number]
            done, width = wanted.stop, width * 4
        return found[:most]

    def reduce(self, function: Callable[[T, T], T | U]) -> T | U:
        """Reduce the elements by `function`, which is associative: f(f(x0, x1), x2)..., each partition first, then their
        results in order.

        Raises: TypeError for an empty collection.
        """
        results: list[Any] = self._reduced(checked_function("reduce", function))
        if not results:
            raise TypeError("reduce() of an empty collection: use fold, which has an initial value.")
        result: T | U = functools.reduce(function, results)
        return result

    def fold(self, initial: T | U, function: Callable[[T, T], T | U]) -> T | U:
        """Reduce the elements behind an initial value: f(f(initial, x0), x1)...

        Args:
            initial: that value; it is used once.
            function: f, which must be associative.
        """
        # `initial` here and not in the partitions, whose number must not change the result
        merge: Callable[[Any, Any], Any] = checked_function("fold", function)
        result: T | U = functools.reduce(merge, self._reduced(merge), initial)
        return result

    def _reduced(self, function: Callable[[Any, Any], Any]) -> list[Any]:
        return self._collected(pipeline.Apply(pipeline.reduced, function))

    def _collected(self, *further: Step) -> list[Any]:
        parts = self._lineage.compute(self._runner, range(self.partitions), further)
        # by number: a partition that was missed at first came last
        return [item for number in range(len(parts)) for item in parts[number]]

    # ---- keeping computed partitions

    def persist(self, replicas: int = 1) -> Collection[T]:
        """Keep partitions once they have been computed; returns the collection itself.

        On a `ClusterExecutor` they stay in the memory of the node that has computed them, and of others, so that there are
        `replicas` of each, or as many as there are nodes; a task that needs a partition runs where it is. A partition that a
        node has no room for (`keep_bytes`), or that was lost with all nodes that had it, is computed again. Elements need not
        be data then, as long as there is one replica; they must not be changed. On other executors they are kept here, in the
        process of the Context, and `replicas` means nothing.

        Raises: ValueError unless `replicas` is a positive integer.
        """
        if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 1:
            raise ValueError(f"persist 'replicas' must be a positive integer, got {replicas!r}.")
        if self._lineage.kept is None:
            self._lineage.kept = self._runner.keep(replicas)
        else:
            self._lineage.kept.copy_to(replicas)
        return self

    def cache(self) -> Collection[T]:
        """Keep partitions as `persist()` does."""
        return self.persist()

    def unpersist(self) -> Collection[T]:
        """Free the memory of the kept partitions, and keep none; they are computed again when they are needed. Idempotent.

        The same happens to a collection that nothing refers to any more.
        """
        if self._lineage.kept is not None:
            self._lineage.kept.close()
            self._lineage.kept = None
        return self

    @property
    def is_persisted(self) -> bool:
        """Whether partitions are kept."""
        return self._lineage.kept is not None


def _keyed(item: Any) -> tuple[Any, None]:
    return item, None


def _first(first: Any, _second: Any) -> Any:
    return first


def checked_count(what: str, value: object) -> int:
    """Return the value as an int; `what` names it in the error.

    Raises: ValueError unless it is a positive integer.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{what} must be a positive integer, got {value!r}.")
    return int(value)


def checked_function(what: str, function: Any) -> Any:
    """Return the function itself; `what` names its user in the error.

    Raises: TypeError unless it can be called.
    """
    if not callable(function):
        raise TypeError(f"{what} needs a function, got {type(function).__qualname__}.")
    return function

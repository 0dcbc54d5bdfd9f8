"""Pipeline of one task: steps in a row over the elements of one partition, some of which keep the elements so far."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..keeper import SHELVES, Absent, size_of

Step: TypeAlias = Callable[[int, Any], Iterable[Any]]
"""(partition number, elements) -> elements."""


@dataclass(frozen=True)
class Keep:
    """Step that keeps the elements on a `shelf` of this process, if there is one, and with `hand_out` sends them to the
    process of the Context.
    """

    shelf: int | None
    hand_out: bool

    def put(self, number: int, elements: list[Any]) -> bool:
        """Put the elements on the shelf; return whether they are there now."""
        return self.shelf is not None and SHELVES.get().put(self.shelf, number, elements, size_of(elements))


@dataclass(frozen=True)
class FromShelf:
    """Step that takes the elements that an earlier task has kept. Raises: Absent."""

    shelf: int

    def __call__(self, number: int, _item: Any) -> list[Any]:
        found: list[Any] = SHELVES.get().get(self.shelf, number)
        return found


class Outcome(NamedTuple):
    """Outcome of a task.

    Args:
        node: the node that it ran on, if that keeps anything.
        elements: the elements after all steps, None for the same as were handed out last.
        kept: for each `Keep`, whether its elements are kept there.
        handed: for each `Keep`, its elements if they are handed out.
    """

    node: int | None
    elements: list[Any] | None
    kept: list[bool]
    handed: list[list[Any] | None]

    @property
    def result(self) -> list[Any]:
        return next(part for part in reversed(self.handed) if part is not None) if self.elements is None else self.elements


class Missed(NamedTuple):
    """Outcome of a task without its input on `node` any more."""

    node: int


class Pipeline:
    """Pipeline of a task: `steps`, the first of which opens its input. Returns an `Outcome` or `Missed`, as a plain tuple
    that may travel.
    """

    def __init__(self, steps: Sequence[Step | Keep]) -> None:
        self.steps = list(steps)

    def __call__(self, number: int, item: Any) -> tuple[Any, ...]:
        shelves = SHELVES.get(None)
        node = None if shelves is None else shelves.node
        kept: list[bool] = []
        handed: list[list[Any] | None] = []
        try:
            for step in self.steps:
                if isinstance(step, Keep):
                    # an iterator would be used up by being kept
                    item = list(item)
                    kept.append(step.put(number, item))
                    handed.append(item if step.hand_out else None)
                else:
                    item = step(number, item)
        except Absent:
            # a short tuple, not an error: the planner takes another way
            return (node,)
        last = self.steps[-1]
        # not twice over the wire: what was handed out last is the result
        return (node, None if isinstance(last, Keep) and last.hand_out else list(item), kept, handed)


def opened(result: Any) -> Outcome | Missed:
    """Read the tuple that a pipeline returned."""
    return Missed(*result) if len(result) == 1 else Outcome(*result)


_DRAWS = 1024  # random numbers at once


def elements(_number: int, items: Iterable[Any]) -> Iterable[Any]:
    return items


@dataclass(frozen=True)
class Apply:
    """Step that calls `how(function, items)`: `map`, `filter`, or one of those below."""

    how: Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]
    function: Callable[..., Any]

    def __call__(self, _number: int, items: Iterable[Any]) -> Iterable[Any]:
        return self.how(self.function, items)


def flat_map(function: Callable[[Any], Iterable[Any]], items: Iterable[Any]) -> Iterable[Any]:
    """Chain the elements of f(x), for every x."""
    return itertools.chain.from_iterable(map(function, items))


def whole(function: Callable[[Iterator[Any]], Iterable[Any]], items: Iterable[Any]) -> Iterable[Any]:
    """Return f(iterator over the partition).

    Args:
        function: f, which takes all elements at once.
        items: the elements.
    """
    return function(iter(items))


def reduced(function: Callable[[Any, Any], Any], items: Iterable[Any]) -> Iterable[Any]:
    """Return [f(f(x0, x1), x2)...], or [] for an empty partition."""
    source = iter(items)
    for first in source:
        return [functools.reduce(function, source, first)]
    return []


@dataclass(frozen=True)
class Sample:
    """Step that keeps each element with probability `fraction`, drawn by Philox keyed by (seed, partition)."""

    fraction: float
    seed: int

    def __call__(self, number: int, items: Iterable[Any]) -> Iterable[Any]:
        draws = np.random.Generator(np.random.Philox(key=np.array([self.seed, number], np.uint64)))
        source = iter(items)
        # blocks of a fixed size draw the same numbers however the partition comes
        while block := list(itertools.islice(source, _DRAWS)):
            chosen = draws.random(_DRAWS) < self.fraction  # a whole block, so that the draws do not depend on later steps
            yield from (item for item, keep in zip(block, chosen, strict=False) if keep)


@dataclass(frozen=True)
class Limit:
    """Step that keeps the first elements."""

    most: int

    def __call__(self, _number: int, items: Iterable[Any]) -> Iterable[Any]:
        return itertools.islice(items, self.most)


def count(_number: int, items: Iterable[Any]) -> list[int]:
    """Return [number of items]."""
    return [sum(1 for _ in items)]

"""Orders of axes: images are (batch, height, width, channels) in nn and (batch, channels, height, width) in ONNX.

Each convolution of a file stands between two changes of the order. Those that undo each other are left out, also with
operations of single elements between them, so that a chain of layers keeps one order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

Order = tuple[int, ...]
Key = TypeVar("Key", bound=Hashable)


class Orders(Generic[Key]):
    """Values that are others with their axes in another order.

    Args:
        make: makes the value with the axes of another one in an order: axis i is axis `order[i]` of it.
    """

    def __init__(self, make: Callable[[Key, Order], Key]) -> None:
        self._make = make
        self._sources: dict[Key, tuple[Key, Order]] = {}
        self._made: dict[tuple[Key, Order], Key] = {}

    def source(self, value: Key) -> tuple[Key, Order | None]:
        """Return the value and the order that make this one; itself and None where it is none of these."""
        return self._sources.get(value, (value, None))

    def turned(self, value: Key, order: Sequence[int]) -> Key:
        """Return a value with its axes in an order: one that is there already, or a new one."""
        source, before = self.source(value)
        whole = tuple(order) if before is None else tuple([before[axis] for axis in order])
        if whole == tuple(range(len(whole))):
            return source
        if (source, whole) not in self._made:
            made = self._made[source, whole] = self._make(source, whole)
            self._sources[made] = source, whole
        return self._made[source, whole]

    def through(self, value: Key, compute: Callable[[Key], Key]) -> Key:
        """Return `compute(value)` for a function of single elements, computed before a change of the order."""
        source, order = self.source(value)
        made = compute(source)
        return made if order is None else self.turned(made, order)


def inverse(order: Sequence[int]) -> Order:
    """Return the order that undoes another one."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def channels_first(rank: int) -> Order:
    """Return the order that takes the last axis behind the batch."""
    return (0, rank - 1, *range(1, rank - 1))


def channels_last(rank: int) -> Order:
    """Return the order that takes the axis behind the batch to the end."""
    return (0, *range(2, rank), 1)

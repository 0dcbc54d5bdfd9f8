"""Message that has arrived, and its value, which is decoded on request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from .budget import OBJECT_BYTES
from .names import numpy as np
from .values import Array, decode
from .wire import unpack

ARRAY_BYTES = 1 << 11  # of an array in line beside its content: it takes some 200, and a message may hold 100,000


class Undecoded:
    """Value as it came, decoded on request: a message that waits in line takes no more than its bytes.

    It is no tuple, so that code that takes it for the value fails at once.

    Args:
        tree: the packed structure of the value.
        arrays: the arrays in it, in the order of their places in `tree`.
        classes: the classes of which it may hold objects.
    """

    __slots__ = ("arrays", "classes", "tree")

    def __init__(self, tree: bytes, arrays: list[Array], classes: Sequence[type]) -> None:
        self.tree = tree
        self.arrays = arrays
        self.classes = classes

    def unpack(self, budget: int = OBJECT_BYTES) -> Any:
        """Decode the value.

        Raises: ProtocolError when it is malformed, or would become more than `budget` bytes of objects.
        """
        return decode(unpack(self.tree, budget), self.arrays, self.classes)


Content: TypeAlias = "Array | tuple[Any, ...] | Undecoded"
"""Content of a message as it came; `unpacked` returns the value."""


def unpacked(content: Content) -> Any:
    """Return the value of `Message.content`. Raises: ProtocolError, as `Undecoded.unpack`."""
    return content.unpack() if type(content) is Undecoded else content


def own(content: Content) -> Content:
    """Return `Message.content` with arrays that may be changed: copies of those that lie in memory of the sender."""
    if type(content) is Undecoded:
        return Undecoded(content.tree, [_own(array) for array in content.arrays], content.classes)
    return tuple(map(_own, content)) if type(content) is tuple else _own(content)


def _own(item: Any) -> Any:
    # arrays that came over a link are this side's own, and writable
    return item.copy() if type(item) is np.ndarray and not item.flags.writeable else item


class Message(NamedTuple):
    """Received message and its size in bytes.

    Arrays that cannot be written to lie in memory of the sender, which uses it again when no array here holds it any more.

    Args:
        head: integers, the key of an exchanged block, or empty.
        content: an array, a tuple that ends with one, or `Undecoded`.
        raw: bytes of its arrays.
        overhead: bytes that the protocol added.
        shared: whether its arrays did not travel, but were left in memory.
    """

    head: tuple[int, ...]
    content: Any
    raw: int
    overhead: int
    shared: bool = False

    @property
    def value(self) -> Any:
        """Value that was sent, decoded now, as by `within`, and not in memory of the sender."""
        return unpacked(own(self.content))

    def within(self, budget: int) -> Any:
        """Return the value, if its objects take no more than `budget` bytes.

        Raises: ProtocolError, as `Undecoded.unpack`.
        """
        return self.content.unpack(budget) if type(self.content) is Undecoded else self.content

    @property
    def held(self) -> int:
        """Estimate of the bytes that it takes in line; many small arrays take more than their content."""
        arrays = len(self.content.arrays) if type(self.content) is Undecoded else 1
        return self.raw + self.overhead + ARRAY_BYTES * arrays

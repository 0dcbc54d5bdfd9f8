"""Work space that operations need during a call only, shared by all that run one after the other."""

import math
from typing import Any, Protocol

import numpy as np

from nn.arrays import CACHE_LINE, Array, Shape, empty


class Scratch(Protocol):
    """Gives memory that is used during one call of an operation."""

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return an array that begins at a cache line; its content means nothing at the beginning of a call."""


class OwnMemory:
    """Shares nothing: each array has memory of its own."""

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return a new array."""
        return empty(shape, dtype)


class Arena:
    """One piece of memory, dealt anew to every operation: arrays of one operation lie side by side, those of two may overlap.

    It is used twice: the first time it only measures, then `open` gives it memory of the size that was needed at most.
    """

    def __init__(self) -> None:
        self._memory: Array | None = None
        self._used = 0
        self.size = 0

    def next(self) -> None:
        """Begin with another operation."""
        self._used = 0

    def open(self) -> None:
        """Get the memory; from now on `empty` gives parts of it."""
        self._memory = empty((self.size,), np.dtype(np.uint8))
        self._used = 0

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return an array of the arena, or one of memory that is never touched while it measures."""
        size = math.prod(shape) * dtype.itemsize
        start = self._used
        self._used += -(-size // CACHE_LINE) * CACHE_LINE
        if self._memory is None:
            self.size = max(self.size, self._used)
            return np.empty(shape, dtype)
        return self._memory[start : start + size].view(dtype).reshape(shape)

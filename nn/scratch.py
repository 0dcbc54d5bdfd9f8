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


class Measure:
    """Finds out how much memory the operations need that share an arena."""

    def __init__(self) -> None:
        self._used = 0
        self.size = 0

    def begin(self) -> None:
        """Go on with another operation."""
        self._used = 0

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return an array that nobody will write to, which therefore takes no memory."""
        self._used += _rounded(shape, dtype)
        self.size = max(self.size, self._used)
        return np.empty(shape, dtype)


class Arena:
    """Memory dealt anew to every operation: the arrays of one lie side by side, those of two overlap."""

    def __init__(self, size: int) -> None:
        self._memory = empty((size,), np.dtype(np.uint8))
        self._used = 0

    def begin(self) -> None:
        """Go on with another operation."""
        self._used = 0

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return a part of the arena; raise MemoryError where it is used up, for whoever measured was wrong."""
        start = self._used
        self._used += _rounded(shape, dtype)
        if self._used > self._memory.size:
            raise MemoryError(f"an operation asks for {self._used} bytes of work space, but {self._memory.size} were measured")
        return self._memory[start : start + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


def _rounded(shape: Shape, dtype: np.dtype[Any]) -> int:
    return -(-math.prod(shape) * dtype.itemsize // CACHE_LINE) * CACHE_LINE

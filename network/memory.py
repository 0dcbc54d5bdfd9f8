"""Memory for large arrays: slabs and buffers that are used again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .names import numpy as np

SMALLEST = 256 << 10  # bytes; below that the allocator is as fast
CAPACITY = 256 << 20  # bytes that one pool keeps
CACHE_LINE = 64  # where slabs begin: the allocator's begin 16 bytes behind one, which costs vector instructions a tenth


class SlabPool:
    """Maker of arrays that keeps the memory of large ones, at most `capacity` bytes; the slab used longest ago goes first."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._slabs: list[np.typing.NDArray[np.uint8]] = []  # in the order of use

    @property
    def held(self) -> int:
        return sum(len(slab) - CACHE_LINE for slab in self._slabs)

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any], size: int) -> np.typing.NDArray[Any]:
        """Make a contiguous array with any content, in memory that no other living array shares; a large one begins at a cache
        line.

        Args:
            shape: its dimensions.
            dtype: its type.
            size: its bytes, which follow from both.
        """
        if not SMALLEST <= size <= self._capacity:
            return np.empty(shape, dtype)
        slab = self._idle(size)
        if slab is None:
            slab = np.empty(size + CACHE_LINE, np.uint8)
            while self._slabs and self.held + size > self._capacity:
                del self._slabs[0]  # lives on where it is in use
        self._slabs.append(slab)
        start = -slab.ctypes.data % CACHE_LINE
        return slab[start : start + size].view(dtype).reshape(shape)

    def _idle(self, size: int) -> np.typing.NDArray[np.uint8] | None:
        """Take out a free slab that fits: the one used last, which is still in the caches."""
        for number in reversed(range(len(self._slabs))):
            # up to an eighth larger: a slab of another size would waste memory for as long as its array lives
            if size <= len(self._slabs[number]) - CACHE_LINE <= size + size // 8 and _holders(self._slabs, number) == _NOBODY:
                return self._slabs.pop(number)
        return None


class SpareBuffers:
    """Buffers of `size` bytes: each reader that has emptied one gives it back for the next, so that no waiting reader keeps
    one. At most `most` spare ones are kept.
    """

    def __init__(self, size: int, most: int) -> None:
        self._size, self._most = size, most
        self._spare: list[memoryview] = []

    def take(self, size: int) -> memoryview:
        """Return a buffer of at least `size` bytes."""
        if size > self._size:
            return memoryview(bytearray(size))
        try:
            return self._spare.pop()
        except IndexError:
            return memoryview(bytearray(self._size))

    def give(self, buffer: memoryview) -> None:
        """Take back a buffer into which no view looks any more."""
        # larger ones were made for one message and go back to the system
        if len(buffer) == self._size and len(self._spare) < self._most:
            self._spare.append(buffer)


def _holders(slabs: Sequence[object], number: int) -> int:
    """Count the references to a slab. Every array that looks into it holds one: NumPy makes the owner of the memory their
    base.
    """
    return sys.getrefcount(slabs[number])


_NOBODY = _holders([object()], 0)

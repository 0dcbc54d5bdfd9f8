"""Memory for received arrays, used again when nobody holds the array that lived in it.

Fresh memory costs the kernel more than a large array costs the network (a page fault per 4 KiB), and training receives arrays
of the same sizes batch after batch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALLEST = 256 << 10  # bytes; below that the allocator is as fast
CAPACITY = 256 << 20  # bytes that one pool keeps


class SlabPool:
    """Makes arrays and keeps the memory of large ones; what was used longest ago goes first."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._slabs: list[NDArray[np.uint8]] = []  # in the order of use

    @property
    def held(self) -> int:
        """Bytes of all slabs, busy or idle."""
        return sum(len(slab) for slab in self._slabs)

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any], size: int) -> NDArray[Any]:
        """A contiguous array of `size` bytes with any content, in memory that no other living array shares."""
        if not SMALLEST <= size <= self._capacity:
            return np.empty(shape, dtype)
        slab = self._idle(size)
        if slab is None:
            slab = np.empty(size, np.uint8)
            while self._slabs and self.held + size > self._capacity:
                del self._slabs[0]  # lives on where it is in use
        self._slabs.append(slab)
        return slab[:size].view(dtype).reshape(shape)

    def _idle(self, size: int) -> NDArray[np.uint8] | None:
        """Take out a slab that fits and is nobody's; the one used last, which is in the caches still."""
        for number in reversed(range(len(self._slabs))):
            if size <= len(self._slabs[number]) <= size + size // 8 and _holders(self._slabs, number) == _NOBODY:
                return self._slabs.pop(number)
        return None


def _holders(slabs: Sequence[NDArray[np.uint8]], number: int) -> int:
    """References to a slab. Every array that looks into it holds it: NumPy makes the owner of the memory their base."""
    return sys.getrefcount(slabs[number])


_NOBODY = _holders([np.empty(1, np.uint8)], 0)

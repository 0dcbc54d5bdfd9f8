"""Vectors in buckets of equal size, each with a scale of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..stage import Vector
from .quantizer import CHUNK, LARGEST, chunks

#: Sums of float32 squares in this range have neither lost nor overflowed anything that matters.
_SAFE_SQUARES = (2.0**-90, 2.0**125)

_MAGNITUDE = 0x7FFFFFFF


class Group(NamedTuple):
    """`rows` whole buckets of `width` values, from bucket number `first` and element `start` on."""

    first: int
    start: int
    rows: int
    width: int

    @property
    def place(self) -> slice:
        """Where the elements stand."""
        return slice(self.start, self.start + self.rows * self.width)

    @property
    def scales(self) -> slice:
        """Where their scales stand."""
        return slice(self.first, self.first + self.rows)

    def pieces(self) -> Iterator[tuple[slice, tuple[int, int]]]:
        """Give the elements in parts of at most CHUNK, each with its shape in rows."""
        if self.rows * self.width <= CHUNK:
            yield self.place, (self.rows, self.width)
        else:
            for piece in chunks(self.width):
                yield slice(self.start + piece.start, self.start + piece.stop), (1, piece.stop - piece.start)


def groups(n: int, width: int) -> Iterator[Group]:
    """Give n elements in groups of whole buckets: at most CHUNK elements, or one bucket that is larger; the last is shorter."""
    rows, start = max(1, CHUNK // width), 0
    while start < n:
        count = min(rows, max(1, (n - start) // width))
        group = Group(start // width, start, count, min(width, n - start))
        yield group
        start += count * group.width


def count(n: int, width: int) -> int:
    """Return the number of buckets of n elements."""
    return -(-n // width)


def steps(scales: Vector, levels: int) -> Vector:
    """Return scales / levels, so that `levels` of these steps are a finite number again."""
    capped: Vector = np.minimum(scales, np.float32(LARGEST * (1 - 2.0**-22)), dtype=np.float32)
    return np.divide(capped, levels, dtype=np.float32)


def largest(rows: NDArray[np.float32], room: NDArray[np.int32]) -> Vector:
    """Return max|x| of every row; `room` has the size of `rows`."""
    # the bits of floats without sign are ordered as the floats are, and the maximum of integers is the faster one
    bits = np.bitwise_and(rows.view(np.int32), _MAGNITUDE, out=room.reshape(rows.shape))
    tops: NDArray[np.int32] = np.maximum.reduce(bits, axis=1)
    return tops.view(np.float32)


def square_sums(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return ||x||^2 of every row, at least the square of its largest element up to one rounding; never infinite."""
    low, high = _SAFE_SQUARES
    sums: NDArray[np.float64] = np.einsum("ij,ij->i", rows, rows).astype(np.float64)
    doubtful = ~((sums > low) & (sums < high))
    if doubtful.any():
        for row in np.flatnonzero(doubtful):
            wide = rows[row].astype(np.float64)
            sums[row] = np.add.reduce(np.square(wide, out=wide))
    return sums


def norms(sums: NDArray[np.float64]) -> Vector:
    """Return the norms of sums of squares, enlarged by 2^-22 so that no element exceeds its norm by a rounding."""
    return np.minimum(np.sqrt(sums) * (1 + 2.0**-22), LARGEST).astype(np.float32)

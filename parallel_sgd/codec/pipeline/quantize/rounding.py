"""Rounding of floats to bytes in fixed point, to nearest and stochastically, and scales of buckets of values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..stage import Draw, Vector
from .quantizer import CHUNK, FLOOR, LARGEST, chunks

#: The fraction bits of a number before it is rounded. With codes of 8 bits a sign and these it fits a float's 24 bits.
FRACTION = 15

#: Where a generator of its own costs more than it saves.
_FEW = 1 << 14


class Dither:
    """The random bits of one packet of n values, a function of its draw and n alone.

    The keyed generator is a Philox, which would take as long as all the rest of a quantiser. For more than a few values it
    only seeds an SFC64 (Doty-Humphrey, PractRand), twice as fast; equal keys give equal bits as before.
    """

    def __init__(self, draw: Draw, n: int) -> None:
        keyed: Any = draw.generator().bit_generator
        self._bits = keyed if n <= _FEW else np.random.SFC64(keyed.random_raw(4))

    def words(self, count: int) -> NDArray[np.uint32]:
        words: NDArray[np.uint32] = self._bits.random_raw((count + 1) // 2).view(np.uint32)
        return words[:count]

    def fill(self, out: NDArray[np.int32]) -> None:
        """Fill a buffer with uniform numbers of FRACTION bits: 0 to 2^15 - 1."""
        half = (out.size + 1) // 2
        words, room = self.words(half), out.view(np.uint32)
        np.bitwise_and(words, (1 << FRACTION) - 1, out=room[:half])
        np.right_shift(words[: out.size - half], 32 - FRACTION, out=room[half:])


#: Added to a number below 2^22 in size, it makes a float whose bits, as an integer, are those of the constant plus the
#: nearest integer, ties to even: the exponent is such that the last bit of the mantissa counts 1. Its low 22 bits are zeros.
MAGIC = np.float32(1.5 * 2**23)

#: What `Rounder.stochastic` adds to every code.
OFFSET = 128

#: The factor of stochastic codes: one step of the code.
STEP = 1 << FRACTION


class Rounder:
    """Work space for rounding up to CHUNK values at once; arrays that its methods return are valid until the next call."""

    def __init__(self) -> None:
        self._floats: Vector = np.empty(0, np.float32)
        self._dither: NDArray[np.int32] = np.empty(0, np.int32)
        self._codes: NDArray[np.uint8] = np.empty(0, np.uint8)

    def room(self, size: int) -> Vector:
        """Return a float buffer of `size` values, the one that `fixed` and `stochastic` work in."""
        if self._floats.size < size:
            self._floats = np.empty(size, np.float32)
        return self._floats[:size]

    def scale(self, x: Vector) -> np.float32:
        top = np.float32(0)
        for piece in chunks(x.size):
            room = self.room(piece.stop - piece.start).view(np.int32)
            top = max(top, largest(x[piece].reshape(1, -1), room)[0])
        return np.float32(0) if top < FLOOR else top

    def fixed(self, x: NDArray[Any], factor: Any) -> NDArray[np.int32]:
        """Return MAGIC's bits plus the integers next to `x * factor`, which must be below 2^22. `x` may be rows of buckets."""
        room = self.room(x.size)
        np.multiply(x, factor, out=room.reshape(x.shape))
        np.add(room, MAGIC, out=room)
        return room.view(np.int32)

    def stochastic(self, fixed: NDArray[np.int32], dither: Dither) -> NDArray[np.uint8]:
        """Return fixed / 2^15, rounded up with the probability of its fraction, plus OFFSET; zeros pad it to whole eights.

        `fixed` is the result of `fixed`, of numbers of at most 127 steps. With y = fixed / 2^15 and u uniform in
        {0, .., 2^15 - 1} / 2^15 the code is floor(y + u), of expectation y exactly: a quantiser is biased only by
        the rounding to fixed point, at most 2^-16 of a step.
        """
        if self._dither.size < fixed.size:
            self._dither = np.empty(fixed.size, np.int32)
            self._codes = np.empty(-(-fixed.size // 8) * 8, np.uint8)
        noise = self._dither[: fixed.size]
        dither.fill(noise)
        np.add(fixed, noise, out=fixed)
        np.right_shift(fixed, FRACTION, out=fixed)
        codes = self._codes[: -(-fixed.size // 8) * 8]
        codes[fixed.size :] = OFFSET
        # the low byte of MAGIC's bits is 128 after the shift
        np.copyto(codes[: fixed.size], fixed, casting="unsafe")
        return codes


#: Sums of float32 squares in this range have neither lost nor overflowed anything that matters.
_SAFE_SQUARES = (2.0**-90, 2.0**125)

_MAGNITUDE = 0x7FFFFFFF


class Group(NamedTuple):
    """Whole buckets of one width.

    Args:
        first: number of the first bucket.
        start: place of its first element.
        rows: number of the buckets.
        width: values of each.
    """

    first: int
    start: int
    rows: int
    width: int

    @property
    def place(self) -> slice:
        return slice(self.start, self.start + self.rows * self.width)

    @property
    def scales(self) -> slice:
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
            # row by row, so that float64 takes the room of one row
            wide = rows[row].astype(np.float64)
            sums[row] = np.add.reduce(np.square(wide, out=wide))
    return sums


def norms(sums: NDArray[np.float64]) -> Vector:
    """Return the norms of sums of squares, enlarged by 2^-22 so that no element exceeds its norm by a rounding."""
    return np.minimum(np.sqrt(sums) * (1 + 2.0**-22), LARGEST).astype(np.float32)

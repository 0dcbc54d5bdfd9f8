"""Uneven levels, rounded stochastically between neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import pi, tan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn.arguments import integer

from ..payload import PayloadError, Reader, Writer
from ..stage import Draw, Vector
from .buckets import largest
from .dither import FRACTION, Dither
from .pack import WIDTHS, code_table, holds_zero, pack, packed_size, unpack
from .quantizer import CHUNK, FLOOR, NOTHING, Quantizer, chunks
from .rounding import MAGIC, OFFSET, STEP, Rounder


def tangent_levels(count: int) -> NDArray[np.float64]:
    """Return the positive levels 1 / tan(k pi / (4 count)), k = count .. 1, as shares of the largest: dense near 0."""
    return np.array([tan(pi / 4 / count) / tan(k * pi / 4 / count) for k in range(count, 0, -1)])


class Levels(Quantizer):
    """Round x_j / max|x| to one of its two neighbours among the levels, the upper at probability (x - lower) / (upper - lower).

    The levels are 0 and plus and minus 1 / tan(k pi / (4 kmax)), k = 1 .. kmax = 2^(bits - 1) - 1, scaled so that the largest
    is max|x|: with 8 bits half of them lie below 1.5 % of it. `levels` sets as many other positive ones, rising to 1.
    Unbiased. Bytes: ceil(n bits / 8) + 4, the scale first. Rounding to fixed point biases by at most 2^-15 max|x|, and x
    becomes zeros where max|x| is below 1.3e-29.

    Raises: ValueError for bits other than 2, 4, 8, and for levels that do not rise to 1.
    """

    unbiased = True
    deterministic = False

    def __init__(self, bits: int = 8, levels: Sequence[float] | None = None) -> None:
        super().__init__()
        self.bits = integer(self, "bits", bits, 2)
        if bits not in WIDTHS:
            raise ValueError(f"Levels 'bits' must be 2, 4 or 8, got {bits}")
        count = (1 << bits - 1) - 1
        self.levels = None if levels is None else tuple(map(float, levels))
        positive = tangent_levels(count) if self.levels is None else np.array(self.levels)
        if len(positive) != count or positive[-1] != 1 or not (np.diff(positive, prepend=0) > 0).all():
            raise ValueError(f"Levels 'levels' must be {count} numbers above 0 that rise to 1, got {levels}")
        points = np.concatenate([-positive[::-1], [0.0], positive])
        self._table = code_table(np.concatenate([[0.0], points]), bits)
        self._zero = count + 1
        self._warp = _warp(tuple(points.tolist()))
        self._rounder = Rounder()

    def side_bytes(self, n: int) -> int:
        """Return ceil(n bits / 8) + 4."""
        return packed_size(n, self.bits) + 4

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Write the scale, then the codes."""
        scale = np.float32(0)
        for piece in chunks(x.size):
            room = self._rounder.room(piece.stop - piece.start).view(np.int32)
            scale = max(scale, largest(x[piece].reshape(1, -1), room)[0])
        if scale < FLOOR:
            scale = np.float32(0)
        factor = np.float32(STEP) / scale if scale else np.float32(0)
        codes = self._room("codes", packed_size(x.size, self.bits), np.uint8)
        origin = int(MAGIC.view(np.int32)) - STEP  # of the integers, so that places in the table begin with 0
        places = self._room("places", min(x.size, CHUNK), np.intp)
        dither = Dither(draw, x.size)
        for piece in chunks(x.size):
            fixed = self._rounder.fixed(x[piece], factor)
            own = places[: fixed.size]
            np.subtract(fixed, origin, out=own)
            np.take(self._warp, own, out=fixed, mode="clip")
            found = self._rounder.stochastic(fixed, dither)
            if self.bits < 8:
                np.subtract(found, OFFSET - self._zero, out=found)
            pack(found, self.bits, codes[piece.start * self.bits // 8 : packed_size(piece.stop, self.bits)])
        writer.write(np.array([scale], np.float32))
        writer.write(codes)
        return NOTHING

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        """Read scale and codes. Raises PayloadError for a code that stands for no level."""
        scale = self._scales(reader, 1)[0]
        codes = reader.read(packed_size(n, self.bits), np.uint8)
        if holds_zero(codes, self.bits):
            raise PayloadError(f"Levels sends codes from 1 to {2 * self._zero - 1}, got 0")
        return (scale, codes), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        """Return the levels times the scale."""
        scale, codes = side
        result: Vector = self._room("decoded", n, np.float32)
        unpack(codes, self._table * scale, result)
        return result

    def __repr__(self) -> str:
        return f"Levels(bits={self.bits}" + (")" if self.levels is None else f", levels={list(self.levels)})")


@lru_cache(maxsize=8)
def _warp(points: tuple[float, ...]) -> NDArray[np.int32]:
    """Return which level x is, for x = -1 .. 1 in steps of 2^-15, in the fixed point that `Rounder.stochastic` takes.

    Between two levels the fraction is the probability of the upper one. The table is shared by all variables.
    """
    x = np.arange(-STEP, STEP + 1) / STEP
    place = np.interp(x, points, np.arange(len(points)) - len(points) // 2 + OFFSET)
    table = np.rint(place * (1 << FRACTION)).astype(np.int32)
    table.setflags(write=False)
    return table

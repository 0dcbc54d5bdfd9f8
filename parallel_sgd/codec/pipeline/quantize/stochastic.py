"""Few levels, rounded stochastically between neighbours: QSGD, TernGrad, uneven levels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import pi, sqrt, tan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn.arguments import flag, integer, number, sequence

from ..stage import Draw, PayloadError, Reader, Vector, Writer
from .quantizer import (
    CHUNK,
    FLOOR,
    NOTHING,
    Quantizer,
    chunks,
    code_table,
    holds_zero,
    pack,
    pack_flags,
    packed_size,
    two_planes,
    unpack,
    width,
)
from .rounding import FRACTION, MAGIC, OFFSET, STEP, Dither, Group, Rounder, count, groups, largest, norms, square_sums, steps


class QSGD(Quantizer):
    """Quantiser Q(x)_j = ||x|| sign(x_j) xi_j with xi_j = l / s or (l + 1) / s, up with probability s |x_j| / ||x|| - l.

    Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and encoding", 2017, with codes of fixed
    width. Bytes: ceil(n bits / 8) + 4 ceil(n / bucket), norms first. Unbiased, with
    E||Q(x) - x||^2 <= min(d / s^2, sqrt(d) / s) ||x||^2 for buckets of d. The rounding to fixed point biases by at most 2^-16
    of a level, and a bucket of a norm below 1.3e-29 becomes zeros.

    Args:
        bits: the width of a code with sign, 8, 4 or 2, for s = 2^(bits - 1) - 1 levels.
        bucket: how many values have a norm of their own, a multiple of 8; None takes the whole vector as one.
        norm: 'l2', the Euclidean norm, or 'max', which takes max|x| in its place: finer levels, smaller variance.

    Raises: ValueError for bits other than 2, 4, 8, a bucket that is no multiple of 8, another norm.
    """

    unbiased = True
    deterministic = False

    def __init__(self, bits: int = 8, bucket: int | None = 512, norm: str = "l2") -> None:
        super().__init__()
        self.bits = width(self, bits)
        self.bucket = None if bucket is None else integer(self, "bucket", bucket, 8)
        if self.bucket is not None and self.bucket % 8:
            raise ValueError(f"QSGD 'bucket' must be a multiple of 8, so that buckets begin with whole bytes, got {bucket}")
        if not isinstance(norm, str) or norm not in ("l2", "max"):
            raise ValueError(f"QSGD 'norm' must be 'l2' or 'max', got {norm!r}")
        self.norm = norm
        self._levels = (1 << bits - 1) - 1
        # an odd number of levels lies evenly around 0; the code that is left over shows damage (`holds_zero`)
        self._zero = 1 << bits - 1  # the code of 0; no code is 0
        values = np.arange(1 << bits) - self._zero
        values[0] = 0
        self._table = code_table(values, bits)
        self._rounder = Rounder()

    def side_bytes(self, n: int) -> int:
        return packed_size(n, self.bits) + 4 * count(n, self._width(n))

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        n = x.size
        scales = self._room("scales", count(n, self._width(n)), np.float32)
        codes = self._room("codes", packed_size(n, self.bits), np.uint8)
        dither = Dither(draw, n)
        for group in groups(n, self._width(n)):
            own = scales[group.scales]
            own[:] = self._measure(x, group)
            # the quotient below would overflow; 0 has the factor 0, so all its codes are that of 0
            own[own < FLOOR] = 0
            factors = np.divide(self._levels * STEP, own, out=np.zeros_like(own), where=own > 0)
            for piece, shape in group.pieces():
                fixed = self._rounder.fixed(x[piece].reshape(shape), factors[:, None])
                found = self._rounder.stochastic(fixed, dither)
                if self.bits < 8:
                    np.subtract(found, OFFSET - self._zero, out=found)
                pack(found, self.bits, codes[piece.start * self.bits // 8 : packed_size(piece.stop, self.bits)])
        writer.write(scales, codes)
        return NOTHING

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        scales = self._scales(reader, count(n, self._width(n)))
        codes = reader.read(packed_size(n, self.bits), np.uint8)
        if holds_zero(codes, self.bits):
            # the one code that is never written: a packet that has it was not made by this stage
            raise PayloadError(f"QSGD sends codes from 1 to {2 * self._levels + 1}, got 0")
        return (scales, codes), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        own_norms, codes = side
        scales = steps(own_norms, self._levels)
        result: Vector = self._room("decoded", n, np.float32)
        for group in groups(n, self._width(n)):
            for piece, shape in group.pieces():
                own, out = scales[group.scales, None], result[piece].reshape(shape)
                if self.bits == 8:
                    signed = self._room("signed", min(n, CHUNK), np.uint8)[: out.size]
                    np.bitwise_xor(codes[piece], OFFSET, out=signed)
                    np.multiply(signed.view(np.int8).reshape(shape), own, out=out, dtype=np.float32)
                # one scale: it goes into the table, and no pass over the numbers is needed
                elif group.rows == 1:
                    unpack(codes[piece.start * self.bits // 8 :], self._table * own, result[piece])
                else:
                    unpack(codes[piece.start * self.bits // 8 :], self._table, result[piece])
                    np.multiply(out, own, out=out)
        return result

    def _width(self, n: int) -> int:
        return self.bucket or max(n, 1)

    def _measure(self, x: Vector, group: Group) -> Vector:
        if self.norm == "max":
            tops = [
                largest(x[piece].reshape(shape), self._rounder.room(piece.stop - piece.start).view(np.int32))
                for piece, shape in group.pieces()
            ]
            top: Vector = np.maximum.reduce(tops)
            return top
        with np.errstate(over="ignore"):
            sums = [square_sums(x[piece].reshape(shape)) for piece, shape in group.pieces()]
        return norms(np.add.reduce(sums))


_TRITS = 5  # 3^5 = 243 fit into a byte
_POWERS = 3 ** np.arange(_TRITS)
_POWERS.setflags(write=False)
_CHUNK = CHUNK // _TRITS * _TRITS


class Tern(Quantizer):
    """Ternary t(x)_j = s sign(x_j) b_j with b_j = 1 at probability |x_j| / s and s = max|x|, after clipping to +-`clip` sigma.

    Wen et al., "TernGrad: ternary gradients to reduce communication in distributed deep learning", 2017. Sigma is the root mean
    square of x: the standard deviation for the mean of zero that gradients have. Unbiased with regard to the clipped x,
    with E||t(x) - x||^2 = s ||x||_1 - ||x||^2. Bytes: 2 ceil(n / 8) + 4, the scale and two bit planes, of the positive and of
    the negative values. The rounding to fixed point biases by at most 2^-16 s, and x becomes zeros where s is below 1.3e-29.

    Args:
        clip: the limit of |x| in units of sigma, a number > 0; None leaves x whole.
        base3: pack five values into a byte: ceil(n / 5) + 4 bytes, but it takes longer.
    """

    deterministic = False

    def __init__(self, clip: float | None = 2.5, base3: bool = False) -> None:
        super().__init__()
        self.clip = None if clip is None else number(self, "clip", clip, 0, open_low=True)
        self.base3 = flag(self, "base3", base3)
        # clipping moves the large numbers, and always towards 0
        self.unbiased = self.clip is None
        self._rounder = Rounder()
        if self.base3:
            self._table = (np.arange(3**_TRITS)[:, None] // _POWERS % 3 - 1).astype(np.float32)
        else:
            # a byte holds four positive flags in its low nibble and four negative ones in its high nibble
            ones = np.arange(256)
            planes = [code_table(np.arange(2), 1)[nibble, :4] for nibble in (ones & 15, ones >> 4)]
            self._table = planes[0] - planes[1]

    def side_bytes(self, n: int) -> int:
        return 4 + (-(-n // _TRITS) if self.base3 else 2 * packed_size(n, 1))

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        scale = self._scale(x)
        bound = np.float32(STEP)
        factor = bound / scale if scale else np.float32(0)
        codes = self._room("codes", self.side_bytes(x.size) - 4, np.uint8)
        dither = Dither(draw, x.size)
        for piece in chunks(x.size, _CHUNK if self.base3 else CHUNK):
            values = x[piece]
            if self.clip is not None:
                room = self._room("clipped", min(x.size, CHUNK), np.float32)[: values.size]
                # into a room of its own: a stage does not change its input
                values = np.clip(values, -scale, scale, out=room)
            found = self._rounder.stochastic(self._rounder.fixed(values, factor), dither)
            if self.base3:
                self._pack_trits(found[: values.size], codes[piece.start // _TRITS : -(-piece.stop // _TRITS)])
            else:
                place, half = slice(piece.start // 8, packed_size(piece.stop, 1)), codes.size // 2
                pack_flags(found > OFFSET, codes[:half][place])
                pack_flags(found < OFFSET, codes[half:][place])
        writer.write(np.array([scale], np.float32), codes)
        return NOTHING

    def _scale(self, x: Vector) -> np.float32:
        top = self._rounder.scale(x)
        if self.clip is not None and x.size:
            with np.errstate(over="ignore"):
                sums = sum(float(square_sums(x[piece].reshape(1, -1))[0]) for piece in chunks(x.size))
            # no scale above the largest number: clipping would do nothing then
            top = np.float32(min(float(top), self.clip * sqrt(sums / x.size)))
        return top if top >= FLOOR else np.float32(0)

    def _pack_trits(self, found: Any, out: Any) -> None:
        """Write codes 0, 1, 2 as digits of base 3, the lowest first; the last byte is filled with zeros' codes."""
        trits = self._room("trits", out.size * _TRITS, np.uint8)
        np.subtract(found, OFFSET - 1, out=trits[: found.size])
        # the code of 0 fills the last byte, so that equal vectors give equal bytes
        trits[found.size :] = 1
        out[:] = trits[_TRITS - 1 :: _TRITS]
        for digit in range(_TRITS - 2, -1, -1):
            np.multiply(out, 3, out=out)
            np.add(out, trits[digit::_TRITS], out=out)

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        """Read scale and codes. Raises PayloadError for a value that is positive and negative, or for a byte of 243 or more."""
        scale = self._scales(reader, 1)[0]
        codes = reader.read(self.side_bytes(n) - 4, np.uint8)
        half = codes.size // 2
        # bytes from 243 on have no row in the table
        if self.base3 and n and int(codes.max()) >= self._table.shape[0]:
            raise PayloadError(f"Tern sends bytes below {self._table.shape[0]} in base 3, got {codes.max()}")
        # both flags at once would cancel, and a hostile packet could hide in that
        if not self.base3 and np.bitwise_and(codes[:half], codes[half:]).any():
            raise PayloadError("Tern sends each value as positive, negative or zero, got one that is positive and negative")
        return (scale, codes), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        scale, codes = side
        table = self._table * scale
        result: Vector = self._room("decoded", n, np.float32)
        half = codes.size // 2
        for piece in chunks(n, _CHUNK if self.base3 else CHUNK):
            if self.base3:
                unpack(codes[piece.start // _TRITS :], table, result[piece])
            else:
                place = slice(piece.start // 8, packed_size(piece.stop, 1))
                unpack(two_planes(codes[:half][place], codes[half:][place]), table, result[piece])
        return result


def tangent_levels(count: int) -> NDArray[np.float64]:
    """Return the positive levels 1 / tan(k pi / (4 count)), k = count .. 1, as shares of the largest: dense near 0.

    Args:
        count: number of levels, from 1 on.
    """
    count = integer("tangent_levels()", "count", count, 1)
    return np.array([tan(pi / 4 / count) / tan(k * pi / 4 / count) for k in range(count, 0, -1)])


class Levels(Quantizer):
    """Rounding of x_j / max|x| to one of two neighbours among levels, the upper at probability (x - lower) / (upper - lower).

    The levels are 0 and plus and minus 1 / tan(k pi / (4 kmax)), k = 1 .. kmax = 2^(bits - 1) - 1, scaled so that the largest
    is max|x|: with 8 bits half of them lie below 1.5 % of it. Unbiased. Bytes: ceil(n bits / 8) + 4, the scale first. Rounding
    to fixed point biases by at most 2^-15 max|x|, and x becomes zeros where max|x| is below 1.3e-29.

    Args:
        bits: the width of a code, 2, 4 or 8.
        levels: 2^(bits - 1) - 1 other positive levels, rising to 1; None: those above.

    Raises: ValueError for bits other than 2, 4, 8, and for levels that do not rise to 1.
    """

    unbiased = True
    deterministic = False

    def __init__(self, bits: int = 8, levels: Sequence[float] | None = None) -> None:
        super().__init__()
        self.bits = width(self, bits)
        count = (1 << bits - 1) - 1
        self.levels: tuple[float, ...] | None = None
        if levels is not None:
            self.levels = tuple(number(self, "levels", each) for each in sequence(self, "levels", levels, "numbers"))
        positive = tangent_levels(count) if self.levels is None else np.array(self.levels)
        if len(positive) != count or positive[-1] != 1 or not (np.diff(positive, prepend=0) > 0).all():
            raise ValueError(f"Levels 'levels' must be {count} numbers above 0 that rise to 1, got {levels}")
        points = np.concatenate([-positive[::-1], [0.0], positive])
        self._table = code_table(np.concatenate([[0.0], points]), bits)
        self._zero = count + 1
        # uneven levels by a table of 2^16 steps: no search for each number
        self._warp = _warp(tuple(points.tolist()))
        self._rounder = Rounder()

    def side_bytes(self, n: int) -> int:
        return packed_size(n, self.bits) + 4

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        scale = self._rounder.scale(x)
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
        writer.write(np.array([scale], np.float32), codes)
        return NOTHING

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        scale = self._scales(reader, 1)[0]
        codes = reader.read(packed_size(n, self.bits), np.uint8)
        if holds_zero(codes, self.bits):
            raise PayloadError(f"Levels sends codes from 1 to {2 * self._zero - 1}, got 0")
        return (scale, codes), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        scale, codes = side
        result: Vector = self._room("decoded", n, np.float32)
        unpack(codes, self._table * scale, result)
        return result


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

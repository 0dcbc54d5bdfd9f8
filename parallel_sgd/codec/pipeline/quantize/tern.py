"""TernGrad: minus, zero, plus."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from nn.arguments import number

from ..payload import PayloadError, Reader, Writer
from ..stage import Draw, Vector
from .buckets import largest, square_sums
from .dither import Dither
from .pack import code_table, pack_flags, packed_size, two_planes, unpack
from .quantizer import CHUNK, FLOOR, NOTHING, Quantizer, chunks
from .rounding import OFFSET, STEP, Rounder

_TRITS = 5  # 3^5 = 243 fit into a byte
_POWERS = 3 ** np.arange(_TRITS)
_POWERS.setflags(write=False)
_CHUNK = CHUNK // _TRITS * _TRITS


class Tern(Quantizer):
    """t(x)_j = s sign(x_j) b_j with b_j = 1 at probability |x_j| / s and s = max|x|, after clipping x to +-`clip` sigma.

    Wen et al., "TernGrad: ternary gradients to reduce communication in distributed deep learning", 2017. Sigma is the root mean
    square of x: the standard deviation for the mean of zero that gradients have. Unbiased with regard to the clipped x,
    with E||t(x) - x||^2 = s ||x||_1 - ||x||^2; `clip=None` leaves x whole. Bytes: 2 ceil(n / 8) + 4, the scale and two
    bit planes, of the positive and of the negative values; `base3=True` packs five values into a byte: ceil(n / 5) + 4,
    but takes longer. The rounding to fixed point biases by at most 2^-16 s, and x becomes zeros where s is below 1.3e-29.
    """

    deterministic = False

    def __init__(self, clip: float | None = 2.5, base3: bool = False) -> None:
        super().__init__()
        self.clip = None if clip is None else number(self, "clip", clip, 0, open_low=True)
        self.base3 = bool(base3)
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
        """Return 2 ceil(n / 8) + 4, in base 3 ceil(n / 5) + 4."""
        return 4 + (-(-n // _TRITS) if self.base3 else 2 * packed_size(n, 1))

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Write the scale, then the codes."""
        scale = self._scale(x)
        bound = np.float32(STEP)
        factor = bound / scale if scale else np.float32(0)
        codes = self._room("codes", self.side_bytes(x.size) - 4, np.uint8)
        dither = Dither(draw, x.size)
        for piece in chunks(x.size, _CHUNK if self.base3 else CHUNK):
            values = x[piece]
            if self.clip is not None:
                room = self._room("clipped", min(x.size, CHUNK), np.float32)[: values.size]
                values = np.clip(values, -scale, scale, out=room)
            found = self._rounder.stochastic(self._rounder.fixed(values, factor), dither)
            if self.base3:
                self._pack_trits(found[: values.size], codes[piece.start // _TRITS : -(-piece.stop // _TRITS)])
            else:
                place, half = slice(piece.start // 8, packed_size(piece.stop, 1)), codes.size // 2
                pack_flags(found > OFFSET, codes[:half][place])
                pack_flags(found < OFFSET, codes[half:][place])
        writer.write(np.array([scale], np.float32))
        writer.write(codes)
        return NOTHING

    def _scale(self, x: Vector) -> np.float32:
        top, sums = 0.0, 0.0
        for piece in chunks(x.size):
            part = x[piece].reshape(1, -1)
            top = max(top, float(largest(part, self._rounder.room(part.size).view(np.int32))[0]))
            if self.clip is not None:
                with np.errstate(over="ignore"):
                    sums += float(square_sums(part)[0])
        if self.clip is not None and x.size:
            top = min(top, self.clip * sqrt(sums / x.size))
        return np.float32(top if top >= FLOOR else 0)

    def _pack_trits(self, found: Any, out: Any) -> None:
        """Write codes 0, 1, 2 as digits of base 3, the lowest first; the last byte is filled with zeros' codes."""
        trits = self._room("trits", out.size * _TRITS, np.uint8)
        np.subtract(found, OFFSET - 1, out=trits[: found.size])
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
        if self.base3 and n and int(codes.max()) >= self._table.shape[0]:
            raise PayloadError(f"Tern sends bytes below {self._table.shape[0]} in base 3, got {codes.max()}")
        if not self.base3 and np.bitwise_and(codes[:half], codes[half:]).any():
            raise PayloadError("Tern sends each value as positive, negative or zero, got one that is positive and negative")
        return (scale, codes), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        """Return the scale where positive, minus it where negative, 0 elsewhere."""
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

    def __repr__(self) -> str:
        return f"Tern(clip={self.clip}" + (", base3=True)" if self.base3 else ")")

"""Natural compression: powers of two."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..payload import Reader, Writer
from ..stage import Draw, Vector
from .dither import Dither
from .pack import unpack
from .quantizer import CHUNK, NOTHING, Quantizer, chunks

#: The exponents that a byte has room for beside the sign and 0.
LOWEST, HIGHEST = -96, 30

_BIAS = 127
_MANTISSA = 23
_BELOW = LOWEST + _BIAS - 1  # the biased exponent that becomes code 0


class Natural(Quantizer):
    """Round |x_j| to a power of two: of 2^e <= |x_j| < 2^(e+1) the upper one at probability |x_j| / 2^e - 1, else the lower.

    Horvath et al., "Natural compression for distributed deep learning", 2019. Unbiased, E||C(x) - x||^2 <= ||x||^2 / 8.
    Bytes: n, the sign and 7 bits of exponent, from 2^-96 to 2^30: what is smaller than 1.3e-29 becomes 0, what is larger
    than 1.1e9 becomes that.
    """

    unbiased = True
    deterministic = False

    def __init__(self) -> None:
        super().__init__()
        powers = np.ldexp(np.float32(1), np.arange(128) + LOWEST - 1)
        powers[0] = 0
        self._table = np.concatenate([powers, -powers]).astype(np.float32)[:, None]

    def side_bytes(self, n: int) -> int:
        """Return n."""
        return n

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Write a byte for each value."""
        codes = self._room("codes", x.size, np.uint8)
        dither = Dither(draw, x.size)
        for piece in chunks(x.size):
            size = piece.stop - piece.start
            bits = self._room("bits", min(x.size, CHUNK), np.uint32)[:size]
            sign = self._room("sign", min(x.size, CHUNK), np.uint8)[:size]
            noise = dither.words(size)
            # a uniform number added to the mantissa carries into the exponent at exactly the probability wanted
            np.right_shift(noise, 32 - _MANTISSA, out=noise)
            np.add(x[piece].view(np.uint32), noise, out=bits)
            np.right_shift(bits, _MANTISSA, out=bits)
            own = codes[piece]
            np.copyto(own, bits, casting="unsafe")  # a byte is the exponent; the sign is the bit above
            np.clip(own, _BELOW, HIGHEST + _BIAS, out=own)
            np.subtract(own, _BELOW, out=own)
            np.signbit(x[piece], out=sign.view(np.bool_))
            np.multiply(sign, 128, out=sign)  # NumPy shifts bytes at a tenth of the speed
            np.bitwise_or(own, sign, out=own)
        writer.write(codes)
        return NOTHING

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        """Read n bytes."""
        return reader.read(n, np.uint8), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        """Return the powers of two."""
        result: Vector = self._room("decoded", n, np.float32)
        unpack(side, self._table, result)
        return result

    def __repr__(self) -> str:
        return "Natural()"

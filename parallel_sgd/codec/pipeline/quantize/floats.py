"""Values as shorter floats: 16 bits, or powers of two."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..stage import Draw, Reader, Vector, Writer
from .quantizer import CHUNK, NOTHING, Quantizer, chunks, unpack
from .rounding import Dither

_HALF = np.float32(65504)
_INFINITY, _MINUS_INFINITY = 0x7F80, 0xFF80  # in bfloat16; one less is the largest finite number
_RELATIVE_ERROR = {"fp16": 2.0**-11, "bf16": 2.0**-8}


class Cast(Quantizer):
    """Cast to `'fp16'` (IEEE half precision: 11 bits, up to 65504) or `'bf16'` (bfloat16: 8 bits, the range of float32).

    Rounds to nearest, ties to even; a number above the largest finite one becomes that one. Bytes: 2 n. The relative error
    is at most 2^-11 or 2^-8 where the result is a normal number, at least 6.1e-5 or 1.2e-38 in size; `delta` means these.

    Raises: ValueError for another format.
    """

    def __init__(self, format: str = "fp16") -> None:
        super().__init__()
        if not isinstance(format, str) or format not in _RELATIVE_ERROR:
            raise ValueError(f"Cast 'format' must be 'fp16' or 'bf16', got {format!r}")
        self.format = format

    def delta(self, n: int) -> float:
        return 1 - _RELATIVE_ERROR[self.format] ** 2

    def side_bytes(self, n: int) -> int:
        return 2 * n

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        codes = self._room("codes", x.size, np.uint16)
        for piece in chunks(x.size):
            if self.format == "fp16":
                values = self._room("values", min(x.size, CHUNK), np.float32)[: piece.stop - piece.start]
                # cut first: the cast would make infinities of larger numbers
                np.copyto(codes[piece].view(np.float16), np.clip(x[piece], -_HALF, _HALF, out=values), casting="same_kind")
            else:
                self._cut(x[piece].view(np.uint32), codes[piece])
        writer.write(codes)
        return NOTHING

    def _cut(self, bits: NDArray[np.uint32], codes: NDArray[np.uint16]) -> None:
        """Add half a unit, less one where the last bit kept is 0, and keep the upper half."""
        room = self._room("bits", CHUNK, np.uint32)[: bits.size]
        np.right_shift(bits, 16, out=room)
        np.bitwise_and(room, 1, out=room)
        np.add(room, bits, out=room)
        np.add(room, 0x7FFF, out=room)
        np.right_shift(room, 16, out=room)
        np.copyto(codes, room, casting="unsafe")
        # x is finite, so no code of either sign is above infinity: one look at each maximum tells
        if int(codes.max()) == _MINUS_INFINITY:
            codes[codes == _MINUS_INFINITY] -= 1
        if int(codes.view(np.int16).max()) == _INFINITY:
            codes[codes == _INFINITY] -= 1

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        # infinities and NaN of a hostile packet are refused when all is decoded (`Pipeline.decode`)
        return reader.read(n, np.float16 if self.format == "fp16" else np.uint16), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        result: Vector = self._room("decoded", n, np.float32)
        if self.format == "fp16":
            np.copyto(result, side)
        else:
            np.left_shift(side, 16, out=result.view(np.uint32), dtype=np.uint32)
        return result


#: The exponents that a byte has room for beside the sign and 0.
LOWEST, HIGHEST = -96, 30

_BIAS = 127
_MANTISSA = 23
_BELOW = LOWEST + _BIAS - 1  # the biased exponent that becomes code 0


class Natural(Quantizer):
    """Rounding of |x_j| to a power of two: of 2^e <= |x_j| < 2^(e+1) the upper one with probability |x_j| / 2^e - 1.

    Otherwise the lower one. Horvath et al., "Natural compression for distributed deep learning", 2019. Unbiased, E||C(x) -
    x||^2 <= ||x||^2 / 8. Bytes: n, the sign and 7 bits of exponent, from 2^-96 to 2^30: a number below 1.3e-29 in size becomes
    0, one above 1.1e9 becomes that.
    """

    unbiased = True
    deterministic = False

    def __init__(self) -> None:
        super().__init__()
        # code c stands for 2^(LOWEST - 1 + c); code 0 is spared for 0
        powers = np.ldexp(np.float32(1), np.arange(128) + LOWEST - 1)
        powers[0] = 0
        self._table = np.concatenate([powers, -powers]).astype(np.float32)[:, None]

    def side_bytes(self, n: int) -> int:
        return n

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
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
        return reader.read(n, np.uint8), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        result: Vector = self._room("decoded", n, np.float32)
        unpack(side, self._table, result)
        return result

"""Values as floats of 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..payload import Reader, Writer
from ..stage import Draw, Vector
from .quantizer import CHUNK, NOTHING, Quantizer, chunks

_HALF = np.float32(65504)
_INFINITY, _MINUS_INFINITY = 0x7F80, 0xFF80  # in bfloat16; one less is the largest finite number
_RELATIVE_ERROR = {"fp16": 2.0**-11, "bf16": 2.0**-8}


class Cast(Quantizer):
    """Round to `'fp16'` (IEEE half precision: 11 bits, up to 65504) or `'bf16'` (bfloat16: 8 bits, the range of float32).

    To nearest, ties to even; what is larger than the largest finite number becomes that one. Bytes: 2 n. The relative error
    is at most 2^-11 or 2^-8 where the result is a normal number, at least 6.1e-5 or 1.2e-38 in size; `delta` means these.

    Raises: ValueError for another format.
    """

    def __init__(self, format: str = "fp16") -> None:
        super().__init__()
        if format not in _RELATIVE_ERROR:
            raise ValueError(f"Cast 'format' must be 'fp16' or 'bf16', got {format!r}")
        self.format = format

    def delta(self, n: int) -> float:
        """Return 1 - 2^-22 or 1 - 2^-16."""
        return 1 - _RELATIVE_ERROR[self.format] ** 2

    def side_bytes(self, n: int) -> int:
        """Return 2 n."""
        return 2 * n

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Write the rounded values."""
        codes = self._room("codes", x.size, np.uint16)
        for piece in chunks(x.size):
            if self.format == "fp16":
                values = self._room("values", min(x.size, CHUNK), np.float32)[: piece.stop - piece.start]
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
        if int(codes.max()) == _MINUS_INFINITY:
            codes[codes == _MINUS_INFINITY] -= 1
        if int(codes.view(np.int16).max()) == _INFINITY:
            codes[codes == _INFINITY] -= 1

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        """Read n values of 16 bits."""
        return reader.read(n, np.float16 if self.format == "fp16" else np.uint16), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        """Return them as float32."""
        result: Vector = self._room("decoded", n, np.float32)
        if self.format == "fp16":
            np.copyto(result, side)
        else:
            np.left_shift(side, 16, out=result.view(np.uint32), dtype=np.uint32)
        return result

    def __repr__(self) -> str:
        return f"Cast({self.format!r})"

"""Values as floats of 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..payload import Reader, Writer
from ..stage import Draw, Vector
from .quantizer import CHUNK, NOTHING, Quantizer, chunks

_LARGEST = {"fp16": np.float32(65504), "bf16": np.float32((2 - 2.0**-7) * 2.0**127)}
_RELATIVE_ERROR = {"fp16": 2.0**-11, "bf16": 2.0**-9}


class Cast(Quantizer):
    """Round to `'fp16'` (IEEE half precision: 11 bits, up to 65504) or `'bf16'` (bfloat16: 8 bits, the range of float32).

    To nearest, ties to even; what is larger than the largest finite number becomes that one. Bytes: 2 n. The relative error
    is at most 2^-11 or 2^-9 where the result is a normal number, at least 6.1e-5 or 1.2e-38 in size; `delta` is meant for these.

    Raises: ValueError for another format.
    """

    def __init__(self, format: str = "fp16") -> None:
        super().__init__()
        if format not in _LARGEST:
            raise ValueError(f"Cast 'format' must be 'fp16' or 'bf16', got {format!r}")
        self.format = format

    def delta(self, n: int) -> float:
        """Return 1 - 2^-22 or 1 - 2^-18."""
        return 1 - _RELATIVE_ERROR[self.format] ** 2

    def side_bytes(self, n: int) -> int:
        """Return 2 n."""
        return 2 * n

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Write the rounded values."""
        codes = self._room("codes", x.size, np.uint16)
        largest = _LARGEST[self.format]
        for piece in chunks(x.size):
            values = self._room("values", min(x.size, CHUNK), np.float32)[: piece.stop - piece.start]
            np.minimum(x[piece], largest, out=values)
            np.maximum(values, -largest, out=values)
            if self.format == "fp16":
                np.copyto(codes[piece].view(np.float16), values, casting="same_kind")
            else:
                self._round(values.view(np.uint32))
                np.copyto(codes[piece], values.view(np.uint32), casting="unsafe")
        writer.write(codes)
        return NOTHING

    def _round(self, bits: Any) -> None:
        """Replace float32 bits by bfloat16 bits: half a unit is added, less one where the last bit kept is 0, then cut off."""
        odd = self._room("odd", bits.size, np.uint32)
        np.right_shift(bits, 16, out=odd)
        np.bitwise_and(odd, 1, out=odd)
        np.add(bits, 0x7FFF, out=bits)
        np.add(bits, odd, out=bits)
        np.right_shift(bits, 16, out=bits)

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

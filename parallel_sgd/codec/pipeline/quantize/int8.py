"""Blocks of 8-bit integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from nn.arguments import integer

from ..payload import PayloadError, Reader, Writer
from ..stage import Draw, Vector
from .buckets import count, groups, largest, steps
from .quantizer import FLOOR, NOTHING, Quantizer
from .rounding import Rounder

_TOP = 127


class Int8(Quantizer):
    """Round every block of `block` values to multiples of its scale: q = rint(x 127 / max|x|), decoded as q max|x| / 127.

    Bytes: n + 4 ceil(n / block), the scales max|x| / 127 first. No element is wrong by more than max|x| / 254 of its block;
    a block below 1.3e-29 becomes zeros. Blockwise 8 bits: Dettmers et al., "8-bit optimizers via block-wise quantization",
    2022, here with even steps.
    """

    def __init__(self, block: int = 4096) -> None:
        super().__init__()
        self.block = integer(self, "block", block, 1)
        self._rounder = Rounder()

    def delta(self, n: int) -> float:
        """Return 127^2 / (127^2 + (m - 1) / 4) with m = min(n, block).

        The worst block has one value of 127 steps and m - 1 of just under half a step, which are lost.
        """
        return _TOP**2 / (_TOP**2 + (max(1, min(n, self.block)) - 1) / 4)

    def side_bytes(self, n: int) -> int:
        """Return n + 4 ceil(n / block)."""
        return n + 4 * count(n, self.block)

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Write the scales, then the codes."""
        scales = self._room("scales", count(x.size, self.block), np.float32)
        codes = self._room("codes", x.size, np.uint8)
        for group in groups(x.size, self.block):
            top = scales[group.scales]
            top[:] = 0
            for piece, shape in group.pieces():
                room = self._rounder.room(piece.stop - piece.start).view(np.int32)
                np.maximum(top, largest(x[piece].reshape(shape), room), out=top)
            top[top < FLOOR] = 0
            factors = np.divide(_TOP, top, out=np.zeros_like(top), where=top > 0)
            for piece, shape in group.pieces():
                # the low byte of the integers is the code in two's complement
                np.copyto(codes[piece], self._rounder.fixed(x[piece].reshape(shape), factors[:, None]), casting="unsafe")
        writer.write(steps(scales, _TOP))
        writer.write(codes)
        return NOTHING

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        """Read scales and codes. Raises PayloadError for a code of -128."""
        scales = self._scales(reader, count(n, self.block), _TOP)
        codes = reader.read(n, np.int8)
        if n and int(codes.min()) < -_TOP:
            raise PayloadError("Int8 sends codes from -127 to 127, got -128")
        return (scales, codes), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        """Return codes times scales."""
        scales, codes = side
        result: Vector = self._room("decoded", n, np.float32)
        for group in groups(n, self.block):
            for piece, shape in group.pieces():
                out = result[piece].reshape(shape)
                np.multiply(codes[piece].reshape(shape), scales[group.scales, None], out=out, dtype=np.float32)
        return result

    def __repr__(self) -> str:
        return f"Int8(block={self.block})"

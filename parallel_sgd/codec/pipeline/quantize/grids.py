"""Even steps, rounded to nearest: blocks of 8-bit integers, and a grid of a few bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from nn.arguments import integer

from ..stage import Draw, PayloadError, Reader, Vector, Writer
from .quantizer import CHUNK, FLOOR, NOTHING, Quantizer, chunks, code_table, pack, packed_size, unpack, width
from .rounding import Rounder, count, groups, largest, steps

_TOP = 127


class Int8(Quantizer):
    """Rounding of every block of `block` values to multiples of its scale: q = rint(x 127 / max|x|), decoded as q max|x| / 127.

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
        return n + 4 * count(n, self.block)

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        scales = self._room("scales", count(x.size, self.block), np.float32)
        codes = self._room("codes", x.size, np.uint8)
        for group in groups(x.size, self.block):
            top = scales[group.scales]
            top[:] = 0
            for piece, shape in group.pieces():
                room = self._rounder.room(piece.stop - piece.start).view(np.int32)
                np.maximum(top, largest(x[piece].reshape(shape), room), out=top)
            # 127 / top below would overflow
            top[top < FLOOR] = 0
            factors = np.divide(_TOP, top, out=np.zeros_like(top), where=top > 0)
            for piece, shape in group.pieces():
                # only now: the scale of a block larger than a chunk needs all its pieces
                # the low byte of the integers is the code in two's complement
                np.copyto(codes[piece], self._rounder.fixed(x[piece].reshape(shape), factors[:, None]), casting="unsafe")
        writer.write(steps(scales, _TOP), codes)
        return NOTHING

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        scales = self._scales(reader, count(n, self.block), _TOP)
        # two's complement has one code more than there are steps
        codes = reader.read(n, np.int8)
        if n and int(codes.min()) < -_TOP:
            raise PayloadError("Int8 sends codes from -127 to 127, got -128")
        return (scales, codes), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        scales, codes = side
        result: Vector = self._room("decoded", n, np.float32)
        for group in groups(n, self.block):
            for piece, shape in group.pieces():
                out = result[piece].reshape(shape)
                np.multiply(codes[piece].reshape(shape), scales[group.scales, None], out=out, dtype=np.float32)
        return result


class Grid(Quantizer):
    """Rounding to the nearest of 2^bits values that are evenly spread over -R .. R, with R = max|x|: q = rint((x + R) / step),
    step = 2 R / (2^bits - 1), decoded as q step - R.

    The quantiser of Sun et al., "Communication-efficient distributed learning via lazily aggregated quantized gradients",
    2019, for differences that shrink as training goes on: 0 is not among the values. Biased; no value is wrong by more than
    R / (2^bits - 1). Bytes: ceil(n bits / 8) + 4, R first. A vector below 1.3e-29 becomes zeros.

    Raises: ValueError for bits other than 2, 4, 8.
    """

    def __init__(self, bits: int = 4) -> None:
        super().__init__()
        self.bits = width(self, bits)
        self._top = (1 << bits) - 1
        self._table = code_table(2 * np.arange(1 << bits) / self._top - 1, bits)
        self._rounder = Rounder()

    def delta(self, n: int) -> float | None:
        """Return 1 - (n - 1) / (2^bits - 1)^2, where that is above 0: the largest value is on the grid."""
        delta = 1 - max(n - 1, 0) / self._top**2
        return delta if delta > 0 else None

    def side_bytes(self, n: int) -> int:
        return packed_size(n, self.bits) + 4

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        radius = self._rounder.scale(x)
        factor = np.float32(self._top / 2) / radius if radius else np.float32(0)
        codes = self._room("codes", packed_size(x.size, self.bits), np.uint8)
        shifted = self._room("shifted", min(x.size, CHUNK), np.float32)
        found = self._room("found", -(-min(x.size, CHUNK) // 8) * 8, np.uint8)
        for piece in chunks(x.size):
            size = piece.stop - piece.start
            # x / R in halves of a step, from 0 on
            np.multiply(x[piece], factor, out=shifted[:size])
            np.add(shifted[:size], np.float32(self._top / 2), out=shifted[:size])
            own = found[: -(-size // 8) * 8]
            # the padding, too, is always the same: equal vectors make equal packets
            own[size:] = 0
            np.copyto(own[:size], self._rounder.fixed(shifted[:size], np.float32(1)), casting="unsafe")
            pack(own, self.bits, codes[piece.start * self.bits // 8 : packed_size(piece.stop, self.bits)])
        writer.write(np.array([radius], np.float32), codes)
        return NOTHING

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        radius = self._scales(reader, 1)[0]
        return (radius, reader.read(packed_size(n, self.bits), np.uint8)), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        radius, codes = side
        result: Vector = self._room("decoded", n, np.float32)
        unpack(codes, self._table * radius, result)
        return result

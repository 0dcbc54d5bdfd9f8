"""QSGD: few even levels per bucket, rounded stochastically."""

from __future__ import annotations

from typing import Any

import numpy as np

from nn.arguments import integer

from ..payload import PayloadError, Reader, Writer
from ..stage import Draw, Vector
from .buckets import Group, count, groups, largest, norms, square_sums, steps
from .dither import Dither
from .pack import WIDTHS, code_table, holds_zero, pack, packed_size, unpack
from .quantizer import CHUNK, FLOOR, NOTHING, Quantizer
from .rounding import OFFSET, STEP, Rounder


class QSGD(Quantizer):
    """Q(x)_j = ||x|| sign(x_j) xi_j with xi_j = l / s or (l + 1) / s, up with probability s |x_j| / ||x|| - l.

    Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and encoding", 2017, with codes of fixed
    width: `bits` of 8, 4 or 2 with sign, s = 2^(bits - 1) - 1 levels. Each `bucket` of values has its norm; None takes the
    whole vector as one. Bytes: ceil(n bits / 8) + 4 ceil(n / bucket), norms first. Unbiased, with
    E||Q(x) - x||^2 <= min(d / s^2, sqrt(d) / s) ||x||^2 for buckets of d. `norm='max'` takes max|x| in place of the
    Euclidean norm: finer levels, smaller variance. The rounding to fixed point biases by at most 2^-16 of a level, and a bucket
    whose norm is below 1.3e-29 becomes zeros.

    Raises: ValueError for bits other than 2, 4, 8, a bucket that is no multiple of 8, another norm.
    """

    unbiased = True
    deterministic = False

    def __init__(self, bits: int = 8, bucket: int | None = 512, norm: str = "l2") -> None:
        super().__init__()
        self.bits = integer(self, "bits", bits, 2)
        if bits not in WIDTHS:
            raise ValueError(f"QSGD 'bits' must be 2, 4 or 8, got {bits}")
        self.bucket = None if bucket is None else integer(self, "bucket", bucket, 8)
        if self.bucket is not None and self.bucket % 8:
            raise ValueError(f"QSGD 'bucket' must be a multiple of 8, so that buckets begin with whole bytes, got {bucket}")
        if norm not in ("l2", "max"):
            raise ValueError(f"QSGD 'norm' must be 'l2' or 'max', got {norm!r}")
        self.norm = norm
        self._levels = (1 << bits - 1) - 1
        self._zero = 1 << bits - 1  # the code of 0; no code is 0
        values = np.arange(1 << bits) - self._zero
        values[0] = 0
        self._table = code_table(values, bits)
        self._rounder = Rounder()

    def side_bytes(self, n: int) -> int:
        """Return ceil(n bits / 8) + 4 ceil(n / bucket)."""
        return packed_size(n, self.bits) + 4 * count(n, self._width(n))

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Write the norms, then the codes."""
        n = x.size
        scales = self._room("scales", count(n, self._width(n)), np.float32)
        codes = self._room("codes", packed_size(n, self.bits), np.uint8)
        dither = Dither(draw, n)
        for group in groups(n, self._width(n)):
            own = scales[group.scales]
            own[:] = self._measure(x, group)
            own[own < FLOOR] = 0
            factors = np.divide(self._levels * STEP, own, out=np.zeros_like(own), where=own > 0)
            for piece, shape in group.pieces():
                fixed = self._rounder.fixed(x[piece].reshape(shape), factors[:, None])
                found = self._rounder.stochastic(fixed, dither)
                if self.bits < 8:
                    np.subtract(found, OFFSET - self._zero, out=found)
                pack(found, self.bits, codes[piece.start * self.bits // 8 : packed_size(piece.stop, self.bits)])
        writer.write(scales)
        writer.write(codes)
        return NOTHING

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        """Read norms and codes. Raises PayloadError for a code that stands for no level."""
        scales = self._scales(reader, count(n, self._width(n)))
        codes = reader.read(packed_size(n, self.bits), np.uint8)
        if holds_zero(codes, self.bits):
            raise PayloadError(f"QSGD sends codes from 1 to {2 * self._levels + 1}, got 0")
        return (scales, codes), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        """Return levels times norms."""
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

    def __repr__(self) -> str:
        return f"QSGD(bits={self.bits}, bucket={self.bucket}" + (f", norm={self.norm!r})" if self.norm != "l2" else ")")

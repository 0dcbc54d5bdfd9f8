"""One bit per value: the sign, or the means of both sides."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..stage import Draw, PayloadError, Reader, Vector, Writer
from .quantizer import CHUNK, NOTHING, Quantizer, chunks, code_table, pack_flags, packed_size, total, unpack


class Sign(Quantizer):
    """Signs with one scale: C(x) = (||x||_1 / n) sign(x), where 0 and -0 count as positive.

    The compressor of Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression schemes", 2019:
    biased, ||C(x) - x||^2 = ||x||^2 - ||x||_1^2 / n, made for error feedback. `scale=None` sends the bare signs, decoded as
    +1 and -1, for a majority vote (Bernstein et al., "signSGD with majority vote", 2019). Bytes: ceil(n / 8) + 4 with scale,
    ceil(n / 8) without.

    Raises: ValueError for another scale.
    """

    def __init__(self, scale: str | None = "l1") -> None:
        super().__init__()
        if scale is not None and (not isinstance(scale, str) or scale != "l1"):
            raise ValueError(f"Sign 'scale' must be 'l1' or None, got {scale!r}")
        self.scale = scale
        self._table = code_table(np.array([1, -1]), 1)

    def delta(self, n: int) -> float | None:
        """Return 1 / n, that of a single element among zeros; for a Gaussian vector it is 2 / pi. None without scale."""
        return None if self.scale is None else 1 / max(n, 1)

    def side_bytes(self, n: int) -> int:
        return packed_size(n, 1) + (0 if self.scale is None else 4)

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Write the scale, if any, then the bits: 1 for less than 0."""
        codes = self._room("codes", packed_size(x.size, 1), np.uint8)
        flags = self._room("flags", min(x.size, CHUNK), np.bool_)
        magnitudes = self._room("magnitudes", min(x.size, CHUNK), np.float32)
        norm = 0.0
        for piece in chunks(x.size):
            values = x[piece]
            pack_flags(np.less(values, 0, out=flags[: values.size]), codes[piece.start // 8 : packed_size(piece.stop, 1)])
            if self.scale is not None:
                norm += total(np.abs(values, out=magnitudes[: values.size]))
        if self.scale is not None:
            writer.write(np.array([norm / max(x.size, 1)], np.float32))
        writer.write(codes)
        return NOTHING

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        scale = None if self.scale is None else self._scales(reader, 1)[0]
        return (scale, reader.read(packed_size(n, 1), np.uint8)), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        scale, codes = side
        result: Vector = self._room("decoded", n, np.float32)
        unpack(codes, self._table if scale is None else self._table * scale, result)
        return result


class TwoMeans(Quantizer):
    """Means of both sides, in place of the values >= 0 and of those < 0: the two best values for these two sets.

    Seide et al., "1-bit stochastic gradient descent and its application to data-parallel distributed training of speech DNNs",
    2014, there for each column, here for the whole vector. Biased, made for error feedback. Bytes: ceil(n / 8) + 8.
    """

    def __init__(self) -> None:
        super().__init__()
        self._table = code_table(np.arange(2), 1)

    def delta(self, n: int) -> float:
        """Return 1 / n, that of a single element among zeros."""
        return 1 / max(n, 1)

    def side_bytes(self, n: int) -> int:
        return packed_size(n, 1) + 8

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Write both means, that of the values >= 0 first, then the bits: 1 for less than 0."""
        codes = self._room("codes", packed_size(x.size, 1), np.uint8)
        flags = self._room("flags", min(x.size, CHUNK), np.bool_)
        side = self._room("side", min(x.size, CHUNK), np.float32)
        sums, below = [0.0, 0.0], 0
        for piece in chunks(x.size):
            values, own, room = x[piece], flags[: piece.stop - piece.start], side[: piece.stop - piece.start]
            np.less(values, 0, out=own)
            below += int(np.count_nonzero(own))
            pack_flags(own, codes[piece.start // 8 : packed_size(piece.stop, 1)])
            # each side by itself: the difference of two sums would lose the smaller side
            sums[0] += total(np.maximum(values, 0, out=room))
            sums[1] += total(np.minimum(values, 0, out=room))
        # a side without values has the sum 0, and so the mean 0
        writer.write(np.array([sums[0] / max(x.size - below, 1), sums[1] / max(below, 1)], np.float32))
        writer.write(codes)
        return NOTHING

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Any, int]:
        means = reader.read(2, np.float32)
        if not np.isfinite(means).all() or means[0] < 0 or means[1] > 0:
            raise PayloadError(f"TwoMeans sends a mean >= 0 and one <= 0, got {means.tolist()}")
        return (means, reader.read(packed_size(n, 1), np.uint8)), 0

    def decode(self, values: Vector, side: Any, n: int) -> Vector:
        means, codes = side
        result: Vector = self._room("decoded", n, np.float32)
        # the means go into the table, so no pass over the numbers is needed
        unpack(codes, np.where(self._table > 0, means[1], means[0]), result)
        return result

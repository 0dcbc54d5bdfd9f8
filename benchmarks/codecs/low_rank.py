"""PowerSGD among the stages: `encode` does both rounds of a step and keeps the residual, `decode` multiplies the factors."""

from __future__ import annotations

from math import isqrt

import numpy as np

from parallel_sgd.codec.pipeline import Draw, Reader, Stage, Writer
from parallel_sgd.codec.pipeline.low_rank import PowerSGD
from parallel_sgd.codec.pipeline.stage import Vector


class LowRank(Stage):
    """A vector of s * s values as a square matrix, on one node, whose means are its own factors."""

    def __init__(self, rank: int) -> None:
        self.compressor = PowerSGD(rank)

    def side_bytes(self, n: int) -> int:
        return 0

    def carried(self, n: int) -> int:
        return sum(self.compressor.rounds((isqrt(n), isqrt(n))))

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        left = self.compressor.project(x.reshape(isqrt(x.size), -1), draw)
        right = self.compressor.back_project(left)
        self.compressor.reconstruct(right)
        return np.concatenate([left, right])

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[None, int]:
        return None, self.carried(n)

    def decode(self, values: Vector, side: None, n: int) -> Vector:
        left, right = values.reshape(2, isqrt(n), -1)
        product: Vector = left @ right.T
        return product

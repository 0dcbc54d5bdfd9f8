"""A limit to the length of the gradient."""

from __future__ import annotations

from math import isinf, sqrt
from typing import Final

import numpy as np

from nn import arguments
from nn.gradient_descent.clipping import norm

from ..stage import Vector
from .gradient_stage import GradientStage

CHUNK: Final = 1 << 16


class Clip(GradientStage):
    """x <- x min(1, c / ||x||), with the Euclidean norm of this variable and c = norm / sqrt(workers).

    Pascanu et al., "On the difficulty of training recurrent neural networks", 2013. A sum of the gradients of N workers is
    about sqrt(N) times as long as one, so Lin et al., "Deep gradient compression", 2018, clip each at 1 / sqrt(N) of the limit
    of the sum.

    Raises: TypeError, ValueError unless norm > 0 and workers is a positive integer.
    """

    def __init__(self, norm: float, workers: int = 1) -> None:
        self.norm = arguments.number(self, "norm", norm, 0, open_low=True)
        self.workers = arguments.integer(self, "workers", workers, minimum=1)
        self._result: Vector = np.empty(0, np.float32)

    def transform(self, x: Vector) -> Vector:
        """Return `x` itself where it is short enough."""
        parts = [x[start : start + CHUNK] for start in range(0, x.size, CHUNK)]
        limit = self.norm / sqrt(self.workers)
        with np.errstate(over="ignore"):
            length = norm(parts)
        if isinf(length):  # squares above 3e38 need double precision
            length = norm(part.astype(np.float64) for part in parts)
        if length <= limit:
            return x
        if self._result.size != x.size:
            self._result = np.empty(x.size, np.float32)
        return np.multiply(x, limit / length, out=self._result)

    def __repr__(self) -> str:
        return f"Clip({self.norm!r}, workers={self.workers})" if self.workers > 1 else f"Clip({self.norm!r})"

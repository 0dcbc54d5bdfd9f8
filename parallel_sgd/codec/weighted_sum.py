"""Sums of arrays with coefficients, in float64."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .interfaces import Array

CHUNK: Final = 32 * 1024


class WeightedSum:
    """sum_i c_i x_i of arrays of one shape; one rounding per term to float64, and one at the end. Its buffer is used again."""

    def __init__(self) -> None:
        self._total: NDArray[np.float64] = np.empty(0)
        self._product = np.empty(CHUNK)
        self.terms = 0

    def add(self, coefficient: float, array: Array) -> None:
        """Add a term; the first one decides on the shape."""
        if self.terms == 0:
            if self._total.shape != array.shape:
                self._total = np.empty(array.shape)
            np.multiply(array, coefficient, out=self._total, dtype=np.float64)
        else:
            total, flat = self._total.reshape(-1), array.reshape(-1)
            for start in range(0, flat.size, CHUNK):
                part = slice(start, start + CHUNK)
                product = np.multiply(flat[part], coefficient, out=self._product[: flat[part].size], dtype=np.float64)
                np.add(total[part], product, out=total[part])
        self.terms += 1

    def write(self, out: Array) -> Array:
        """Round the sum into `out` and begin anew."""
        np.copyto(out, self._total, casting="same_kind")
        self.terms = 0
        return out

    def reset(self) -> None:
        """Begin anew."""
        self.terms = 0

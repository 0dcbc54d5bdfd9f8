"""Rows of features put side by side, so that NumPy's and BLAS's inner loops are long even where features are few."""

import math
from typing import Any

import numpy as np

from nn.arrays import Array, Shape

WIDTH = 1024
BLOCK = 32_768
"""Elements of a block: several arrays of this size fit into a core's second-level cache."""


class WideRows:
    """Sees an array (..., features) as a matrix whose rows hold the features of `repeats` positions each.

    `blocks` are the slices of its rows to work on one after the other, so that what is computed from a block is still in
    the cache when it is used.
    """

    def __init__(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        self.positions, self.features = math.prod(shape[:-1]), shape[-1]
        limit = max(1, WIDTH // self.features)
        self.repeats = max(count for count in range(1, limit + 1) if self.positions % count == 0)
        self.rows, self.width = self.positions // self.repeats, self.features * self.repeats
        self.height = min(self.rows, max(1, BLOCK // self.width))
        self.blocks = [slice(start, min(start + self.height, self.rows)) for start in range(0, self.rows, self.height)]
        self._ones = np.ones(self.height, dtype)
        self._part = np.empty(self.width, dtype)

    def view(self, array: Array) -> Array:
        """Return the matrix; a copy where the array is strided."""
        return array.reshape(self.rows, self.width)

    def tile(self, vector: Array, out: Array) -> Array:
        """Write one number per feature, repeated, into a row of the matrix and return that."""
        np.copyto(out.reshape(self.repeats, self.features), vector)
        return out

    def add_rows(self, block: Array, total: Array) -> None:
        """Add the sum of the rows of a block to `total`, a row."""
        np.matmul(self._ones[: len(block)], block, out=self._part)
        np.add(total, self._part, out=total)

    def fold(self, total: Array, out: Array) -> None:
        """Write the sum over the repeats of a row, one number per feature."""
        np.add.reduce(total.reshape(self.repeats, self.features), axis=0, out=out)

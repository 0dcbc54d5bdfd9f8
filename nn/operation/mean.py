"""Means over axes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.sum import Sum


class Mean(Sum):
    """The arithmetic mean over some axes."""

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Plan the sum and count its summands."""
        super().allocate(shapes, output, dtype)
        self._share = 1 / math.prod(shapes[0][axis] for axis in self._reduced)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the means."""
        super().forward(inputs, out)
        np.multiply(out, self._share, out=out)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Give every element its share of the gradient of its mean."""
        if wanted[0] is not None:
            np.multiply(self.expand(gradient), self._share, out=wanted[0])

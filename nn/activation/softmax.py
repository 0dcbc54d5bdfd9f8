"""Probabilities from scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.activation.activation import Activation
from nn.arrays import Array, Shape


class Softmax(Activation):
    """f(x)_i = exp(x_i) / sum_j exp(x_j) over the last axis, shifted by the maximum so that it never overflows.

    The gradient is the product with the true Jacobian: f_i (g_i - sum_j g_j f_j). Before the loss
    `Cross_Entropy_With_Softmax` neither is computed: the loss takes the scores themselves.
    """

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for one number per row, and for the products of the sum."""
        self._row = self.scratch.empty((*output[:-1], 1), dtype)
        self._product = self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the probabilities."""
        row = self._row
        np.maximum.reduce(inputs[0], axis=-1, keepdims=True, out=row)
        np.subtract(inputs[0], row, out=out)
        np.exp(out, out=out)
        np.add.reduce(out, axis=-1, keepdims=True, out=row)
        np.divide(out, row, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write f_i (g_i - sum_j g_j f_j)."""
        np.multiply(gradient, output, out=self._product)
        np.add.reduce(self._product, axis=-1, keepdims=True, out=self._row)
        np.subtract(gradient, self._row, out=out)
        np.multiply(out, output, out=out)

"""Probabilities from scores."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.activation.activation import Activation
from nn.arrays import Array, Shape


class Softmax(Activation):
    """f(x)_i = exp(x_i) / sum_j exp(x_j) over the last axis, shifted by the maximum so that it never overflows.

    The gradient is the product with the true Jacobian: f_i (g_i - sum_j g_j f_j). Before the loss
    `Cross_Entropy_With_Softmax` neither is computed: the loss takes the scores themselves.

    >>> nn.layer.Dense(10, activation=nn.activation.Softmax()).activation
    Softmax()
    """

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for one number per row, and for the products of the sum."""
        self._row = self.scratch.empty((*output[:-1], 1), dtype)
        self._product = self.scratch.empty(output, dtype)
        self._ones = np.ones((output[-1], 1), dtype)
        self._firsts = np.arange(0, math.prod(output), output[-1])

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the probabilities."""
        row, x = self._row, inputs[0]
        if self._firsts.size == 1:
            np.subtract(x, x.item(x.argmax()), out)
        elif x.flags.c_contiguous:
            # NumPy finds the place of a maximum several times faster than a maximum, and BLAS sums faster than NumPy
            places = x.reshape(-1, x.shape[-1]).argmax(axis=1)
            np.add(places, self._firsts, out=places)
            x.take(places, out=row.reshape(-1), mode="clip")
            np.subtract(x, row, out)
        else:
            np.maximum.reduce(x, axis=-1, keepdims=True, out=row)
            np.subtract(x, row, out)
        np.exp(out, out)
        np.matmul(out, self._ones, row)
        np.divide(out, row, out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write f_i (g_i - sum_j g_j f_j)."""
        np.multiply(gradient, output, out=self._product)
        np.matmul(self._product, self._ones, self._row)
        np.subtract(gradient, self._row, out=out)
        np.multiply(out, output, out=out)

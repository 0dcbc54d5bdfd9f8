"""The rectifier."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.activation.activation import Activation
from nn.arrays import Array, Shape


class ReLU(Activation):
    """f(x) = max(x, 0); the derivative at 0 is taken as 0.

    Nair and Hinton, Rectified linear units improve restricted Boltzmann machines, ICML 2010.

    >>> nn.layer.Dense(10, activation=nn.activation.ReLU()).activation
    ReLU()
    """

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for zeros and for the mask of what was positive."""
        self._zero = self.scratch.empty(output, dtype)
        self._positive = self.scratch.empty(output, np.dtype(bool))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write max(x, 0)."""
        # NumPy compares with an array three times faster than with a number
        self._zero.fill(0)
        np.maximum(inputs[0], self._zero, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write the gradient where the output is positive, else 0."""
        np.greater(output, 0, out=self._positive)
        np.multiply(gradient, self._positive, out=out)

"""The logistic function."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.activation.activation import Activation
from nn.arrays import Array, Shape


class Sigmoid(Activation):
    """f(x) = 1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2, which never overflows; f'(x) = f(x) (1 - f(x)).

    Before the loss `Binary_Cross_Entropy` neither is computed: the loss takes the scores themselves.

    >>> nn.layer.Dense(10, activation=nn.activation.Sigmoid()).activation
    Sigmoid()
    """

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the derivative."""
        self._slope = self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the logistic function of x."""
        logistic(inputs[0], out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient * f(x) * (1 - f(x))."""
        slope = self._slope
        np.subtract(1, output, out=slope)
        np.multiply(slope, output, out=slope)
        np.multiply(gradient, slope, out=out)


def logistic(x: Array, out: Array) -> None:
    """Write 1 / (1 + exp(-x)) into `out`, which may be the memory of `x`."""
    np.multiply(x, 0.5, out=out)
    np.tanh(out, out=out)
    np.multiply(out, 0.5, out=out)
    np.add(out, 0.5, out=out)

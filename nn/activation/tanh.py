"""The hyperbolic tangent."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.activation.activation import Activation
from nn.arrays import Array, Shape


class Tanh(Activation):
    """f(x) = tanh(x), f'(x) = 1 - f(x)^2.

    >>> nn.layer.Dense(10, activation=nn.activation.Tanh()).activation
    Tanh()
    """

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the derivative."""
        self._slope = self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write tanh(x)."""
        np.tanh(inputs[0], out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient * (1 - tanh(x)^2)."""
        slope = self._slope
        np.multiply(output, output, out=slope)
        np.subtract(1, slope, out=slope)
        np.multiply(gradient, slope, out=out)

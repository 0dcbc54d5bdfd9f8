"""The rectifier."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.activation.activation import Activation
from nn.arrays import Array, Shape


class ReLU(Activation):
    """f(x) = max(x, 0); the derivative at 0 is taken as 0."""

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the mask of what was positive."""
        self._positive = np.empty(output, bool)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write max(x, 0)."""
        np.maximum(inputs[0], 0, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write the gradient where the output is positive, else 0."""
        np.greater(output, 0, out=self._positive)
        np.multiply(gradient, self._positive, out=out)

"""The exponential linear unit."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn import arguments
from nn.activation.activation import Activation
from nn.arrays import Array, Shape


class ELU(Activation):
    """f(x) = x for x > 0, alpha (exp(x) - 1) otherwise, with alpha >= 0; f'(x) = 1 or f(x) + alpha, at 0 alpha.

    Clevert, Unterthiner and Hochreiter, Fast and accurate deep network learning by exponential linear units, ICLR 2016.
    Raises TypeError or ValueError for another alpha.

    >>> nn.layer.Dense(10, activation=nn.activation.ELU(alpha=0.5)).activation
    ELU(alpha=0.5)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = arguments.number(self, "alpha", alpha, 0)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the negative part or the derivative, zeros and the mask of what was positive."""
        self._work, self._zero = self.scratch.empty(output, dtype), self.scratch.empty(output, dtype)
        self._positive = self.scratch.empty(output, np.dtype(bool))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write max(x, 0) + alpha (exp(min(x, 0)) - 1)."""
        negative, zero = self._work, self._zero
        # NumPy compares with an array three times faster than with a number
        zero.fill(0)
        np.minimum(inputs[0], zero, out=negative)
        np.expm1(negative, out=negative)
        if self.alpha != 1:
            np.multiply(negative, self.alpha, out=negative)
        np.maximum(inputs[0], zero, out=out)
        np.add(out, negative, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient * (1 where f(x) > 0, else f(x) + alpha)."""
        slope, zero = self._work, self._zero
        zero.fill(0)
        np.minimum(output, zero, out=slope)
        np.add(slope, self.alpha, out=slope)
        if self.alpha != 1:
            np.greater(output, 0, out=self._positive)
            np.copyto(slope, 1, where=self._positive)
        np.multiply(gradient, slope, out=out)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"alpha": self.alpha}

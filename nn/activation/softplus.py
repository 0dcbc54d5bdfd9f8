"""The smooth rectifier."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.activation.activation import Activation
from nn.arrays import Array, Shape


class Softplus(Activation):
    """f(x) = log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which never overflows; f'(x) = 1 - exp(-f(x)).

    Dugas, Bengio, Belisle, Nadeau and Garcia, Incorporating second-order functional knowledge for better option pricing,
    NIPS 2000.

    >>> nn.layer.Dense(10, activation=nn.activation.Softplus()).activation
    Softplus()
    """

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the logarithm or the derivative, and for zeros."""
        self._work, self._zero = self.scratch.empty(output, dtype), self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write max(x, 0) + log(1 + exp(-|x|))."""
        rest = self._work
        np.abs(inputs[0], out=rest)
        np.negative(rest, out=rest)
        np.exp(rest, out=rest)
        np.log1p(rest, out=rest)
        # NumPy compares with an array three times faster than with a number
        self._zero.fill(0)
        np.maximum(inputs[0], self._zero, out=out)
        np.add(out, rest, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient * (1 - exp(-f(x)))."""
        slope = self._work
        np.negative(output, out=slope)
        np.expm1(slope, out=slope)
        np.negative(slope, out=slope)
        np.multiply(gradient, slope, out=out)

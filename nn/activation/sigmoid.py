"""The logistic function."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.activation.activation import Activation
from nn.arrays import Array, Shape

SURE = 80.0
"""From here on the result is 1 in every digit. exp(x) overflows beyond 88 in float32."""


class Sigmoid(Activation):
    """f(x) = 1 / (1 + exp(-x)), to a few units in the last place also where it is close to 0; f'(x) = f(x) (1 - f(x)).

    Before the loss `Binary_Cross_Entropy` neither is computed: the loss takes the scores themselves.

    >>> nn.layer.Dense(10, activation=nn.activation.Sigmoid()).activation
    Sigmoid()
    """

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for 1 + exp(x) or the derivative."""
        self._work = self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the logistic function of x."""
        logistic(inputs[0], self._work, out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient * f(x) * (1 - f(x))."""
        slope = self._work
        np.subtract(1, output, out=slope)
        np.multiply(slope, output, out=slope)
        np.multiply(gradient, slope, out=out)


def logistic(x: Array, work: Array, out: Array) -> None:
    """Write 1 / (1 + exp(-x)) into `out`, which may be the memory of `x`; `work` is other memory of the same shape."""
    # NumPy finds the place of a maximum several times faster than a maximum; written so that NaN counts as too far
    if not x.item(x.argmax()) < SURE:
        x = np.minimum(x, SURE, out=out)
    bounded_logistic(x, work, out)


def bounded_logistic(x: Array, work: Array, out: Array) -> None:
    """Write exp(x) / (1 + exp(x)) into `out` and 1 + exp(x) into `work`, for x up to `SURE`.

    (1 + tanh(x / 2)) / 2 cancels to the left: in float32 no digit is left of it at -20.
    """
    np.exp(x, out=out)
    np.add(out, 1, out=work)
    np.divide(out, work, out=out)

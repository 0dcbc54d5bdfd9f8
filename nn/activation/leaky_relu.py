"""The leaky rectifier."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn import arguments
from nn.activation.activation import Activation
from nn.arrays import Array, Shape


class LeakReLU(Activation):
    """f(x) = x for x > 0, alpha x otherwise, with 0 <= alpha < 1; the derivative at 0 is taken as alpha.

    Maas, Hannun and Ng, Rectifier nonlinearities improve neural network acoustic models, ICML 2013. Raises TypeError or
    ValueError for another alpha.

    >>> nn.layer.Dense(10, activation=nn.activation.LeakReLU(alpha=0.1)).activation
    LeakReLU(alpha=0.1)
    """

    @arguments.also(leak_coefficient="alpha")
    def __init__(self, alpha: float = 0.01) -> None:
        self.alpha = arguments.number(self, "alpha", alpha, 0, 1)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for alpha x or the derivative, and for the mask of what was positive."""
        self._work = self.scratch.empty(output, dtype)
        self._positive = self.scratch.empty(output, np.dtype(bool))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write max(x, alpha x)."""
        np.multiply(inputs[0], self.alpha, out=self._work)
        np.maximum(inputs[0], self._work, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient * max([f(x) > 0], alpha)."""
        slope, positive = self._work, self._positive
        np.greater(output, 0, out=positive)
        slope.fill(self.alpha)
        np.maximum(slope, positive, out=slope)
        np.multiply(gradient, slope, out=out)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"alpha": self.alpha}

"""The hyperbolic tangent made of straight lines."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.activation.activation import Activation
from nn.arrays import Array, Shape


class HTanh(Activation):
    """f(x) = max(-1, min(x, 1)); f'(x) = 1 for -1 < x < 1, else 0.

    Collobert, Large scale machine learning, thesis, Universite Paris VI, 2004.

    >>> nn.layer.Dense(10, activation=nn.activation.HTanh()).activation
    HTanh()
    """

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for a bound or the size of the output, and for the mask of what lies within the bounds."""
        self._work = self.scratch.empty(output, dtype)
        self._within = self.scratch.empty(output, np.dtype(bool))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write max(-1, min(x, 1))."""
        bound = self._work
        # NumPy compares with an array three times faster than with a number
        bound.fill(1)
        np.minimum(inputs[0], bound, out=out)
        bound.fill(-1)
        np.maximum(out, bound, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write the gradient where -1 < f(x) < 1, else 0."""
        np.abs(output, out=self._work)
        np.less(self._work, 1, out=self._within)
        np.multiply(gradient, self._within, out=out)

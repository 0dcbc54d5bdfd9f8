"""The sigmoid-weighted linear unit."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.activation.activation import Activation
from nn.activation.sigmoid import logistic
from nn.arrays import Array, Shape


class SiLU(Activation):
    """f(x) = x s(x) with the logistic function s, also called swish; f'(x) = s(x) (1 + x (1 - s(x))).

    Elfwing, Uchibe and Doya, Sigmoid-weighted linear units for neural network function approximation in reinforcement
    learning, Neural Networks 107, 2018.
    """

    reads_inputs: ClassVar[bool] = True
    reads_output: ClassVar[bool] = False

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the logistic function and the derivative."""
        self._logistic, self._slope = self.scratch.empty(output, dtype), self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write x s(x)."""
        logistic(inputs[0], self._logistic)
        np.multiply(inputs[0], self._logistic, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient * s(x) (1 + x (1 - s(x)))."""
        slope = self._slope
        logistic(x, self._logistic)
        np.subtract(1, self._logistic, out=slope)
        np.multiply(slope, x, out=slope)
        np.add(slope, 1, out=slope)
        np.multiply(slope, self._logistic, out=slope)
        np.multiply(gradient, slope, out=out)

"""The sigmoid-weighted linear unit."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.activation.activation import Activation
from nn.activation.sigmoid import SURE, bounded_logistic, logistic
from nn.arrays import Array, Shape

_FAR = 1000.0
"""From here on s(-x) is 0 in every digit: what is beyond may stand here, so that no infinity meets a 0."""


class SiLU(Activation):
    """f(x) = x s(x) with the logistic function s, also called swish; f'(x) = s(x) (1 + x (1 - s(x))).

    Elfwing, Uchibe and Doya, Sigmoid-weighted linear units for neural network function approximation in reinforcement
    learning, Neural Networks 107, 2018.

    >>> nn.layer.Dense(10, activation=nn.activation.SiLU()).activation
    SiLU()
    """

    reads_inputs: ClassVar[bool] = True
    reads_output: ClassVar[bool] = False

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the logistic function, the derivative and what is left of x."""
        self._logistic, self._slope, self._near = (self.scratch.empty(output, dtype) for _ in range(3))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write x s(x)."""
        near = inputs[0]
        if not near.item(near.argmin()) > -_FAR:
            near = np.clip(near, -_FAR, np.inf, out=self._near)
        logistic(near, self._slope, self._logistic)
        np.multiply(near, self._logistic, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient * s(x) (1 + x (1 - s(x)))."""
        slope, near = self._slope, x
        if not (x.item(x.argmin()) > -_FAR and x.item(x.argmax()) < SURE):
            near = np.clip(x, -_FAR, SURE, out=self._near)
        bounded_logistic(near, slope, self._logistic)
        # 1 - s(x) = 1 / (1 + exp(x)), which does not cancel
        np.divide(near, slope, out=slope)
        np.add(slope, 1, out=slope)
        np.multiply(slope, self._logistic, out=slope)
        np.multiply(gradient, slope, out=out)

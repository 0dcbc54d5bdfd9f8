"""The loss whose gradient is the hyperbolic tangent."""

from typing import Any

import numpy as np

from nn.arrays import Array, Shape
from nn.loss.difference import DifferenceLoss

_FAR = 20.0
"""From here on log cosh d is |d| - log 2 in every digit."""


class TanhLoss(DifferenceLoss):
    """Mean of log cosh(p - y) over the batch and all outputs; its gradient is tanh(p - y) / (number of elements).

    Close to d^2 / 2 for small differences d and to |d| - log 2 for large ones, smooth everywhere, and no sample pulls harder
    than 1; known as log-cosh loss. Labels have the shape of the output, or (batch,) where a sample has one output. Saleh and
    Saleh, Statistical properties of the log-cosh loss function used in machine learning, arXiv:2208.04564.

    >>> loss, output = nn.loss.TanhLoss(), np.array([[1.0], [4.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[1.0], [2.0]]), output), 4)
    0.6625
    """

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        """Make room also for what lies beyond the reach of the hyperbolic sine."""
        super().allocate(shape, dtype)
        self._beyond = np.empty_like(self._work)

    def measure(self, difference: Array, work: Array, out: Array) -> None:
        """Write the sums of log cosh d = log(1 + 2 sinh(d / 2)^2), which is as exact for small d as for large ones."""
        beyond = self._beyond
        np.abs(difference, out=work)
        np.maximum(work, _FAR, out=beyond)
        np.subtract(beyond, _FAR, out=beyond)
        np.minimum(work, _FAR, out=work)
        np.multiply(work, 0.5, out=work)
        np.sinh(work, out=work)
        np.multiply(work, work, out=work)
        np.multiply(work, 2, out=work)
        np.log1p(work, out=work)
        np.add(work, beyond, out=work)
        np.add.reduce(work, axis=1, out=out)

    def slope(self, difference: Array, share: float | Array, out: Array) -> None:
        """Write tanh d."""
        np.tanh(difference, out=out)
        np.multiply(out, share, out=out)

"""Mean square error."""

import numpy as np

from nn.arrays import Array
from nn.loss.difference import DifferenceLoss


class MSELoss(DifferenceLoss):
    """Mean of (p - y)^2 over the batch and all outputs of a sample; its gradient is 2 (p - y) / (number of elements).

    Labels have the shape of the output, or (batch,) where a sample has one output.

    >>> loss, output = nn.loss.MSELoss(), np.array([[1.0], [4.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[1.0], [2.0]]), output), 4)
    2.0
    """

    def measure(self, difference: Array, work: Array, out: Array) -> None:
        """Write the sums of (p - y)^2."""
        np.einsum("ij,ij->i", difference, difference, out=out)

    def slope(self, difference: Array, share: float | Array, out: Array) -> None:
        """Write 2 (p - y)."""
        share *= 2
        np.multiply(difference, share, out=out)

    def total(self, label: Array, output: Array) -> float:
        """Return the sum over the samples by one product of vectors."""
        difference = np.subtract(output, label, out=self._difference)
        return float(np.vdot(difference, difference)) / self._outputs

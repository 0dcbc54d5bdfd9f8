"""Mean absolute error."""

import numpy as np

from nn.arrays import Array
from nn.loss.difference import DifferenceLoss


class MAELoss(DifferenceLoss):
    """Mean of |p - y| over the batch and all outputs of a sample; its gradient is sign(p - y) / (number of elements), at 0 0.

    Labels have the shape of the output, or (batch,) where a sample has one output.

    >>> loss, output = nn.loss.MAELoss(), np.array([[1.0], [4.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[1.0], [2.0]]), output), 4)
    1.0
    """

    def measure(self, difference: Array, work: Array, out: Array) -> None:
        """Write the sums of |p - y|."""
        np.abs(difference, out=work)
        np.add.reduce(work, axis=1, out=out)

    def slope(self, difference: Array, share: float | Array, out: Array) -> None:
        """Write sign(p - y)."""
        np.sign(difference, out=out)
        np.multiply(out, share, out=out)

"""The loss of Huber: square for small differences, absolute for large ones."""

from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import Array, Shape
from nn.loss.difference import DifferenceLoss


class HuberLoss(DifferenceLoss):
    """Mean of h(p - y) over the batch and all outputs, h(d) = d^2 / 2 for |d| <= delta, delta (|d| - delta / 2) beyond.

    With c = max(-delta, min(d, delta)), h(d) = c (d - c / 2) and h'(d) = c. Labels have the shape of the output, or (batch,)
    where a sample has one output. Huber, Robust estimation of a location parameter, Annals of Mathematical Statistics 35,
    1964. Raises TypeError or ValueError unless delta > 0.

    >>> loss, output = nn.loss.HuberLoss(delta=1.0), np.array([[1.0], [4.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[1.0], [2.0]]), output), 4)
    0.75
    """

    def __init__(self, delta: float = 1.0) -> None:
        self.delta = arguments.number(self, "delta", delta, 0, open_low=True)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for c too."""
        super().allocate(shape, dtype)
        self._clipped = np.empty_like(self._work)

    def measure(self, difference: Array, work: Array, out: Array) -> None:
        """Write the sums of c (d - c / 2)."""
        clipped = self._clipped
        np.minimum(difference, self.delta, out=clipped)
        np.maximum(clipped, -self.delta, out=clipped)
        np.multiply(clipped, -0.5, out=work)
        np.add(work, difference, out=work)
        np.einsum("ij,ij->i", clipped, work, out=out)

    def slope(self, difference: Array, share: float | Array, out: Array) -> None:
        """Write c."""
        np.multiply(self._clipped.reshape(difference.shape), share, out=out)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"delta": self.delta}

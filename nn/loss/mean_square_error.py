"""Mean square error."""

from typing import Any

import numpy as np

from nn.arrays import Array, Shape
from nn.loss.loss import Loss, check_length


class MSELoss(Loss):
    """Mean of (p - y)^2 over the batch and all outputs of a sample; its gradient is 2 (p - y) / (number of elements).

    Labels have the shape of the output, or (batch,) where a sample has one output.
    """

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return the labels in the shape of the output."""
        check_length(label, shape[0])
        if label.shape != shape and shape != (*label.shape, 1):
            raise ValueError(f"MSELoss labels must have the shape {shape} of the output, got {label.shape}")
        if label.dtype.kind not in "iufb":
            raise ValueError(f"MSELoss labels must be numbers, got {label.dtype}")
        return np.asarray(label, dtype).reshape(shape)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the differences."""
        self._difference = np.empty(shape, dtype)

    def value(self, label: Array, output: Array) -> float:
        """Return mean((p - y)^2)."""
        difference = np.subtract(output, label, out=self._difference)
        return float(np.vdot(difference, difference)) / difference.size

    def gradient(self, label: Array, output: Array, out: Array) -> None:
        """Write 2 (p - y) / size."""
        np.multiply(self._difference, 2 / self._difference.size, out=out)

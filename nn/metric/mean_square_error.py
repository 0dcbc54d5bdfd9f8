"""Mean square error as a metric."""

import math

import numpy as np

from nn.arrays import Array
from nn.metric.metric import Metric


class MeanSquareError(Metric):
    """Mean of (p - y)^2 over all elements, added up in double precision. Class numbers count as one-hot rows."""

    name = "mse"

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        self._sum = 0.0
        self._elements = 0

    def update(self, label: Array, prediction: Array) -> None:
        """Add one batch; raise ValueError where labels and predictions do not have the same number of elements."""
        if label.ndim == 1 and prediction.ndim == 2 and prediction.shape[1] > 1 and label.dtype.kind in "iu":
            label = np.eye(prediction.shape[1], dtype=prediction.dtype)[label]
        if label.size != prediction.size:
            raise ValueError(
                f"MeanSquareError takes labels of the shape {prediction.shape} of the predictions, got {label.shape}"
            )
        difference = np.subtract(prediction, label.reshape(prediction.shape), dtype=np.float64)
        self._sum += float(np.vdot(difference, difference))
        self._elements += difference.size

    def result(self) -> float:
        """Return the mean."""
        return self._sum / self._elements if self._elements else math.nan

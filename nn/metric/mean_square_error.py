"""Mean square error as a metric."""

import math

import numpy as np
from numpy.typing import ArrayLike

from nn.metric.classes import check_range
from nn.metric.exact_sum import ExactSum
from nn.metric.metric import Metric
from nn.metric.pairs import as_arrays, number_pairs


class MeanSquareError(Metric):
    """Mean of (p - y)^2 over all elements, each computed in double precision, their sum exact.

    Labels have the shape of the predictions, (batch,) and (batch, 1) being the same; class numbers (batch,) beside predictions
    (batch, classes) count as one-hot rows. `update` raises ValueError for other shapes and for labels that are no class.

    >>> metric = nn.metric.MeanSquareError()
    >>> metric.update([1.0, 2.0], [1.0, 4.0])
    >>> metric.result()
    2.0
    """

    name = "mse"

    def reset(self) -> None:
        """Forget all samples."""
        self._sum = ExactSum()
        self._elements = 0

    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        """Add one batch."""
        label, prediction = as_arrays(self, label, prediction)
        if label.ndim == 1 and prediction.ndim == 2 and prediction.shape[1] > 1 and label.dtype.kind in "iu":
            classes = check_range(self, label, prediction.shape[1])
            label = np.equal(classes.reshape(-1, 1), np.arange(prediction.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):
            for true, predicted in number_pairs(self, label, prediction):
                difference = np.subtract(predicted, true, out=predicted)
                self._sum.add(np.square(difference, out=difference).reshape(-1, 1))
        self._elements += prediction.size

    def result(self) -> float:
        """Return the mean."""
        return self._sum.mean(self._elements) if self._elements else math.nan

    def merge(self, other: Metric) -> None:
        """Add the sum of the other."""
        other = self.mergeable(other)
        self._sum.merge(other._sum)
        self._elements += other._elements

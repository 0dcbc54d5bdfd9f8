"""Relative error."""

import math

import numpy as np
from numpy.typing import ArrayLike

from nn.metric.exact_sum import ExactSum
from nn.metric.metric import Metric
from nn.metric.pairs import as_arrays, number_pairs

_LEAST = float(np.finfo(np.float64).eps)


class RelativeError(Metric):
    """Mean of |p - y| / max(|y|, 2.2e-16) over all elements: 0.1 is a mistake of a tenth of the label.

    The bound stands in for a label of 0, as in scikit-learn's `mean_absolute_percentage_error`: a prediction of 0 is right
    there, and any other mistake shows as a huge number. Labels have the shape of the predictions, (batch,) and (batch, 1)
    being the same; `update` raises ValueError otherwise.

    >>> metric = nn.metric.RelativeError()
    >>> metric.update([1.0, 2.0], [1.0, 4.0])
    >>> metric.result()
    0.5
    """

    name = "relative_error"

    def reset(self) -> None:
        """Forget all samples."""
        self._sum = ExactSum()
        self._elements = 0

    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        """Add one batch."""
        label, prediction = as_arrays(self, label, prediction)
        with np.errstate(over="ignore", invalid="ignore"):
            for true, predicted in number_pairs(self, label, prediction):
                error = np.subtract(predicted, true, out=predicted)
                np.abs(error, out=error)
                size = np.abs(true, out=true)
                np.divide(error, np.maximum(size, _LEAST, out=size), out=error)
                self._sum.add(error.reshape(-1, 1))
        self._elements += prediction.size

    def result(self) -> float:
        """Return the mean."""
        return self._sum.mean(self._elements) if self._elements else math.nan

    def merge(self, other: Metric) -> None:
        """Add the sum of the other."""
        other = self.mergeable(other)
        self._sum.merge(other._sum)
        self._elements += other._elements

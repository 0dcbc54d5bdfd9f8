"""Accuracy over classes."""

import math

import numpy as np
from numpy.typing import ArrayLike

from nn.metric.classes import class_numbers
from nn.metric.metric import Metric
from nn.metric.not_a_number import has_nan
from nn.metric.pairs import as_arrays


class CategoricalAccuracy(Metric):
    """The share of samples whose largest output is at the label's class; of equal outputs the first counts.

    Predictions (batch, ..., classes), of which every row counts as a sample; labels class numbers (batch, ...) or one-hot
    rows (batch, ..., classes). `update` raises ValueError for other shapes and for labels that are no class.

    >>> metric = nn.metric.CategoricalAccuracy()
    >>> metric.update([0, 2], [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]])
    >>> metric.result()
    0.5
    """

    name = "accuracy"

    def reset(self) -> None:
        """Forget all samples."""
        self._right: float = 0
        self._samples = 0

    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        """Count one batch."""
        label, prediction = as_arrays(self, label, prediction)
        true = class_numbers(self, label, prediction)
        self._right += math.nan if has_nan(prediction) else int(np.count_nonzero(prediction.argmax(axis=-1) == true))
        self._samples += true.size

    def result(self) -> float:
        """Return right / samples."""
        return self._right / self._samples if self._samples else math.nan

    def merge(self, other: Metric) -> None:
        """Add what the other counted."""
        other = self.mergeable(other)
        self._right += other._right
        self._samples += other._samples

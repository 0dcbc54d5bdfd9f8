"""Accuracy over classes."""

import math

import numpy as np

from nn.arrays import Array
from nn.metric.classes import class_numbers
from nn.metric.metric import Metric
from nn.metric.not_a_number import has_nan


class CategoricalAccuracy(Metric):
    """The share of samples whose largest output is at the label's class; of equal outputs the first counts.

    Predictions (batch, ..., classes), of which every row counts as a sample; labels class numbers (batch, ...) or one-hot
    rows (batch, ..., classes). `update` raises ValueError for other shapes and for labels that are no class.
    """

    name = "accuracy"

    def reset(self) -> None:
        """Forget all samples."""
        self._right: float = 0
        self._samples = 0

    def update(self, label: Array, prediction: Array) -> None:
        """Count one batch."""
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

"""Accuracy where a few guesses are allowed."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nn import arguments
from nn.metric.classes import class_numbers
from nn.metric.metric import Metric
from nn.metric.not_a_number import has_nan
from nn.metric.pairs import as_arrays


class TopKAccuracy(Metric):
    """The share of samples whose class is among the k largest outputs; of equal outputs the first count.

    So k = 1 is `CategoricalAccuracy`, ties included, and a model that gives the same to all classes is not always right.
    Predictions and labels as there, with at least k classes. The key is `top_<k>_accuracy`.

    >>> metric = nn.metric.TopKAccuracy(k=2)
    >>> metric.update([0, 2], [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]])
    >>> metric.result()
    1.0
    """

    def __init__(self, k: int = 5, name: str | None = None) -> None:
        self.k = arguments.integer(self, "k", k, minimum=1)
        self.name = f"top_{self.k}_accuracy"
        super().__init__(name)

    def reset(self) -> None:
        """Forget all samples."""
        self._right: float = 0
        self._samples = 0

    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        """Count one batch; raise ValueError for wrong shapes, fewer than k classes, and labels that are no class."""
        label, prediction = as_arrays(self, label, prediction)
        true = class_numbers(self, label, prediction).reshape(-1, 1)
        classes = prediction.shape[-1]
        if classes < self.k:
            raise ValueError(f"TopKAccuracy 'k' of {self.k} needs at least {self.k} classes, got shape {prediction.shape}")
        self._samples += len(true)
        if has_nan(prediction):
            self._right = math.nan
            return
        rows = prediction.reshape(-1, classes)
        chosen = np.take_along_axis(rows, true, axis=1)
        # before the class of the label stand the larger outputs and the equal ones of lower number
        before = np.where(np.arange(classes) < true, rows >= chosen, rows > chosen)
        self._right += int(np.count_nonzero(np.count_nonzero(before, axis=1) < self.k))

    def result(self) -> float:
        """Return right / samples."""
        return self._right / self._samples if self._samples else math.nan

    def merge(self, other: Metric) -> None:
        """Add what the other counted."""
        other = self.mergeable(other)
        self._right += other._right
        self._samples += other._samples

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"k": self.k, **super().get_config()}

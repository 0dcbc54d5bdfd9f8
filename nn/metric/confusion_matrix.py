"""Which classes are taken for which."""

import math

import numpy as np
from numpy.typing import ArrayLike

from nn.arrays import Array
from nn.metric.classes import class_numbers
from nn.metric.metric import Metric
from nn.metric.not_a_number import has_nan
from nn.metric.pairs import as_arrays


class ConfusionMatrix(Metric):
    """How many samples of each class were given to each: `matrix()`, (classes, classes), row the label, column the prediction.

    Predictions (batch, ..., classes), of which the first largest output counts; labels class numbers (batch, ...) or one-hot
    rows (batch, ..., classes). As a number, for results and files, it gives the balanced accuracy: the mean over the classes
    that occur of the share found, matrix[k, k] / sum(matrix[k]), which does not hide a small class behind a large one
    (Brodersen et al., "The Balanced Accuracy and Its Posterior Distribution", 2010).

    For the matrix of a test set: `confusion = ConfusionMatrix(); confusion.update(test_y, model.predict(test_x))`.

    >>> confusion = nn.metric.ConfusionMatrix()
    >>> confusion.update([0, 0, 1], [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    >>> confusion.matrix().tolist(), confusion.result()
    ([[1, 1], [0, 1]], 0.75)
    """

    name = "balanced_accuracy"

    def reset(self) -> None:
        """Forget all samples."""
        self._counts: Array | None = None
        self._nan = False

    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        """Count one batch; raise ValueError for wrong shapes, another number of classes, and labels that are no class."""
        label, prediction = as_arrays(self, label, prediction)
        true = class_numbers(self, label, prediction)
        counts = self._counts_of(prediction.shape[-1])
        if has_nan(prediction):
            self._nan = True
            return
        cells = true.astype(np.intp) * len(counts) + prediction.argmax(axis=-1)
        np.add.at(counts.reshape(-1), cells.reshape(-1), 1)

    def matrix(self) -> Array:
        """Return the counts as int64 (classes, classes); raise ValueError without samples, or where a prediction was NaN."""
        if self._counts is None:
            raise ValueError("ConfusionMatrix has seen no samples")
        if self._nan:
            raise ValueError("ConfusionMatrix has seen predictions that are NaN, which belong to no class")
        return self._counts.copy()

    def result(self) -> float:
        """Return the balanced accuracy."""
        if self._counts is None or self._nan:
            return math.nan
        samples = self._counts.sum(axis=1)
        occurs = samples > 0
        return float(np.mean(self._counts.diagonal()[occurs] / samples[occurs])) if occurs.any() else math.nan

    def merge(self, other: Metric) -> None:
        """Add the counts of the other, which must have seen the same number of classes, if any."""
        other = self.mergeable(other)
        if other._counts is not None:
            counts = self._counts_of(len(other._counts))
            counts += other._counts
        self._nan |= other._nan

    def _counts_of(self, classes: int) -> Array:
        if self._counts is None:
            self._counts = np.zeros((classes, classes), np.int64)
        elif len(self._counts) != classes:
            raise ValueError(f"ConfusionMatrix has seen {len(self._counts)} classes so far, got {classes}")
        return self._counts

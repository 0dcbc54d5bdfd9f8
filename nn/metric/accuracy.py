"""Metrics of several classes: accuracy, accuracy of a few guesses, and which classes are taken for which."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from nn import arguments
from nn.arrays import Array
from nn.metric.metric import Metric, as_arrays, class_numbers, has_nan


class Accuracy(Metric):
    """The share of samples that are right; a subclass says how many of a batch are."""

    def reset(self) -> None:
        # In a list: to set an attribute of a metric takes a call, and a step of a small network takes as long as some.
        self._counts: list[float] = [0, 0]  # samples that are right, and all

    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        label, prediction = as_arrays(self, label, prediction)
        true = class_numbers(self, label, prediction)
        right = int(np.count_nonzero(self.right(true, prediction)))
        counts = self._counts
        # Added to the sum, so that it stays NaN until `reset`.
        counts[0] += math.nan if has_nan(prediction) else right
        counts[1] += true.size

    @abstractmethod
    def right(self, true: Array, prediction: Array) -> Array:
        """Return which rows of predictions are right.

        Args:
            true: the classes (batch, ...).
            prediction: the predictions (batch, ..., classes).
        """

    def _terms(self, label: ArrayLike, prediction: ArrayLike) -> tuple[Array, ...]:
        label, prediction = as_arrays(self, label, prediction)
        right = self.right(class_numbers(self, label, prediction), prediction)
        return (np.where(np.isnan(prediction).any(axis=-1), np.nan, right) if has_nan(prediction) else right,)

    def _settle(self, sums: Sequence[float], total: float) -> None:
        self._counts = [sums[0], total]

    def result(self) -> float:
        right, samples = self._counts
        return right / samples if samples else math.nan

    def merge(self, other: Metric) -> None:
        other = self.mergeable(other)
        self._counts = [own + more for own, more in zip(self._counts, other._counts, strict=True)]


class CategoricalAccuracy(Accuracy):
    """The share of samples with the largest output at the label's class; of equal outputs the first counts.

    Predictions (batch, ..., classes), of which every row counts as a sample; labels class numbers (batch, ...) or one-hot
    rows (batch, ..., classes). `update` raises ValueError for other shapes and for labels that are no class.

    >>> metric = nn.metric.CategoricalAccuracy()
    >>> metric.update([0, 2], [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]])
    >>> metric.result()
    0.5
    """

    name = "accuracy"

    def right(self, true: Array, prediction: Array) -> Array:
        return np.asarray(prediction.argmax(axis=-1) == true)


class TopKAccuracy(Accuracy, configured=True):
    """The share of samples with their class among the largest outputs; of equal outputs the first count.

    So k = 1 is `CategoricalAccuracy`, ties included, and a model that gives the same to all classes is not always right.
    Predictions and labels as there, with at least k classes.

    Args:
        k: how many of the largest outputs count.
        name: key of the result; None for `top_<k>_accuracy`.

    >>> metric = nn.metric.TopKAccuracy(k=2)
    >>> metric.update([0, 2], [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]])
    >>> metric.result()
    1.0
    """

    def __init__(self, k: int = 5, name: str | None = None) -> None:
        self.k = arguments.integer(self, "k", k, minimum=1)
        self.name = f"top_{self.k}_accuracy"
        super().__init__(name)

    def right(self, true: Array, prediction: Array) -> Array:
        """Raise ValueError for fewer than k classes."""
        classes = prediction.shape[-1]
        if classes < self.k:
            raise ValueError(f"TopKAccuracy 'k' of {self.k} needs at least {self.k} classes, got shape {prediction.shape}")
        rows, numbers = prediction.reshape(-1, classes), true.reshape(-1, 1)
        chosen = np.take_along_axis(rows, numbers, axis=1)
        # before the class of the label stand the larger outputs and the equal ones of lower number
        before = np.where(np.arange(classes) < numbers, rows >= chosen, rows > chosen)
        return np.asarray(np.count_nonzero(before, axis=1) < self.k).reshape(true.shape)


class ConfusionMatrix(Metric):
    """Counts of the samples of each class given to each: `matrix()`, (classes, classes), row the label, column the prediction.

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
        # Class numbers may be uint8, in which the product would overflow.
        cells = true.astype(np.intp) * len(counts) + prediction.argmax(axis=-1)
        # A sum by index would count a cell once that is named several times.
        np.add.at(counts.reshape(-1), cells.reshape(-1), 1)

    def matrix(self) -> Array:
        """Return the counts as int64 (classes, classes); raise ValueError without samples, or where a prediction was NaN."""
        if self._counts is None:
            raise ValueError(f"{type(self).__name__} has seen no samples")
        if self._nan:
            raise ValueError(f"{type(self).__name__} has seen predictions that are NaN, which belong to no class")
        return self._counts.copy()

    def result(self) -> float:
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
            # In place: it is the array that this metric keeps.
            counts += other._counts
        self._nan |= other._nan

    def _counts_of(self, classes: int) -> Array:
        if self._counts is None:
            self._counts = np.zeros((classes, classes), np.int64)
        elif len(self._counts) != classes:
            raise ValueError(f"{type(self).__name__} has seen {len(self._counts)} classes so far, got {classes}")
        return self._counts


class MeanIoU(ConfusionMatrix):
    """Mean over the classes of intersection over union, matrix[k, k] / (sum(matrix[k]) + sum(matrix[:, k]) - matrix[k, k]).

    For segmentation: predictions (batch, height, width, classes) and class numbers (batch, height, width). Classes that
    neither labels nor predictions hold do not count (Everingham et al., "The Pascal Visual Object Classes Challenge", 2010).
    Predictions, labels and `matrix()` as in `ConfusionMatrix`.

    >>> metric = nn.metric.MeanIoU()
    >>> metric.update([0, 0, 1], [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    >>> metric.result()
    0.5
    """

    name = "mean_iou"

    def result(self) -> float:
        if self._counts is None or self._nan:
            return math.nan
        both = self._counts.diagonal()
        union = self._counts.sum(axis=1) + self._counts.sum(axis=0) - both
        occurs = union > 0
        return float(np.mean(both[occurs] / union[occurs])) if occurs.any() else math.nan


Average: TypeAlias = Literal["macro", "micro", "weighted"]


class ClassF1(ConfusionMatrix, configured=True):
    """F1 of several classes, 2 TP / (2 TP + FP + FN) of each against the rest, in one number (van Rijsbergen, 1979).

    "macro" is the mean over the classes that labels or predictions hold, "weighted" the mean over the labels, "micro" that of
    all counts together, which equals the accuracy where each sample has one class; of several labels for a sample it is `F1`.
    The key is `<average>_f1`. Predictions, labels and `matrix()` as in `ConfusionMatrix`.

    Args:
        average: macro, micro or weighted.
        name: the key in the results.

    >>> metric = nn.metric.ClassF1()
    >>> metric.update([0, 0, 1], [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    >>> round(metric.result(), 4)
    0.6667
    """

    def __init__(self, average: Average = "macro", name: str | None = None) -> None:
        self.average = arguments.one_of(self, "average", average, get_args(Average))
        self.name = f"{self.average}_f1"
        super().__init__(name)

    def result(self) -> float:
        if self._counts is None or self._nan or not self._counts.any():
            return math.nan
        right, samples = self._counts.diagonal(), self._counts.sum(axis=1)
        if self.average == "micro":
            return float(right.sum() / samples.sum())
        # A row and a column hold the diagonal once each, so that their sum is 2 TP + FP + FN.
        marked = samples + self._counts.sum(axis=0)
        occurs = marked > 0
        each = 2 * right[occurs] / marked[occurs]
        return float(np.average(each, weights=samples[occurs] if self.average == "weighted" else None))

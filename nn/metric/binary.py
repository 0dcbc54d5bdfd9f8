"""Metrics of two classes at a threshold: the four counts, and the shares that follow from them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from numbers import Real
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from nn import arguments
from nn.arrays import Array
from nn.metric.accuracy import Average
from nn.metric.metric import Metric, TwoClassMetric, as_arrays, has_nan


class BinaryCounts(TwoClassMetric, configured=True):
    """Counts of samples by label, positive or negative, and by decision.

    A score above `threshold` is taken for positive, one equal to it is not, as in Keras. Without one that is 0.5, of
    probabilities, which a model that ends in scores hands over, too, beside `Binary_Cross_Entropy`; beside `Hinge` it is 0, as
    the sign of its scores is the decision. Predictions and labels as in `BinaryAccuracy`.

    Args:
        threshold: None for that of the loss.
        name: the key in the results.
    """

    def __init__(self, threshold: float | None = None, name: str | None = None) -> None:
        self.threshold = None if threshold is None else _finite(self, threshold)
        super().__init__(name)

    def reset(self) -> None:
        self._hits: float = 0  # positive samples that were taken for positive
        self._taken: float = 0
        self._positives: float = 0
        self._samples: float = 0

    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        truth, score = self.truth_and_scores(label, prediction)
        taken = score > (self._boundary if self.threshold is None else self.threshold)
        # every value depends on this count, so that NaN reaches all of them
        self._hits += math.nan if has_nan(score) else int(np.count_nonzero(taken & truth))
        # Three counts and the number of samples give all four cells of the table.
        self._taken += int(np.count_nonzero(taken))
        self._positives += int(np.count_nonzero(truth))
        self._samples += len(truth)

    def _terms(self, label: ArrayLike, prediction: ArrayLike) -> tuple[Array, ...]:
        truth, score = self.truth_and_scores(label, prediction)
        taken = score > (self._boundary if self.threshold is None else self.threshold)
        # Outputs of a sample side by side, as many as there are.
        rows = (len(np.asarray(prediction)), -1)
        hits = np.where(np.isnan(score), np.nan, taken & truth) if has_nan(score) else taken & truth
        return hits.reshape(rows), taken.reshape(rows), truth.reshape(rows)

    def _settle(self, sums: Sequence[float], total: float) -> None:
        self._hits, self._taken, self._positives = sums
        self._samples = total

    def result(self) -> float:
        return float(self.value()) if self._samples else math.nan

    @abstractmethod
    def value(self) -> float:
        """Return the value of the counts of at least one sample."""

    def merge(self, other: Metric) -> None:
        other = self.mergeable(other)
        self._hits += other._hits
        self._taken += other._taken
        self._positives += other._positives
        self._samples += other._samples


def share(part: float, whole: float) -> float:
    """Return part / whole, and 0 for 0 / 0, as scikit-learn and Keras do; NaN for a part that is."""
    # 0, or the NaN of a count that is none.
    return part / whole if whole else part


def _finite(owner: Metric, threshold: Any) -> float:
    if isinstance(threshold, bool) or not isinstance(threshold, Real):
        raise TypeError(f"{type(owner).__name__} 'threshold' must be a finite number, got {threshold!r}")
    value = float(threshold)
    if not math.isfinite(value):
        raise ValueError(f"{type(owner).__name__} 'threshold' must be a finite number, got {value}")
    return value


class BinaryAccuracy(BinaryCounts):
    """The share of samples with the right decision, (TP + TN) / samples.

    A score above `threshold` is taken for positive. Predictions are scores (batch,) or (batch, 1), such as probabilities, with
    labels 0 and 1 (or -1 and 1) of either shape; or rows of two probabilities (batch, 2), of which the second is the score,
    with labels 0 and 1 or one-hot rows (batch, 2). Of a model with several labels, outputs (batch, k) and labels of that shape,
    each output counts as a sample, as in Keras; so do two beside a binary cross-entropy. `update` raises ValueError for
    anything else.

    >>> metric = nn.metric.BinaryAccuracy()
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> metric.result()
    0.5
    """

    name = "accuracy"

    def value(self) -> float:
        # TN = samples - taken - positives + TP.
        return (self._samples - self._taken - self._positives + 2 * self._hits) / self._samples


class Precision(BinaryCounts):
    """The share of positive samples among those taken for positive, TP / (TP + FP); 0 where none was taken for positive.

    Predictions, labels and `threshold` as in `BinaryAccuracy`.

    >>> metric = nn.metric.Precision()
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> round(metric.result(), 4)
    0.6667
    """

    name = "precision"

    def value(self) -> float:
        return share(self._hits, self._taken)


class Recall(BinaryCounts):
    """The share of the positive samples that were taken for positive, TP / (TP + FN); 0 where there are none.

    Predictions, labels and `threshold` as in `BinaryAccuracy`.

    >>> metric = nn.metric.Recall()
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> round(metric.result(), 4)
    0.6667
    """

    name = "recall"

    def value(self) -> float:
        return share(self._hits, self._positives)


class F1(BinaryCounts):
    """The harmonic mean of precision and recall, 2 TP / (2 TP + FP + FN); 0 where TP, FP and FN are 0.

    Predictions, labels and `threshold` as in `BinaryAccuracy`. (van Rijsbergen, "Information Retrieval", 1979)

    >>> metric = nn.metric.F1()
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> round(metric.result(), 4)
    0.6667
    """

    name = "f1"

    def value(self) -> float:
        return share(2 * self._hits, self._taken + self._positives)


class LabelF1(TwoClassMetric, configured=True):
    """F1 of several labels, 2 TP / (2 TP + FP + FN) of each, in one number, for outputs that are decisions of their own.

    "macro" is the mean over the labels, "weighted" that over the positive outputs of all, "micro" the F1 of all outputs
    together, as `F1` gives it. A label without positives, in truth and prediction, has 0, as in scikit-learn. The key is
    `<average>_f1`. For one class of several for each sample take `ClassF1`.

    Args:
        average: macro, micro or weighted.
        threshold: as in `BinaryAccuracy`; None for that of the loss.
        name: the key in the results.

    Predictions and labels have one shape (batch, ..., labels); `update` raises ValueError for others.

    >>> metric = nn.metric.LabelF1()
    >>> metric.update([[1, 0], [1, 1]], [[0.9, 0.6], [0.2, 0.8]])
    >>> round(metric.result(), 4)
    0.6667
    """

    def __init__(self, average: Average = "macro", threshold: float | None = None, name: str | None = None) -> None:
        self.average = arguments.one_of(self, "average", average, get_args(Average))
        self.threshold = None if threshold is None else _finite(self, threshold)
        self.name = f"{self.average}_f1"
        super().__init__(name)

    def reset(self) -> None:
        # Of each label: how many are rightly taken for positive, taken for it, and positive.
        self._counts: Array | None = None
        self._nan = False

    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        label, prediction = as_arrays(self, label, prediction)
        if prediction.ndim < 2 or label.shape != prediction.shape:
            raise ValueError(
                f"LabelF1 takes labels of the shape (batch, ..., labels) of the predictions, {prediction.shape}, got "
                f"{label.shape}; for one class of several take ClassF1"
            )
        labels = prediction.shape[-1]
        # As one column, so that two labels are no rows of two classes.
        each = self.truth_and_scores(label.reshape(-1), prediction.reshape(-1))
        truth, scores = (found.reshape(-1, labels) for found in each)
        counts = self._counts_of(labels)
        self._nan |= has_nan(scores)
        taken = scores > (self._boundary if self.threshold is None else self.threshold)
        for row, found in zip(counts, (taken & truth, taken, truth), strict=True):
            row += np.count_nonzero(found, axis=0)

    def result(self) -> float:
        if self._counts is None or self._nan or not len(self._counts[0]):
            return math.nan
        right, taken, positive = self._counts
        if self.average == "micro":
            return share(2 * float(right.sum()), float(taken.sum() + positive.sum()))
        # 1 for labels without any, of which the numerator is 0 as well.
        each = 2 * right / np.maximum(taken + positive, 1)
        if self.average == "macro":
            return float(each.mean())
        return share(float((each * positive).sum()), float(positive.sum()))

    def merge(self, other: Metric) -> None:
        """Add the counts of the other, which must have seen as many labels, if any."""
        other = self.mergeable(other)
        if other._counts is not None:
            counts = self._counts_of(other._counts.shape[1])
            # In place: it is the array that this metric keeps.
            counts += other._counts
        self._nan |= other._nan

    def _counts_of(self, labels: int) -> Array:
        if self._counts is None:
            self._counts = np.zeros((3, labels), np.int64)
        elif self._counts.shape[1] != labels:
            raise ValueError(f"LabelF1 has seen {self._counts.shape[1]} labels so far, got {labels}")
        return self._counts


class BinaryIoU(BinaryCounts):
    """Intersection over union of the positive outputs, TP / (TP + FP + FN); 0 where there are none: of masks, the overlap.

    Predictions, labels and `threshold` as in `BinaryAccuracy`. (Jaccard, "The distribution of the flora in the
    alpine zone", 1912.) Keras takes the mean with that of the negative ones unless `target_class_ids=[1]`.

    >>> metric = nn.metric.BinaryIoU()
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> metric.result()
    0.5
    """

    name = "iou"

    def value(self) -> float:
        return share(self._hits, self._taken + self._positives - self._hits)


class TruePositive(BinaryCounts):
    """The number of positive samples that were taken for positive: a count, over all samples since `reset`.

    Predictions, labels and `threshold` as in `BinaryAccuracy`.

    >>> metric = nn.metric.TruePositive()
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> metric.result()
    2.0
    """

    name = "true_positive"

    def value(self) -> float:
        return self._hits


class FalsePositive(BinaryCounts):
    """The number of negative samples that were taken for positive (false alarms): a count, over all samples since `reset`.

    Predictions, labels and `threshold` as in `BinaryAccuracy`.

    >>> metric = nn.metric.FalsePositive()
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> metric.result()
    1.0
    """

    name = "false_positive"

    def value(self) -> float:
        return self._taken - self._hits


class FalseNegative(BinaryCounts):
    """The number of positive samples that were taken for negative (misses): a count, over all samples since `reset`.

    Predictions, labels and `threshold` as in `BinaryAccuracy`.

    >>> metric = nn.metric.FalseNegative()
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> metric.result()
    1.0
    """

    name = "false_negative"

    def value(self) -> float:
        return self._positives - self._hits


class TrueNegative(BinaryCounts):
    """The number of negative samples that were taken for negative: a count, over all samples since `reset`.

    Predictions, labels and `threshold` as in `BinaryAccuracy`.

    >>> metric = nn.metric.TrueNegative()
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> metric.result()
    0.0
    """

    name = "true_negative"

    def value(self) -> float:
        return self._samples - self._taken - self._positives + self._hits

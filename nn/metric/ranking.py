"""Metrics of two classes that depend on the order of all scores: areas under curves, equal error rate, rates at a level."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from nn import arguments
from nn.arrays import Array
from nn.metric.metric import Metric, TwoClassMetric, has_nan


class Ranking(TwoClassMetric):
    """Metric that keeps the scores of positive and negative samples, one per sample, for a value that depends on their order.

    Predictions and labels as in `BinaryAccuracy`, where any scores will do, not only probabilities. The value is NaN where
    all samples are of one class, as in scikit-learn. A `result` after an `update` sorts all scores, n log n steps.
    """

    def reset(self) -> None:
        self._positive, self._negative = ScoreStore(), ScoreStore()
        self._nan = False

    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        """Keep the scores of one batch; raise ValueError for wrong shapes and labels."""
        truth, score = self.truth_and_scores(label, prediction)
        # The value is NaN from here on, whatever the scores.
        if has_nan(score):
            self._nan = True
        else:
            self._positive.add(score[truth])
            self._negative.add(score[~truth])

    def result(self) -> float:
        if self._nan or not len(self._positive) or not len(self._negative):
            return math.nan
        return self.value(self._positive.ascending(), self._negative.ascending())

    @abstractmethod
    def value(self, positive: Array, negative: Array) -> float:
        """Return the value for scores.

        Args:
            positive, negative: scores of the positive and of the negative samples, each ascending, at least one.
        """

    def merge(self, other: Metric) -> None:
        other = self.mergeable(other)
        self._positive.add(other._positive.ascending())
        self._negative.add(other._negative.ascending())
        self._nan |= other._nan


# Room of the first array, so that small batches do not make many.
_FIRST = 1024


class ScoreStore:
    """All scores added so far, in their own precision in one array that grows by doubling, sorted when asked for."""

    def __init__(self) -> None:
        self._room = np.empty(0, np.float32)
        self._count, self._sorted = 0, True

    def __len__(self) -> int:
        return self._count

    def add(self, scores: Array) -> None:
        """Append a copy of scores (n,); a wider type than before widens all, so that none is rounded."""
        total = self._count + len(scores)
        # The type of the first scores, where there were none.
        dtype = np.promote_types(self._room.dtype, scores.dtype) if self._count else scores.dtype
        if total > len(self._room) or dtype != self._room.dtype:
            # Doubled, so that many small batches copy each score about once in all, not once for every batch.
            wider = np.empty(max(total, 2 * self._count, _FIRST), dtype)
            wider[: self._count] = self._room[: self._count]
            self._room = wider
        self._room[self._count : total] = scores
        # Nothing added leaves the order.
        self._sorted &= not len(scores)
        self._count = total

    def ascending(self) -> Array:
        """Return the scores in ascending order, a view that is valid until the next `add`."""
        scores = self._room[: self._count]
        if not self._sorted:
            # In place: the order of arrival is of no use.
            scores.sort()
            self._sorted = True
        return scores


class AreaUnderCurve(Ranking):
    """Area under the ROC curve: the probability that a positive sample scores higher than a negative one, a tie being half.

    AUC = (sum over pairs of [p > n] + [p = n] / 2) / (P N), counted in integers over all samples, not averaged over batches
    (Hanley and McNeil, "The Meaning and Use of the Area under a ROC Curve", 1982). It equals scikit-learn's `roc_auc_score`.

    >>> metric = nn.metric.AreaUnderCurve()
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> round(metric.result(), 4)
    0.6667
    """

    name = "auc"

    def value(self, positive: Array, negative: Array) -> float:
        """Return twice the pairs won / 2 P N, without a rounding but the last."""
        # A pair won counts in both, a tie in the second only: so wins twice and ties once.
        below = negative.searchsorted(positive, side="left").sum()
        not_above = negative.searchsorted(positive, side="right").sum()
        return (int(below) + int(not_above)) / (2 * len(positive) * len(negative))


class EqualErrorRate(Ranking):
    """The error rate at the threshold where as large a share of negatives is accepted as of positives is refused.

    FPR(t) = share of the negatives with a score >= t, FNR(t) = share of the positives with a score < t. Between thresholds
    that occur the ROC curve is a straight line (Fawcett, "An Introduction to ROC Analysis", 2006), so that there is exactly
    one point where both are equal: its rate is the result, 0 for perfect scores, 1/2 for equal ones.

    >>> metric = nn.metric.EqualErrorRate()
    >>> metric.update([0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9])
    >>> metric.result()
    0.5
    """

    name = "eer"

    def value(self, positive: Array, negative: Array) -> float:
        """Return the crossing of the ROC curve with FPR = 1 - TPR, computed in integers."""
        # Descending: the share of accepted samples grows along them.
        thresholds = np.unique(np.concatenate((positive, negative)))[::-1]
        # Scores equal to the threshold are accepted.
        false = len(negative) - negative.searchsorted(thresholds)
        true = len(positive) - positive.searchsorted(thresholds)
        size = len(positive) * len(negative)
        # FPR - FNR times P N, which grows along the curve from -P N to P N
        excess = false * len(positive) + true * len(negative) - size
        # Python integers, as the product of three counts below may exceed 64 bits.
        stop = int(np.argmax(excess >= 0))
        false_after, excess_after = int(false[stop]), int(excess[stop])
        # Before the first threshold nothing is accepted.
        false_before, excess_before = (int(false[stop - 1]), int(excess[stop - 1])) if stop else (0, -size)
        step = excess_after - excess_before
        # The crossing on the straight line between both points.
        return (false_before * step - excess_before * (false_after - false_before)) / (len(negative) * step)


class AveragePrecision(Ranking):
    """Area under the curve of precision over recall, as steps: sum over the thresholds of (R_n - R_(n-1)) P_n.

    For few positives among many negatives, where the ROC curve hides false alarms (Davis and Goadrich, "The relationship
    between precision-recall and ROC curves", ICML 2006). It equals scikit-learn's `average_precision_score`; Keras's
    `AUC(curve="PR")` interpolates between 200 thresholds.

    >>> metric = nn.metric.AveragePrecision()
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> round(metric.result(), 4)
    0.9167
    """

    name = "pr_auc"

    def value(self, positive: Array, negative: Array) -> float:
        """Return the sum of the precisions at the score of each positive sample, over their number."""
        # Recall rises at the scores of positive samples only, by 1 / P at each; equal ones share a threshold.
        true = len(positive) - positive.searchsorted(positive)
        false = len(negative) - negative.searchsorted(positive)
        # `fsum` rounds once, so that the order of the scores within a tie or in batches leaves no trace.
        return math.fsum(true / (true + false)) / len(positive)


class BestAtLevel(Ranking):
    """The best of one rate over all thresholds at which another one reaches a level.

    A score equal to the threshold is taken for positive; one threshold lies above all scores, so that nothing is. Keras looks
    at 200 thresholds from 0 to 1. A result is 0 where no threshold reaches the level.
    """

    def value(self, positive: Array, negative: Array) -> float:
        """Return the largest first number of `_rates` where the second reaches the level."""
        thresholds = np.unique(np.concatenate((positive, negative)))
        true = np.append(len(positive) - positive.searchsorted(thresholds), 0)
        false = np.append(len(negative) - negative.searchsorted(thresholds), 0)
        rate, other, level = self._rates(true, false, len(positive), len(negative))
        reached = other >= level
        return float(rate[reached].max()) if reached.any() else 0.0

    @abstractmethod
    def _rates(self, true: Array, false: Array, positives: int, negatives: int) -> tuple[Array, Array, float]:
        """Return the rate, the other one, and its level, from the positives and negatives taken at each threshold."""


def _precision(true: Array, false: Array) -> Array:
    # 0 where nothing is taken for positive.
    return np.asarray(true / np.maximum(true + false, 1))


class PrecisionAtRecall(BestAtLevel, configured=True):
    """The largest precision at which the recall is at least `recall`; see `Precision` and `Recall`.

    Predictions and labels as in `AreaUnderCurve`.

    Args:
        recall: the level, from 0 to 1.
        name: the key in the results.

    >>> metric = nn.metric.PrecisionAtRecall(0.9)
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> metric.result()
    0.75
    """

    name = "precision_at_recall"

    def __init__(self, recall: float = 0.5, name: str | None = None) -> None:
        self.recall = arguments.share(self, "recall", recall)
        super().__init__(name)

    def _rates(self, true: Array, false: Array, positives: int, negatives: int) -> tuple[Array, Array, float]:
        return _precision(true, false), true / positives, self.recall


class RecallAtPrecision(BestAtLevel, configured=True):
    """The largest recall at which the precision is at least `precision`; see `Precision` and `Recall`.

    Predictions and labels as in `AreaUnderCurve`.

    Args:
        precision: the level, from 0 to 1.
        name: the key in the results.

    >>> metric = nn.metric.RecallAtPrecision(0.9)
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> round(metric.result(), 4)
    0.6667
    """

    name = "recall_at_precision"

    def __init__(self, precision: float = 0.5, name: str | None = None) -> None:
        self.precision = arguments.share(self, "precision", precision)
        super().__init__(name)

    def _rates(self, true: Array, false: Array, positives: int, negatives: int) -> tuple[Array, Array, float]:
        return true / positives, _precision(true, false), self.precision


class SensitivityAtSpecificity(BestAtLevel, configured=True):
    """The largest sensitivity, share of positives found, at which at least `specificity` of the negatives are refused.

    Predictions and labels as in `AreaUnderCurve`.

    Args:
        specificity: the level, from 0 to 1.
        name: the key in the results.

    >>> metric = nn.metric.SensitivityAtSpecificity(0.9)
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> round(metric.result(), 4)
    0.6667
    """

    name = "sensitivity_at_specificity"

    def __init__(self, specificity: float = 0.5, name: str | None = None) -> None:
        self.specificity = arguments.share(self, "specificity", specificity)
        super().__init__(name)

    def _rates(self, true: Array, false: Array, positives: int, negatives: int) -> tuple[Array, Array, float]:
        return true / positives, 1 - false / negatives, self.specificity


class SpecificityAtSensitivity(BestAtLevel, configured=True):
    """The largest specificity, share of negatives refused, at which at least `sensitivity` of the positives are found.

    Predictions and labels as in `AreaUnderCurve`.

    Args:
        sensitivity: the level, from 0 to 1.
        name: the key in the results.

    >>> metric = nn.metric.SpecificityAtSensitivity(0.6)
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> metric.result()
    1.0
    """

    name = "specificity_at_sensitivity"

    def __init__(self, sensitivity: float = 0.5, name: str | None = None) -> None:
        self.sensitivity = arguments.share(self, "sensitivity", sensitivity)
        super().__init__(name)

    def _rates(self, true: Array, false: Array, positives: int, negatives: int) -> tuple[Array, Array, float]:
        return 1 - false / negatives, true / positives, self.sensitivity

"""What metrics keep that depend on the order of all scores."""

import math
from abc import abstractmethod

from numpy.typing import ArrayLike

from nn.arrays import Array
from nn.metric.binary import truth_and_scores
from nn.metric.metric import Metric
from nn.metric.not_a_number import has_nan
from nn.metric.pairs import as_arrays
from nn.metric.score_store import ScoreStore


class Ranking(Metric):
    """Keeps the scores of positive and negative samples, one number per sample, for a value that depends on their order.

    Predictions and labels as in `BinaryAccuracy`, where any scores will do, not only probabilities. The value is NaN where
    all samples are of one class, as in scikit-learn. A `result` after an `update` sorts all scores, n log n steps.
    """

    def reset(self) -> None:
        """Forget all samples, and their memory."""
        self._positive, self._negative = ScoreStore(), ScoreStore()
        self._nan = False

    def update(self, label: ArrayLike, prediction: ArrayLike) -> None:
        """Keep the scores of one batch; raise ValueError for wrong shapes and labels."""
        label, prediction = as_arrays(self, label, prediction)
        truth, score = truth_and_scores(self, label, prediction)
        if has_nan(score):
            self._nan = True
        else:
            self._positive.add(score[truth])
            self._negative.add(score[~truth])

    def result(self) -> float:
        """Return the value of the order."""
        if self._nan or not len(self._positive) or not len(self._negative):
            return math.nan
        return self.value(self._positive.ascending(), self._negative.ascending())

    @abstractmethod
    def value(self, positive: Array, negative: Array) -> float:
        """Return the value for the scores of positive and negative samples, each ascending, at least one."""

    def merge(self, other: Metric) -> None:
        """Add the scores of the other."""
        other = self.mergeable(other)
        self._positive.add(other._positive.ascending())
        self._negative.add(other._negative.ascending())
        self._nan |= other._nan

"""Equal error rate."""

import numpy as np

from nn.arrays import Array
from nn.metric.ranking import Ranking


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
        thresholds = np.unique(np.concatenate((positive, negative)))[::-1]
        false = len(negative) - negative.searchsorted(thresholds)
        true = len(positive) - positive.searchsorted(thresholds)
        size = len(positive) * len(negative)
        # FPR - FNR times P N, which grows along the curve from -P N to P N
        excess = false * len(positive) + true * len(negative) - size
        stop = int(np.argmax(excess >= 0))
        false_after, excess_after = int(false[stop]), int(excess[stop])
        false_before, excess_before = (int(false[stop - 1]), int(excess[stop - 1])) if stop else (0, -size)
        step = excess_after - excess_before
        return (false_before * step - excess_before * (false_after - false_before)) / (len(negative) * step)

"""Area under the ROC curve."""

from nn.arrays import Array
from nn.metric.ranking import Ranking


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
        below = negative.searchsorted(positive, side="left").sum()
        not_above = negative.searchsorted(positive, side="right").sum()
        return (int(below) + int(not_above)) / (2 * len(positive) * len(negative))

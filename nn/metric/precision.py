"""Precision."""

from nn.metric.binary_counts import BinaryCounts, share


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
        """Return TP / (TP + FP)."""
        return share(self.true_positives, self.true_positives + self.false_positives)

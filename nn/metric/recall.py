"""Recall."""

from nn.metric.binary_counts import BinaryCounts, share


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
        """Return TP / (TP + FN)."""
        return share(self.true_positives, self.true_positives + self.false_negatives)

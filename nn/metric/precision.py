"""Precision."""

from nn.metric.binary_counts import BinaryCounts, share


class Precision(BinaryCounts):
    """The share of positive samples among those taken for positive, TP / (TP + FP); 0 where none was taken for positive.

    Predictions, labels and `threshold` as in `BinaryAccuracy`.
    """

    name = "precision"

    def value(self) -> float:
        """Return TP / (TP + FP)."""
        return share(self.true_positives, self.true_positives + self.false_positives)

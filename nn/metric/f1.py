"""The F1 score."""

from nn.metric.binary_counts import BinaryCounts, share


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
        """Return 2 TP / (2 TP + FP + FN)."""
        return share(2 * self.true_positives, 2 * self.true_positives + self.false_positives + self.false_negatives)

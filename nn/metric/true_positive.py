"""True positives."""

from nn.metric.binary_counts import BinaryCounts


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
        """Return the count."""
        return self.true_positives

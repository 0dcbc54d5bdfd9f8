"""False negatives."""

from nn.metric.binary_counts import BinaryCounts


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
        """Return the count."""
        return self.false_negatives

"""True negatives."""

from nn.metric.binary_counts import BinaryCounts


class TrueNegative(BinaryCounts):
    """The number of negative samples that were taken for negative: a count, over all samples since `reset`.

    Predictions, labels and `threshold` as in `BinaryAccuracy`.

    >>> metric = nn.metric.TrueNegative()
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> metric.result()
    0.0
    """

    name = "true_negative"

    def value(self) -> float:
        """Return the count."""
        return self.true_negatives

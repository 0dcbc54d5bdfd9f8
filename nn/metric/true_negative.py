"""True negatives."""

from nn.metric.binary_counts import BinaryCounts


class TrueNegative(BinaryCounts):
    """The number of negative samples that were taken for negative: a count, over all samples since `reset`.

    Predictions, labels and `threshold` as in `BinaryAccuracy`.
    """

    name = "true_negative"

    def value(self) -> float:
        """Return the count."""
        return self.true_negatives

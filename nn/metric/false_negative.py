"""False negatives."""

from nn.metric.binary_counts import BinaryCounts


class FalseNegative(BinaryCounts):
    """The number of positive samples that were taken for negative (misses): a count, over all samples since `reset`.

    Predictions, labels and `threshold` as in `BinaryAccuracy`.
    """

    name = "false_negative"

    def value(self) -> float:
        """Return the count."""
        return self.false_negatives

"""True positives."""

from nn.metric.binary_counts import BinaryCounts


class TruePositive(BinaryCounts):
    """The number of positive samples that were taken for positive: a count, over all samples since `reset`.

    Predictions, labels and `threshold` as in `BinaryAccuracy`.
    """

    name = "true_positive"

    def value(self) -> float:
        """Return the count."""
        return self.true_positives

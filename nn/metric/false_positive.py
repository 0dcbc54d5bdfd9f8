"""False positives."""

from nn.metric.binary_counts import BinaryCounts


class FalsePositive(BinaryCounts):
    """The number of negative samples that were taken for positive (false alarms): a count, over all samples since `reset`.

    Predictions, labels and `threshold` as in `BinaryAccuracy`.
    """

    name = "false_positive"

    def value(self) -> float:
        """Return the count."""
        return self.false_positives

"""False positives."""

from nn.metric.binary_counts import BinaryCounts


class FalsePositive(BinaryCounts):
    """The number of negative samples that were taken for positive (false alarms): a count, over all samples since `reset`.

    Predictions, labels and `threshold` as in `BinaryAccuracy`.

    >>> metric = nn.metric.FalsePositive()
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> metric.result()
    1.0
    """

    name = "false_positive"

    def value(self) -> float:
        """Return the count."""
        return self.false_positives

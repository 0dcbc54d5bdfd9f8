"""Accuracy over two classes."""

from nn.metric.binary_counts import BinaryCounts


class BinaryAccuracy(BinaryCounts):
    """The share of samples that were taken for what they are, (TP + TN) / samples.

    A score above `threshold` is taken for positive. Predictions are scores (batch,) or (batch, 1), such as probabilities, with
    labels 0 and 1 (or -1 and 1) of either shape; or rows of two probabilities (batch, 2), of which the second is the score,
    with labels 0 and 1 or one-hot rows (batch, 2). `update` raises ValueError for anything else.

    >>> metric = nn.metric.BinaryAccuracy()
    >>> metric.update([1, 0, 1, 1], [0.9, 0.6, 0.8, 0.3])
    >>> metric.result()
    0.5
    """

    name = "accuracy"

    def value(self) -> float:
        """Return (TP + TN) / samples."""
        return (self.true_positives + self.true_negatives) / self._samples

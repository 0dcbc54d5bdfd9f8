"""Accuracy over classes."""

import math

import numpy as np

from nn.arrays import Array
from nn.metric.metric import Metric


class CategoricalAccuracy(Metric):
    """The share of samples whose largest output is at the label's class.

    Predictions (batch, classes); labels class numbers (batch,) or one-hot rows (batch, classes).
    """

    name = "accuracy"

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        self._right = 0
        self._samples = 0

    def update(self, label: Array, prediction: Array) -> None:
        """Count one batch; raise ValueError where the prediction is not one row of classes per sample."""
        if prediction.ndim != 2 or prediction.shape[1] < 2:
            raise ValueError(f"CategoricalAccuracy takes predictions (batch, classes), got shape {prediction.shape}")
        true = label if label.ndim == 1 else label.argmax(axis=1)
        self._right += int(np.count_nonzero(prediction.argmax(axis=1) == true))
        self._samples += len(prediction)

    def result(self) -> float:
        """Return right / samples."""
        return self._right / self._samples if self._samples else math.nan

"""Categorical cross-entropy of scores."""

from typing import Any, ClassVar

import numpy as np

from nn.activation import Softmax
from nn.arrays import Array, Shape
from nn.loss.loss import Loss, check_length
from nn.operation import Operation


class Cross_Entropy_With_Softmax(Loss):
    """Mean over the batch of -sum_k y_k log softmax(z)_k, with z the scores (batch, classes).

    Labels are class numbers (batch,) or one row of probabilities per sample, usually one-hot (batch, classes).
    The softmax belongs to the loss. A model may end in the scores, or in `Softmax`, which is then not computed twice:
    the loss works on the scores, its gradient is (softmax(z) - y) / batch, and neither overflows; predictions are
    probabilities.
    """

    absorbs: ClassVar[type[Operation] | None] = Softmax

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return class numbers (batch,) or rows (batch, classes)."""
        if len(shape) != 2:
            raise ValueError(f"{type(self).__name__} takes outputs of shape (batch, classes), got {shape}")
        check_length(label, shape[0])
        classes = shape[1]
        if label.shape == shape:
            return self._rows(label, dtype)
        if label.shape not in ((shape[0],), (shape[0], 1)) or label.dtype.kind not in "iu":
            raise ValueError(
                f"{type(self).__name__} labels must be integers of shape ({shape[0]},) or rows of shape {shape}, "
                f"got {label.dtype} of shape {label.shape}"
            )
        numbers = label.reshape(-1)
        low, high = int(numbers.min()), int(numbers.max())
        if low < 0 or high >= classes:
            raise ValueError(
                f"{type(self).__name__} labels must lie in 0..{classes - 1} for {classes} outputs, got {low}..{high}"
            )
        return numbers

    def _rows(self, label: Array, dtype: np.dtype[Any]) -> Array:
        rows = np.asarray(label, dtype)
        sums = rows.sum(axis=1)
        # written so that NaN counts as wrong
        wrong = np.flatnonzero(~(np.abs(sums - 1) <= 1e-3))
        if wrong.size or rows.min() < 0:
            found = f"row {wrong[0]} sums to {sums[wrong[0]]:g}" if wrong.size else "a negative one"
            raise ValueError(f"{type(self).__name__} label rows must hold probabilities that sum to 1, got {found}")
        return rows

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the probabilities."""
        self._probabilities = np.empty(shape, dtype)
        self._row = np.empty((shape[0], 1), dtype)
        self._samples = np.arange(shape[0])
        self._ones = np.ones((shape[1], 1), dtype)

    def value(self, label: Array, output: Array) -> float:
        """Return mean(log sum_k exp(z_k) - z_y)."""
        score, row = self._probabilities, self._row
        # for rows as short as these NumPy finds a place faster than a maximum, and BLAS sums faster than NumPy
        row[:, 0] = output[self._samples, output.argmax(axis=1)]
        np.subtract(output, row, out=score)
        chosen = score[self._samples, label].sum() if label.ndim == 1 else np.vdot(score, label)
        np.exp(score, out=score)
        np.matmul(score, self._ones, out=row)
        np.divide(score, row, out=score)
        return (float(np.log(row, out=row).sum()) - float(chosen)) / len(output)

    def gradient(self, label: Array, output: Array, out: Array) -> None:
        """Write (softmax(z) - y) / batch."""
        share = 1 / len(output)
        if label.ndim == 1:
            np.multiply(self._probabilities, share, out=out)
            out[self._samples, label] -= share
        else:
            np.subtract(self._probabilities, label, out=out)
            np.multiply(out, share, out=out)

    def prediction(self, output: Array) -> Array:
        """Return softmax(z)."""
        return self._probabilities

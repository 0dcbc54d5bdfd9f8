"""Categorical cross-entropy of probabilities."""

import math
from typing import Any

import numpy as np

from nn.arrays import Array, Shape
from nn.loss.labels import classes
from nn.loss.loss import Loss

_ROUNDING = 1e-2
"""How far from 1 the sum of a row may lie; float32 rounds thousands of classes much better than this."""


class Cross_Entropy(Loss):
    """Mean over the batch of -sum_k y_k log p_k, with p the probabilities (batch, classes) that the model gives.

    Outputs may also be (batch, ..., classes), one row for each position of a sample, whose loss is the mean over its
    positions. Labels are class numbers (batch, ...) or rows of probabilities, usually one-hot, (batch, ..., classes).

    The logarithm is that of max(p, e) with e the machine epsilon of the type (1.2e-7 in float32, 2.2e-16 in float64), plus
    (p - e) / e below e, its tangent there: so a probability of 0 costs much, but not infinitely much, and the derivative
    -y / max(p, e) belongs to the value everywhere. Where the model ends in a softmax, `Cross_Entropy_With_Softmax` is
    faster and exact for every score. Raises ValueError for labels that are out of range, of another shape, or no
    probabilities, and for outputs that are none: the first batch of each size shows whether its rows sum to 1.

    >>> loss, output = nn.loss.Cross_Entropy(), np.array([[0.5, 0.5], [0.75, 0.25]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([0, 1]), output), 4)
    1.0397
    """

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return class numbers (batch, ...) or rows (batch, ..., classes)."""
        return classes(self, label, shape, dtype)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the clipped probabilities and their logarithms."""
        super().allocate(shape, dtype)
        self._positions = math.prod(shape[1:-1])
        rows, count = shape[0] * self._positions, shape[-1]
        self._starts = np.arange(0, rows * count, count)
        self._places = np.empty(rows, np.intp)
        self._bound = float(np.finfo(dtype).eps)
        self._clipped, self._logarithm, self._tangent = (np.empty(shape, dtype) for _ in range(3))
        self._chosen = np.empty((4, *shape[:-1]), dtype)
        self._losses = np.empty(shape[0], dtype)
        self._checked = False

    def each(self, label: Array, output: Array) -> Array:
        """Return -sum_k y_k log p_k for each sample, the mean over its positions."""
        if not self._checked:
            self._check(output)
            self._checked = True
        if label.ndim < output.ndim:
            chosen, clipped, logarithm, tangent = self._chosen
            np.add(label.reshape(-1), self._starts, out=self._places)
            # mode: 'raise' would go through a buffer
            output.reshape(-1).take(self._places, out=chosen.reshape(-1), mode="clip")
            _log(chosen, self._bound, clipped, tangent, logarithm)
        else:
            logarithm = self._logarithm
            _log(output, self._bound, self._clipped, self._tangent, logarithm)
            np.multiply(logarithm, label, out=logarithm)
        np.add.reduce(logarithm.reshape(len(output), -1), axis=1, out=self._losses)
        return np.divide(self._losses, -self._positions, out=self._losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        """Write -share * y / max(p, e) / positions."""
        share /= -self._positions
        if label.ndim < output.ndim:
            target = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
            target.fill(0)
            target.reshape(-1)[self._places] = np.divide(1, self._chosen[1], out=self._chosen[3]).reshape(-1)
            np.multiply(target, share, out=out)
        else:
            np.divide(label, self._clipped, out=out)
            np.multiply(out, share, out=out)

    def _check(self, output: Array) -> None:
        """Raise ValueError for rows of numbers that are no probabilities; NaN is not what this looks for."""
        sums = output.sum(axis=-1).reshape(-1)
        wrong = np.flatnonzero((np.abs(sums - 1) > _ROUNDING) | (output.min(axis=-1).reshape(-1) < -_ROUNDING))
        if wrong.size:
            row = output.reshape(-1, output.shape[-1])[wrong[0]]
            raise ValueError(
                f"{type(self).__name__} takes rows of probabilities that sum to 1, as Softmax gives them, got a row of "
                f"numbers from {row.min():g} to {row.max():g} whose sum is {sums[wrong[0]]:g}; for scores take "
                "Cross_Entropy_With_Softmax"
            )


def _log(p: Array, bound: float, clipped: Array, tangent: Array, out: Array) -> None:
    """Write max(p, bound), what the tangent adds below the bound, and the sum of that and log(max(p, bound))."""
    np.maximum(p, bound, out=clipped)
    np.subtract(p, clipped, out=tangent)
    np.divide(tangent, bound, out=tangent)
    np.log(clipped, out=out)
    np.add(out, tangent, out=out)

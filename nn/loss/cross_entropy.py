"""Categorical cross-entropy, of probabilities or of scores."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.activation.sigmoids import Softmax
from nn.arrays import Array, Shape
from nn.loss.loss import ClassLoss, Taken, ignored
from nn.operation.operation import Operation

#: How far from 1 the sum of a row may lie; float32 rounds thousands of classes much better than this.
_ROUNDING = 1e-2


class Cross_Entropy(ClassLoss, configured=True):
    """Mean over the batch of -sum_k y_k log p_k, with p the probabilities (batch, classes) that the model gives.

    Outputs may also be (batch, ..., classes), one row for each position of a sample; the loss of a sample is the mean over its
    positions. Labels are class numbers (batch, ...) or rows of probabilities, usually one-hot, (batch, ..., classes).

    The logarithm is that of max(p, e) with e the machine epsilon of the type (1.2e-7 in float32, 2.2e-16 in float64), plus
    (p - e) / e below e, its tangent there: so a probability of 0 costs much, but not infinitely much, and the derivative
    -y / max(p, e) belongs to the value everywhere. Where the model ends in a softmax, `Cross_Entropy_With_Softmax` is
    faster and exact for every score. Samples, or positions, with the label `ignore_index` do not count: the loss is the mean
    over the others. Raises ValueError for labels that are out of range, of another shape, or no
    probabilities, and for outputs that are none: the first batch of each size shows whether its rows sum to 1.

    >>> loss, output = nn.loss.Cross_Entropy(), np.array([[0.5, 0.5], [0.75, 0.25]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([0, 1]), output), 4)
    1.0397
    """

    _takes: ClassVar[Taken] = "class probabilities"
    _by_sample: ClassVar[bool] = True

    @arguments.also(ignore_class="ignore_index")
    def __init__(self, ignore_index: int | None = None) -> None:
        self.ignore_index = ignored(self, ignore_index)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._positions = math.prod(shape[1:-1])
        rows, count = shape[0] * self._positions, shape[-1]
        # Where each row begins in the flat array: a label added to it is the place of its class.
        self._starts = np.arange(0, rows * count, count)
        self._places = np.empty(rows, np.intp)
        self._bound = float(np.finfo(dtype).eps)
        self._clipped, self._logarithm, self._tangent = (self._memory.empty(shape, dtype) for _ in range(3))
        # For class numbers, of which only the chosen outputs count: these, max(p, e), the logarithm, and the tangent,
        # whose place takes 1 / max(p, e) in `derive`.
        self._chosen = np.empty((4, *shape[:-1]), dtype)
        self._losses = np.empty(shape[0], dtype)
        self._checked = False

    def each(self, label: Array, output: Array) -> Array:
        if not self._checked:
            self._check(output)
            self._checked = True
        if label.ndim < output.ndim:
            chosen, clipped, logarithm, tangent = self._chosen
            np.add(label.reshape(-1), self._starts, out=self._places)
            # mode: 'raise' would go through a buffer
            output.reshape(-1).take(self._places, out=chosen.reshape(-1), mode="clip")
            tangent_log(chosen, self._bound, clipped, tangent, logarithm)
        else:
            logarithm = self._logarithm
            tangent_log(output, self._bound, self._clipped, self._tangent, logarithm)
            np.multiply(logarithm, label, out=logarithm)
        np.add.reduce(logarithm.reshape(len(output), -1), axis=1, out=self._losses)
        return np.divide(self._losses, -self._positions, out=self._losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        # Negative, as the loss is minus the logarithm.
        share /= -self._positions
        if label.ndim < output.ndim:
            # A reshape of a strided array would be a copy, and what is written there lost.
            target = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
            target.fill(0)
            # All other classes have no weight in the label, and so no gradient.
            target.reshape(-1)[self._places] = np.divide(1, self._chosen[1], out=self._chosen[3]).reshape(-1)
            np.multiply(target, share, out=out)
        else:
            np.divide(label, self._clipped, out=out)
            np.multiply(out, share, out=out)

    def _check(self, output: Array) -> None:
        """Raise ValueError for rows of numbers that are no probabilities; rows with NaN pass."""
        sums = output.sum(axis=-1).reshape(-1)
        wrong = np.flatnonzero((np.abs(sums - 1) > _ROUNDING) | (output.min(axis=-1).reshape(-1) < -_ROUNDING))
        if wrong.size:
            row = output.reshape(-1, output.shape[-1])[wrong[0]]
            raise ValueError(
                f"{type(self).__name__} takes rows of probabilities that sum to 1, as Softmax gives them, got a row of "
                f"numbers from {row.min():g} to {row.max():g} whose sum is {sums[wrong[0]]:g}; for scores take "
                "Cross_Entropy_With_Softmax"
            )


def tangent_log(p: Array, bound: float, clipped: Array, tangent: Array, out: Array) -> None:
    """Write max(p, bound), the share of the tangent below the bound, and the sum of that and log(max(p, bound))."""
    # In an order that needs no further array: the tangent reads both p and the clipped p.
    np.maximum(p, bound, out=clipped)
    np.subtract(p, clipped, out=tangent)
    np.divide(tangent, bound, out=tangent)
    np.log(clipped, out=out)
    np.add(out, tangent, out=out)


class Cross_Entropy_With_Softmax(ClassLoss, configured=True):
    """Mean over the batch of -sum_k y_k log softmax(z)_k, with z the scores (batch, classes).

    Scores may also be (batch, ..., classes), one row for each position of a sample; the loss of a sample is the mean over its
    positions. Labels are class numbers (batch, ...) or rows of probabilities, usually one-hot, (batch, ..., classes). With
    label smoothing s, 0 <= s < 1, the loss takes (1 - s) y + s / classes for y (Szegedy et al., Rethinking the Inception
    architecture for computer vision, CVPR 2016).

    The softmax belongs to the loss. A model may end in the scores, or in `Softmax`, which is then not computed twice:
    the loss works on the scores, its gradient is (softmax(z) - y) / batch, and neither overflows; predictions are
    probabilities. A score of -inf masks a class: it costs nothing, or infinitely much where the label or `label_smoothing` lays
    weight on it. Samples, or positions, with the label `ignore_index` do not count: the loss is the mean over the others.

    Args:
        label_smoothing: s, from 0 to below 1.
        ignore_index: label of samples, or positions, that do not count; default: all count.

    Raises ValueError for labels that are out of range, of another shape, or no probabilities.

    >>> loss, output = nn.loss.Cross_Entropy_With_Softmax(), np.array([[2.0, 2.0], [3.0, 3.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([0, 1]), output), 4)
    0.6931
    """

    _takes: ClassVar[Taken] = "class scores"
    _by_sample: ClassVar[bool] = True
    absorbs: ClassVar[type[Operation] | None] = Softmax

    @arguments.also(ignore_class="ignore_index")
    def __init__(self, label_smoothing: float = 0.0, ignore_index: int | None = None) -> None:
        self.label_smoothing = arguments.number(self, "label_smoothing", label_smoothing, 0, 1)
        self.ignore_index = ignored(self, ignore_index)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._positions = math.prod(shape[1:-1])
        rows, count = shape[0] * self._positions, shape[-1]
        self._probabilities = self._memory.empty((rows, count), dtype)
        self._shaped = self._probabilities.reshape(shape)
        self._row = np.empty((rows, 1), dtype)
        self._flat_row = self._row.reshape(-1)
        self._starts = np.arange(0, rows * count, count)
        self._places = np.empty(rows, np.intp)
        self._chosen = np.empty(rows, dtype)
        self._scores = np.empty((rows, 1), dtype)
        self._ones = np.ones((count, 1), dtype)
        self._losses = np.empty(shape[0], dtype)
        self._mean = np.full(self._positions, 1 / self._positions, dtype)

    def each(self, label: Array, output: Array) -> Array:
        # `chosen` and z are views of work space; all that reads z comes before `_normalize`, which overwrites it.
        z, chosen = self._shift(output), self._chosen
        if label.ndim < output.ndim:
            np.add(label.reshape(-1), self._starts, out=self._places)
            z.reshape(-1).take(self._places, out=chosen, mode="clip")
        else:
            label = label.reshape(z.shape)
            # The sums of products of each row without an array of the products.
            np.einsum("ij,ij->i", z, label, out=chosen)
            # One NaN makes the sum NaN, which is one look; seldom is more to be done.
            if math.isnan(np.add.reduce(chosen)):
                np.einsum("ij,ij->i", _unmasked(z, label), label, out=chosen)
        if self.label_smoothing:
            # The sum of all scores of a row, whose share each class gets by smoothing.
            np.matmul(z, self._ones, out=self._scores)
            np.multiply(self._scores, self.label_smoothing / z.shape[1], out=self._scores)
            np.multiply(chosen, 1 - self.label_smoothing, out=chosen)
            np.add(chosen, self._scores.reshape(-1), out=chosen)
        losses = np.subtract(self._normalize(), chosen, out=chosen)
        if self._positions == 1:
            return losses
        return np.matmul(losses.reshape(-1, self._positions), self._mean, out=self._losses)

    def sum_losses(self, label: Array, output: Array) -> float:
        """Return the sum over the samples; with rows as labels by one product of vectors."""
        if label.ndim < output.ndim or self.label_smoothing:
            return super().sum_losses(label, output)
        z = self._shift(output)
        # Labels weigh the shifted scores of all rows in one product.
        chosen = float(np.vdot(z, label))
        if math.isnan(chosen):
            chosen = float(np.vdot(_unmasked(z, label.reshape(z.shape)), label))
        return (float(np.add.reduce(self._normalize())) - chosen) / self._positions

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        share /= self._positions
        smoothing, probabilities = self.label_smoothing, self._shaped
        if label.ndim == out.ndim:
            wanted = label
            if smoothing:
                # In `out`, which is free: the probabilities lie in work space.
                wanted = np.multiply(label, 1 - smoothing, out=out)
                np.add(wanted, smoothing / out.shape[-1], out=wanted)
            np.subtract(probabilities, wanted, out=out)
            np.multiply(out, share, out=out)
            return
        # one pass less where all samples weigh the same
        scale = share if isinstance(share, float) else 1.0
        target = out if out.flags.c_contiguous else np.empty_like(probabilities)
        np.multiply(probabilities, scale, out=target)
        # One place for each row, so none is named twice.
        target.reshape(-1)[self._places] -= scale * (1 - smoothing)
        if smoothing:
            np.subtract(target, scale * smoothing / out.shape[-1], out=target)
        if not isinstance(share, float):
            np.multiply(target, share, out=target)
        if target is not out:
            np.copyto(out, target)

    def prediction(self, output: Array) -> Array:
        return self._shaped

    def _shift(self, output: Array) -> Array:
        """Return the scores less the maximum of their row."""
        row, places = self._row, self._places
        # for rows as short as these NumPy finds a place faster than a maximum, and BLAS sums faster than NumPy
        scores = output.reshape(self._probabilities.shape)
        scores.argmax(axis=1, out=places)
        np.add(places, self._starts, out=places)
        # mode: 'raise' would go through a buffer
        scores.reshape(-1).take(places, out=self._flat_row, mode="clip")
        return np.subtract(scores, row, out=self._probabilities)

    def _normalize(self) -> Array:
        """Turn shifted scores into probabilities; return log sum_k exp(z_k) of each row."""
        z, row = self._probabilities, self._row
        np.exp(z, out=z)
        # A product with ones sums rows faster than a reduction of NumPy over short rows.
        np.dot(z, self._ones, row)
        np.divide(z, row, out=z)
        # The sum is 1 at least, since the greatest shifted score is 0: the logarithm is neither negative nor infinite.
        np.log(row, out=row)
        return self._flat_row


def _unmasked(z: Array, label: Array) -> Array:
    """Return scores with 0 for those that the label does not look at: -inf among them would give NaN, 0 times infinity."""
    return np.where(label == 0, z.dtype.type(0), z)

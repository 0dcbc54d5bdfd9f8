"""Losses of likeness: of distributions, of directions, of sets, and of pairs and triplets of samples."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array, Shape
from nn.loss.cross_entropy import tangent_log
from nn.loss.decisions import BinaryLoss
from nn.loss.loss import Loss, Taken, check_length, probability_rows, targets


class KLDivergence(Loss):
    """Mean over the batch of sum_k y_k log(y_k / p_k): the divergence of the probabilities p of the model from those of the
    label (Kullback and Leibler, 1951).

    Outputs are rows (batch, ..., classes) of probabilities, as `Softmax` gives them, labels rows of the same shape that sum
    to 1; the loss of a sample is the mean over its positions. Below the machine epsilon the logarithm of p is its tangent, as
    in `Cross_Entropy`. Raises ValueError for labels of another shape or that are no probabilities.

    >>> loss, output = nn.loss.KLDivergence(), np.array([[0.5, 0.5]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[0.25, 0.75]]), output), 4)
    0.1308
    """

    _takes: ClassVar[Taken] = "class probabilities"

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        return probability_rows(type(self).__name__, targets(self, label, shape, dtype), dtype)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._positions = math.prod(shape[1:-1])
        self._bound, self._least = float(np.finfo(dtype).eps), float(np.finfo(dtype).tiny)
        self._clipped, self._tangent, self._logarithm = self._memory.empty((3, *shape), dtype)
        self._losses = np.empty(shape[0], dtype)

    def each(self, label: Array, output: Array) -> Array:
        tangent_log(output, self._bound, self._clipped, self._tangent, self._logarithm)
        own = self._tangent
        # 0 log 0 is 0.
        np.maximum(label, self._least, out=own)
        np.log(own, out=own)
        np.subtract(own, self._logarithm, out=own)
        np.multiply(own, label, out=own)
        np.add.reduce(own.reshape(len(own), -1), axis=1, out=self._losses)
        return np.divide(self._losses, self._positions, out=self._losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        share /= -self._positions
        np.divide(label, self._clipped, out=out)
        np.multiply(out, share, out=out)


class CosineSimilarity(Loss):
    """Mean over the batch of -cos(p, y): -1 where the output has the direction of the label, 0 at right angles.

    Vectors are the rows of outputs (batch, ..., features), labels have the same shape; the loss of a sample is the mean over
    its positions. A vector shorter than 1e-6 is divided by 1e-6 in place of its length, so that one of 0 costs 0, as in Keras.

    >>> loss, output = nn.loss.CosineSimilarity(), np.array([[1.0, 1.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[0.0, 1.0]]), output), 4)
    -0.7071
    """

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        rows = targets(self, label, shape, dtype)
        # Once for each label: what the loss asks of it is its direction.
        lengths = _lengths(rows)
        return np.asarray(rows / np.maximum(lengths, _SHORT), dtype)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._positions, rows = math.prod(shape[1:-1]), math.prod(shape[:-1])
        self._unit = self._memory.empty((rows, shape[-1]), dtype)
        self._length, self._cosine = np.empty((2, rows), dtype)
        self._losses = np.empty(shape[0], dtype)

    def each(self, label: Array, output: Array) -> Array:
        vectors = output.reshape(self._unit.shape)
        np.einsum("ij,ij->i", vectors, vectors, out=self._length)
        np.sqrt(self._length, out=self._length)
        # Seldom: the square of a vector overflowed, of which the length need not.
        if np.isinf(self._length).any():
            np.copyto(self._length, _lengths(vectors)[:, 0])
        np.maximum(self._length, _SHORT, out=self._length)
        np.divide(vectors, self._length.reshape(-1, 1), out=self._unit)
        np.einsum("ij,ij->i", self._unit, label.reshape(self._unit.shape), out=self._cosine)
        np.add.reduce(self._cosine.reshape(len(output), -1), axis=1, out=self._losses)
        return np.divide(self._losses, -self._positions, out=self._losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        share /= -self._positions
        # The length of a short vector is a constant, so that its derivative has no part along the vector.
        np.multiply(self._cosine, self._length > _SHORT, out=self._cosine)
        np.multiply(self._unit, self._cosine.reshape(-1, 1), out=self._unit)
        np.subtract(label.reshape(self._unit.shape), self._unit, out=self._unit)
        np.divide(self._unit, self._length.reshape(-1, 1), out=self._unit)
        np.multiply(self._unit.reshape(out.shape), share, out=out)


_SHORT = 1e-6


def _lengths(rows: Array) -> Array:
    """Return the lengths of rows, (..., 1), whose squares may be beyond the greatest number of their type."""
    greatest = np.abs(rows).max(axis=-1, keepdims=True)
    scale = np.where(greatest > 1, greatest, rows.dtype.type(1))
    return np.asarray(np.sqrt(np.square(rows / scale).sum(axis=-1, keepdims=True)) * scale)


class Dice(BinaryLoss, configured=True):
    """Mean over the batch of 1 - (2 sum p y + smooth) / (sum p + sum y + smooth), each sum over the outputs of one sample.

    For masks, where few outputs are 1: it measures the overlap of prediction and label, and is 0 where they are equal
    (Milletari, Navab and Ahmadi, V-Net, 3DV 2016; with these sums Sudre et al., 2017). Outputs are probabilities, as `Sigmoid`
    gives them, labels lie in 0..1. Keras takes the sums over the whole batch unless `axis` says otherwise.

    Args:
        smooth: added above and below, above 0, so that two empty masks cost 0.

    >>> loss, output = nn.loss.Dice(), np.array([[1.0, 0.5, 0.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[1.0, 1.0, 0.0]]), output), 4)
    0.1429
    """

    _takes: ClassVar[Taken] = "probabilities"

    _losses: Array

    def __init__(self, smooth: float = 1e-7) -> None:
        self.smooth = arguments.number(self, "smooth", smooth, 0, open_low=True)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._above, self._below, self._losses = np.empty((3, shape[0]), dtype)

    def each(self, label: Array, output: Array) -> Array:
        p, y, above, below = output.reshape(len(output), -1), label.reshape(len(output), -1), self._above, self._below
        np.einsum("ij,ij->i", p, y, out=above)
        np.multiply(above, 2, out=above)
        np.add(above, self.smooth, out=above)
        np.add.reduce(p, axis=1, out=below)
        np.add.reduce(y, axis=1, out=self._losses)
        np.add(below, self._losses, out=below)
        np.add(below, self.smooth, out=below)
        np.divide(above, below, out=self._losses)
        return np.subtract(1, self._losses, out=self._losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        # Of the quotient: above / below^2 - 2 y / below.
        column = (len(output), *(1 for _ in output.shape[1:]))
        below = self._below.reshape(column)
        np.divide(self._above, self._below, out=self._above)
        np.multiply(label, -2, out=out)
        np.add(out, self._above.reshape(column), out=out)
        np.divide(out, below, out=out)
        np.multiply(out, share, out=out)


class Contrastive(Loss, configured=True):
    """Mean of (1 - y) d^2 + y max(margin - d, 0)^2 for outputs d, the distances of pairs, and labels y, 1 where a pair differs.

    Pairs that belong together are drawn near, others pushed away up to the margin (Hadsell, Chopra and LeCun, Dimensionality
    reduction by learning an invariant mapping, CVPR 2006, without its factor 1/2). Labels lie in 0..1.

    Args:
        margin: distance from which on pairs that differ cost nothing, above 0.

    >>> loss, output = nn.loss.Contrastive(), np.array([[0.5], [0.25]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[0.0], [1.0]]), output), 4)
    0.4062
    """

    _losses: Array

    def __init__(self, margin: float = 1.0) -> None:
        self.margin = arguments.number(self, "margin", margin, 0, open_low=True)

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        numbers = targets(self, label, shape, dtype)
        if numbers.min() < 0 or numbers.max() > 1:
            raise ValueError(f"{type(self).__name__} labels must lie in 0..1, got {numbers.min():g}..{numbers.max():g}")
        return numbers

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._outputs = math.prod(shape[1:])
        self._near, self._far, self._gap = self._memory.empty((3, *shape), dtype)
        self._losses, self._sums = np.empty((2, shape[0]), dtype)

    def each(self, label: Array, output: Array) -> Array:
        near, far, gap = self._near, self._far, self._gap
        np.subtract(self.margin, output, out=gap)
        np.maximum(gap, 0, out=gap)
        # Half of the derivatives, (1 - y) d and y gap, of which the loss is a sum of products.
        np.multiply(gap, label, out=far)
        np.subtract(1, label, out=near)
        np.multiply(near, output, out=near)
        rows = (len(output), self._outputs)
        np.einsum("ij,ij->i", near.reshape(rows), output.reshape(rows), out=self._losses)
        np.einsum("ij,ij->i", far.reshape(rows), gap.reshape(rows), out=self._sums)
        np.add(self._losses, self._sums, out=self._losses)
        return np.divide(self._losses, self._outputs, out=self._losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        share *= 2 / self._outputs
        np.subtract(self._near, self._far, out=out)
        np.multiply(out, share, out=out)


class Triplet(Loss, configured=True):
    """Mean over the batch of max(|a - p|^2 - |a - n|^2 + margin, 0), for the anchor, the positive and the negative of outputs
    (batch, 3, features).

    The anchor shall lie nearer to a sample like it, the positive, than to another one (Schroff, Kalenichenko and Philbin,
    FaceNet, CVPR 2015). A model ends in `nn.function.stack` of the three embeddings. Labels are not looked at; there is one for
    each sample, such as 0.

    Args:
        margin: by how much nearer, in squared distance, above 0.

    >>> loss, output = nn.loss.Triplet(), np.array([[[0.0, 1.0], [0.0, 2.0], [0.5, 1.0]]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.zeros(1), output), 4)
    1.75
    """

    _losses: Array

    def __init__(self, margin: float = 1.0) -> None:
        self.margin = arguments.number(self, "margin", margin, 0, open_low=True)

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        if len(shape) < 3 or shape[1] != 3:
            raise ValueError(
                f"{type(self).__name__} takes outputs (batch, 3, features): anchor, positive, negative, got {shape}"
            )
        check_length(self, label, shape[0])
        return label

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        features = math.prod(shape[2:])
        self._to_positive, self._to_negative = self._memory.empty((2, shape[0], features), dtype)
        self._losses, self._other = np.empty((2, shape[0]), dtype)

    def each(self, label: Array, output: Array) -> Array:
        anchor, positive, negative = (output[:, place].reshape(self._to_positive.shape) for place in range(3))
        # Parts of the output have gaps between them; NumPy takes a buffer for each of those that a calculation reads.
        np.copyto(self._to_positive, anchor)
        np.copyto(self._to_negative, anchor)
        np.subtract(self._to_positive, positive, out=self._to_positive)
        np.subtract(self._to_negative, negative, out=self._to_negative)
        np.einsum("ij,ij->i", self._to_positive, self._to_positive, out=self._losses)
        np.einsum("ij,ij->i", self._to_negative, self._to_negative, out=self._other)
        np.subtract(self._losses, self._other, out=self._losses)
        np.add(self._losses, self.margin, out=self._losses)
        return np.maximum(self._losses, 0, out=self._losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        share *= 2
        # 1 where the triplet costs something, else 0.
        counts = np.sign(self._losses, out=self._other).reshape(-1, 1)
        np.multiply(self._to_positive, counts, out=self._to_positive)
        np.multiply(self._to_negative, counts, out=self._to_negative)
        near, far = (array.reshape(out[:, 0].shape) for array in (self._to_positive, self._to_negative))
        np.subtract(near, far, out=out[:, 0])
        np.negative(near, out=out[:, 1])
        np.copyto(out[:, 2], far)
        np.multiply(out, share, out=out)

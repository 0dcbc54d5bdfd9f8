"""The loss of support vector machines."""

import math
from typing import Any

import numpy as np

from nn.arrays import Array, Shape
from nn.loss.loss import Loss, classes, targets


class Hinge(Loss):
    """Mean of max(0, 1 - t z) with t = 1 or -1 for decisions z, or of max(0, 1 + max_{k != y} z_k - z_y) for classes.

    Which of the two is said by the labels:

    * of the shape of the output (or without its last axis where that has length 1), all 0 or 1, or all -1 or 1: every output
      is a decision of its own, t = 2 y - 1. One-hot rows are decisions of one class against the rest. Prepared labels, as
      metrics see them, are 0 and 1. Cortes and Vapnik, Support-vector networks, Machine Learning 20, 1995.
    * class numbers (batch,) for outputs (batch, classes), two classes or more. Crammer and Singer, On the algorithmic
      implementation of multiclass kernel-based vector machines, JMLR 2, 2001.

    The derivative where a margin is exactly 1 is taken as 0. Raises ValueError for other labels.

    >>> loss, output = nn.loss.Hinge(), np.array([[-3.0], [0.5]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[0.0], [1.0]]), output), 4)
    0.25
    """

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        if len(shape) == 2 and shape[1] > 1 and label.shape != shape:
            return classes(self, label, shape, dtype)
        numbers = targets(self, label, shape, dtype)
        one = numbers == 1
        if not (one | (numbers == 0)).all() and not (one | (numbers == -1)).all():
            raise ValueError(
                f"{type(self).__name__} labels of decisions must be 0 and 1, or -1 and 1, "
                f"got numbers in {numbers.min():g}..{numbers.max():g}"
            )
        return np.maximum(numbers, 0)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for margins, and for what depends on the labels."""
        super().allocate(shape, dtype)
        self._outputs = math.prod(shape[1:])
        self._margin, self._sign = np.empty(shape, dtype), np.empty(shape, dtype)
        self._losses = np.empty(shape[0], dtype)
        self._samples = np.arange(shape[0])
        self._rival = np.empty(shape[0], np.intp)

    def each(self, label: Array, output: Array) -> Array:
        margin, sign, losses = self._margin, self._sign, self._losses
        if label.ndim < output.ndim:
            np.copyto(margin, output)
            margin[self._samples, label] = -np.inf
            margin.argmax(axis=1, out=self._rival)
            np.subtract(output[self._samples, self._rival], output[self._samples, label], out=losses)
            np.add(losses, 1, out=losses)
            return np.maximum(losses, 0, out=losses)
        np.multiply(label, -2, out=sign)
        np.add(sign, 1, out=sign)
        np.multiply(sign, output, out=margin)
        np.add(margin, 1, out=margin)
        np.maximum(margin, 0, out=margin)
        np.add.reduce(margin.reshape(len(margin), -1), axis=1, out=losses)
        return np.divide(losses, self._outputs, out=losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        if label.ndim < output.ndim:
            pull = np.sign(self._losses)
            out.fill(0)
            out[self._samples, self._rival] = pull
            out[self._samples, label] = -pull
            np.multiply(out, share, out=out)
        else:
            share /= self._outputs
            np.sign(self._margin, out=out)
            np.multiply(out, self._sign, out=out)
            np.multiply(out, share, out=out)

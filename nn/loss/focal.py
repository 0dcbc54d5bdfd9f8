"""Focal losses: cross-entropies in which samples that are sure and right count little."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.activation.sigmoids import Softmax
from nn.arrays import Array, Shape
from nn.loss.decisions import Binary_Cross_Entropy
from nn.loss.loss import Loss, Taken, classes
from nn.operation.operation import Operation


class Binary_Focal_Cross_Entropy(Binary_Cross_Entropy, configured=True):
    """Mean over the batch and all outputs of a_t (1 - p_t)^gamma times the binary cross-entropy of the score z.

    p_t = y p + (1 - y) (1 - p) is how sure the right answer is, with p = s(z), the logistic function; a_t = y alpha + (1 - y)
    (1 - alpha), 1 without `alpha` (Lin et al., Focal loss for dense object detection, ICCV 2017; labels between 0 and 1 as in
    Keras). Labels, outputs and what is absorbed as in `Binary_Cross_Entropy`.

    Args:
        gamma: how little sure samples count, at least 0, where it is the cross-entropy.
        alpha: weight of the label 1, from 0 to below 1, that of 0 being 1 - alpha; None weighs both alike.

    >>> loss, output = nn.loss.Binary_Focal_Cross_Entropy(), np.array([[0.0], [0.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[0.0], [1.0]]), output), 4)
    0.1733
    """

    def __init__(self, gamma: float = 2.0, alpha: float | None = None) -> None:
        self.gamma = arguments.number(self, "gamma", gamma, 0)
        self.alpha = None if alpha is None else arguments.number(self, "alpha", alpha, 0, 1)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._miss, self._focus, self._other = self._memory.empty((3, *shape), dtype)
        self._least, self._most = np.finfo(dtype).tiny, np.finfo(dtype).max

    def each(self, label: Array, output: Array) -> Array:
        super().each(label, output)
        # The base leaves the cross-entropy of each output, and the probabilities.
        miss, focus = self._miss, self._focus
        # 1 - p = s(-z) = exp(-max(z, 0) - log(1 + exp(-|z|))), of which no digit is lost where p is nearly 1.
        other = self._other
        np.maximum(output, 0, out=other)
        np.add(other, self._log, out=other)
        np.negative(other, out=other)
        np.exp(other, out=other)
        # miss = y (1 - p) + (1 - y) p, which is 1 - p_t.
        np.subtract(1, label, out=miss)
        np.multiply(miss, self._probabilities, out=miss)
        np.multiply(label, other, out=focus)
        np.add(miss, focus, out=miss)
        np.power(miss, self.gamma, out=focus)
        if self.alpha is not None:
            self._weigh(label, focus)
        if self.alpha == 0:
            # The label 1 has no weight then, whatever its score costs: 0 times infinity would be NaN.
            np.copyto(self._rest, 0, where=np.equal(label, 1))
        np.einsum("ij,ij->i", focus.reshape(len(focus), -1), self._rest.reshape(len(focus), -1), out=self._losses)
        return np.divide(self._losses, self._outputs, out=self._losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        share /= self._outputs
        miss, p = self._miss, self._probabilities
        # The derivative of the focus is the focus times gamma (1 - 2 y) p (1 - p) / miss: this way no power of 0 is infinite,
        # for any gamma. Where miss is 0, so is p (1 - p); it is never greater than miss.
        np.multiply(self._other, p, out=out)
        np.divide(out, np.maximum(miss, self._least, out=miss), out=out)
        np.multiply(label, -2 * self.gamma, out=miss)
        np.add(miss, self.gamma, out=miss)
        np.multiply(out, miss, out=out)
        # It stands beside the cross-entropy, and the derivative of that, p - y, beside the focus. An infinite cost has a factor
        # of 0, and p (1 - p) log p goes to 0 there: so does this product of a finite one.
        np.multiply(out, np.minimum(self._rest, self._most, out=self._rest), out=out)
        # p - y = (1 - y) p - y (1 - p)
        np.subtract(1, label, out=miss)
        np.add(out, np.multiply(miss, p, out=miss), out=out)
        np.subtract(out, np.multiply(label, self._other, out=miss), out=out)
        np.multiply(out, self._focus, out=out)
        np.multiply(out, share, out=out)

    def _weigh(self, label: Array, numbers: Array) -> None:
        """Multiply the number of each output by its a_t."""
        alpha = self.alpha or 0.0
        # Of many samples this is one more array, in memory that is kept.
        weight = self._log
        np.multiply(label, 2 * alpha - 1, out=weight)
        np.add(weight, 1 - alpha, out=weight)
        np.multiply(numbers, weight, out=numbers)


class Focal_Cross_Entropy_With_Softmax(Loss, configured=True):
    """Mean over the batch of -alpha sum_k y_k (1 - p_k)^gamma log p_k, with p = softmax(z) of the scores z (batch, classes).

    Scores may also be (batch, ..., classes); the loss of a sample is the mean over its positions. Labels are class numbers
    (batch, ...) or rows of probabilities, as in `Cross_Entropy_With_Softmax`, and so is what is absorbed (Lin et al., 2017, for
    two classes; Keras's `CategoricalFocalCrossentropy` for several).

    Args:
        gamma: how little sure samples count, at least 0, where it is the cross-entropy.
        alpha: factor of the whole, above 0; Keras has 0.25.

    >>> loss, output = nn.loss.Focal_Cross_Entropy_With_Softmax(), np.array([[2.0, 2.0], [3.0, 3.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([0, 1]), output), 4)
    0.1733
    """

    _takes: ClassVar[Taken] = "class scores"
    absorbs: ClassVar[type[Operation] | None] = Softmax

    def __init__(self, gamma: float = 2.0, alpha: float = 1.0) -> None:
        self.gamma = arguments.number(self, "gamma", gamma, 0)
        self.alpha = arguments.number(self, "alpha", alpha, 0, open_low=True)

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        return classes(self, label, shape, dtype)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._positions = math.prod(shape[1:-1])
        rows = (shape[0] * self._positions, shape[-1])
        self._log, self._probabilities, self._rest, self._focus, self._wanted = self._memory.empty((5, *rows), dtype)
        self._row = np.empty((rows[0], 1), dtype)
        self._least, self._far = np.finfo(dtype).epsneg, float(np.finfo(dtype).max)
        self._starts, self._places = np.arange(0, math.prod(rows), rows[1]), np.empty(rows[0], np.intp)
        self._losses = np.empty(shape[0], dtype)

    def each(self, label: Array, output: Array) -> Array:
        log, p, rest, focus, wanted = self._log, self._probabilities, self._rest, self._focus, self._wanted
        scores = output.reshape(log.shape)
        np.max(scores, axis=1, keepdims=True, out=self._row)
        np.subtract(scores, self._row, out=log)
        np.exp(log, out=p)
        np.add.reduce(p, axis=1, keepdims=True, out=self._row)
        np.divide(p, self._row, out=p)
        np.log(self._row, out=self._row)
        np.subtract(log, self._row, out=log)
        # A masked class, of score -inf, has no share: 0 times this is 0.
        np.maximum(log, -self._far, out=log)
        if label.ndim < output.ndim:
            wanted.fill(0)
            np.add(label.reshape(-1), self._starts, out=self._places)
            wanted.reshape(-1)[self._places] = 1
        else:
            np.copyto(wanted, label.reshape(wanted.shape))
        np.subtract(1, p, out=rest)
        np.power(rest, self.gamma, out=focus)
        np.multiply(focus, wanted, out=focus)
        np.einsum("ij,ij->i", focus.reshape(len(output), -1), log.reshape(len(output), -1), out=self._losses)
        return np.multiply(self._losses, -self.alpha / self._positions, out=self._losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        share *= self.alpha / self._positions
        p, slope = self._probabilities, self._rest
        # The derivative for log p: y (1 - p)^gamma (gamma p log p / (1 - p) - 1), where the quotient is about -1 for p near 1.
        np.divide(self._log, np.maximum(slope, self._least, out=slope), out=slope)
        np.multiply(slope, p, out=slope)
        np.multiply(slope, self.gamma, out=slope)
        np.subtract(slope, 1, out=slope)
        np.multiply(slope, self._focus, out=slope)
        # log p_k depends on the score j by [k = j] - p_j.
        np.add.reduce(slope, axis=1, keepdims=True, out=self._row)
        np.multiply(p, self._row, out=self._focus)
        np.subtract(slope, self._focus, out=slope)
        np.multiply(slope.reshape(out.shape), share, out=out)

    def prediction(self, output: Array) -> Array:
        return np.asarray(self._probabilities.reshape(output.shape))

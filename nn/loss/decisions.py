"""Losses of decisions, yes or no for each output: binary cross-entropy, and that of support vector machines."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from nn.activation.sigmoids import Sigmoid, log_beside_zero
from nn.arrays import Array, Shape
from nn.loss.cross_entropy import tangent_log
from nn.loss.loss import Loss, Taken, classes, targets
from nn.operation.operation import Operation


class BinaryLoss(Loss):
    """A loss of outputs of which each is a decision of its own, with labels in 0..1."""

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        numbers = targets(self, label, shape, dtype)
        low, high = numbers.min(), numbers.max()
        if low < 0 or high > 1:
            raise ValueError(f"{type(self).__name__} labels must lie in 0..1, got {low:g}..{high:g}")
        return numbers


class Binary_Cross_Entropy(BinaryLoss):
    """Mean over the batch and all outputs of -y log s(z) - (1 - y) log(1 - s(z)), with z the scores, s the logistic function.

    Computed as (1 - y) max(z, 0) + y max(-z, 0) + log(1 + exp(-|z|)), which never overflows; an infinite score costs nothing
    where it is right, else infinitely much. Labels y in 0..1 have the shape (batch, ...) of the output, or lack its last axis
    where that has length 1.

    The logistic function belongs to the loss. A model may end in the scores (a `Dense(1)` without activation), and its
    predictions are scores; or in `Sigmoid`, and its predictions are probabilities: it is not computed twice, the loss takes the
    scores before it, also where a `Reshape` or `Flatten` follows. In both cases its gradient for the scores is (s(z) - y) /
    (number of elements). A model that makes probabilities in another way, such as `1 / (1 + nn.function.exp(-z))`, takes
    `Binary_Cross_Entropy_Of_Probabilities`. Its word is "binary_crossentropy_with_sigmoid". Raises ValueError for labels that
    are out of range or of another shape.

    >>> loss, output = nn.loss.Binary_Cross_Entropy(), np.array([[0.0], [0.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[0.0], [1.0]]), output), 4)
    0.6931
    """

    _takes: ClassVar[Taken] = "scores"
    absorbs: ClassVar[type[Operation] | None] = Sigmoid

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._outputs = math.prod(shape[1:])
        self._probabilities, self._rest, self._log, self._work = (self._memory.empty(shape, dtype) for _ in range(4))
        self._losses = np.empty(shape[0], dtype)

    def each(self, label: Array, output: Array) -> Array:
        z, probabilities, rest, log = output, self._probabilities, self._rest, self._log
        log_beside_zero(z, log)
        np.minimum(z, 0, out=probabilities)
        # The greatest and the least by their places, the fastest way; NaN takes the usual way and stays NaN.
        if math.isinf(z.item(z.argmax())) or math.isinf(z.item(z.argmin())):
            np.copyto(rest, _costs(z, label))
        else:
            # max(z, 0) - y z as (1 - y) max(z, 0) + y max(-z, 0), which cancels for no label between 0 and 1, and of which a
            # sure and right score leaves exactly 0.
            work = self._work
            np.maximum(z, 0, out=work)
            np.subtract(1, label, out=rest)
            np.multiply(rest, work, out=rest)
            np.multiply(label, probabilities, out=work)
            np.subtract(rest, work, out=rest)
        np.add(rest, log, out=rest)
        # s(z) = exp(min(z, 0) - log(1 + exp(-|z|))), exact where it is close to 0 too
        np.subtract(probabilities, log, out=probabilities)
        np.exp(probabilities, out=probabilities)
        np.add.reduce(rest.reshape(len(rest), -1), axis=1, out=self._losses)
        return np.divide(self._losses, self._outputs, out=self._losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        share /= self._outputs
        np.subtract(self._probabilities, label, out=out)
        np.multiply(out, share, out=out)

    def prediction(self, output: Array) -> Array:
        return self._probabilities


def _costs(z: Array, label: Array) -> Array:
    """Return (1 - y) max(z, 0) + y max(-z, 0), with 0 times infinity as 0."""
    # NaN of 0 times infinity is replaced in the next line.
    with np.errstate(invalid="ignore"):
        above, below = (1 - label) * np.maximum(z, 0), label * np.maximum(-z, 0)
    return np.where(label == 1, 0, above) + np.where(label == 0, 0, below)


class Binary_Cross_Entropy_Of_Probabilities(BinaryLoss):
    """Mean over the batch and all outputs of -y log p - (1 - y) log(1 - p), with p the probabilities that the model gives.

    Its word is "binary_crossentropy", as in Keras. Labels, value and gradient are those of `Binary_Cross_Entropy`, exact
    for every score, where the model ends in `Sigmoid` or in a `Reshape` or `Flatten` of it. Of other probabilities, such as the
    mean of two, the logarithm is that of max(p, e) with e the machine epsilon of the type, plus (p - e) / e below e, its
    tangent there, so that a sure mistake costs much, but not infinitely much; the derivative belongs to the value everywhere.
    Raises ValueError for labels that are out of range or of another shape, and for outputs that are no probabilities: the
    first batch of each size shows whether all lie in 0..1.

    The methods of a class derived from it get the probabilities themselves, also behind a `Sigmoid`.

    >>> loss, output = nn.loss.Binary_Cross_Entropy_Of_Probabilities(), np.array([[0.5], [0.75]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[0.0], [1.0]]), output), 4)
    0.4904
    """

    _takes: ClassVar[Taken] = "probabilities"
    absorbs: ClassVar[type[Operation] | None] = Sigmoid

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Its own methods are written for probabilities, so it must not be given scores.
        if "absorbs" not in vars(cls):
            cls.absorbs = None

    def of_scores(self) -> Loss:
        """Return the loss that computes the same of the scores before an absorbed `Sigmoid`."""
        return Binary_Cross_Entropy()

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._outputs = math.prod(shape[1:])
        self._bound = float(np.finfo(dtype).eps)
        self._rest, self._clipped, self._of_rest, self._tangent, self._logarithm, self._costs = self._memory.empty(
            (6, *shape), dtype
        )
        self._losses = np.empty(shape[0], dtype)
        self._checked = False

    def each(self, label: Array, output: Array) -> Array:
        if not self._checked:
            self._check(output)
            self._checked = True
        rest, costs, logarithm = self._rest, self._costs, self._logarithm
        np.subtract(1, output, out=rest)
        # As in `tangent_log`, but not of 1 - p, which has only those digits of a small p that it has beside 1. The tangent and
        # the logarithm are work space, used for 1 - p first and for p then.
        np.maximum(rest, self._bound, out=self._of_rest)
        np.subtract(rest, self._of_rest, out=self._tangent)
        np.divide(self._tangent, self._bound, out=self._tangent)
        np.minimum(output, 1 - self._bound, out=costs)
        np.negative(costs, out=costs)
        np.log1p(costs, out=logarithm)
        np.add(logarithm, self._tangent, out=logarithm)
        np.subtract(1, label, out=costs)
        np.multiply(costs, logarithm, out=costs)
        tangent_log(output, self._bound, self._clipped, self._tangent, logarithm)
        np.multiply(label, logarithm, out=logarithm)
        np.add(costs, logarithm, out=costs)
        np.add.reduce(costs.reshape(len(costs), -1), axis=1, out=self._losses)
        return np.divide(self._losses, -self._outputs, out=self._losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        share /= self._outputs
        np.subtract(1, label, out=self._rest)
        np.divide(self._rest, self._of_rest, out=self._rest)
        np.divide(label, self._clipped, out=out)
        # (1 - y) / (1 - p) - y / p, both denominators clipped.
        np.subtract(self._rest, out, out=out)
        np.multiply(out, share, out=out)

    def prediction(self, output: Array) -> Array:
        return output

    def _check(self, output: Array) -> None:
        """Raise ValueError for numbers that are no probabilities; NaN passes."""
        low, high = output.min(), output.max()
        if low < -_ROUNDING or high > 1 + _ROUNDING:
            raise ValueError(
                f"{type(self).__name__} takes probabilities in 0..1, as Sigmoid gives them, got outputs in {low:g}..{high:g}; "
                "for scores take Binary_Cross_Entropy, the word 'binary_crossentropy_with_sigmoid'"
            )


#: How far outside of 0..1 an output may lie that still is a probability, computed with roundings.
_ROUNDING = 1e-3


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

    _takes: ClassVar[Taken] = "decisions"

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        # Labels of the shape of the output say that each output is a decision.
        if len(shape) == 2 and shape[1] > 1 and label.shape != shape:
            return classes(self, label, shape, dtype)
        numbers = targets(self, label, shape, dtype)
        one = numbers == 1
        if not (one | (numbers == 0)).all() and not (one | (numbers == -1)).all():
            raise ValueError(
                f"{type(self).__name__} labels of decisions must be 0 and 1, or -1 and 1, "
                f"got numbers in {numbers.min():g}..{numbers.max():g}"
            )
        # -1 becomes 0.
        return np.maximum(numbers, 0)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for margins, and for numbers that depend on the labels."""
        super().allocate(shape, dtype)
        self._outputs = math.prod(shape[1:])
        self._margin, self._sign = (self._memory.empty(shape, dtype) for _ in range(2))
        self._losses = np.empty(shape[0], dtype)
        self._samples = np.arange(shape[0])
        self._rival = np.empty(shape[0], np.intp)

    def each(self, label: Array, output: Array) -> Array:
        margin, sign, losses = self._margin, self._sign, self._losses
        if label.ndim < output.ndim:
            np.copyto(margin, output)
            # So that the class of the label is no rival of itself.
            margin[self._samples, label] = -np.inf
            margin.argmax(axis=1, out=self._rival)
            np.subtract(output[self._samples, self._rival], output[self._samples, label], out=losses)
            np.add(losses, 1, out=losses)
            return np.maximum(losses, 0, out=losses)
        # -t = 1 - 2 y.
        np.multiply(label, -2, out=sign)
        np.add(sign, 1, out=sign)
        np.multiply(sign, output, out=margin)
        np.add(margin, 1, out=margin)
        np.maximum(margin, 0, out=margin)
        np.add.reduce(margin.reshape(len(margin), -1), axis=1, out=losses)
        return np.divide(losses, self._outputs, out=losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        if label.ndim < output.ndim:
            # 1 where the margin is missed, else 0.
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


class SquaredHinge(Hinge):
    """Mean of max(0, 1 - t z)^2 with t = 1 or -1 for decisions z, or of the square of `Hinge` for classes.

    Smooth where a margin is exactly 1, and harder on samples far off (Tang, Deep learning using linear support vector machines,
    2013). Labels as in `Hinge`.

    >>> loss, output = nn.loss.SquaredHinge(), np.array([[-3.0], [0.5]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[0.0], [1.0]]), output), 4)
    0.125
    """

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._squares = np.empty(shape[0], dtype)

    def each(self, label: Array, output: Array) -> Array:
        losses = super().each(label, output)
        if label.ndim < output.ndim:
            return np.multiply(losses, losses, out=self._squares)
        # What the base leaves for each output.
        margin = self._margin.reshape(len(output), -1)
        np.einsum("ij,ij->i", margin, margin, out=self._squares)
        return np.divide(self._squares, self._outputs, out=self._squares)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        share *= 2
        if label.ndim < output.ndim:
            out.fill(0)
            out[self._samples, self._rival] = self._losses
            out[self._samples, label] = -self._losses
        else:
            share /= self._outputs
            np.multiply(self._margin, self._sign, out=out)
        np.multiply(out, share, out=out)

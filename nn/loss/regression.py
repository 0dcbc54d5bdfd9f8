"""Losses of the difference between a prediction and the value to predict."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array, Shape
from nn.extension import written
from nn.loss.cross_entropy import tangent_log
from nn.loss.loss import Loss, Taken, targets


class DifferenceLoss(Loss):
    """The mean of h(p - y) over the outputs p of a sample, and over the batch.

    Labels have the shape (batch, ...) of the output, or lack its last axis where that has length 1. Raises ValueError for
    labels of another shape, and for labels that are no finite numbers.

    To add one: write h in `measure` and its derivative in `slope`.

    >>> class CubeLoss(nn.loss.DifferenceLoss):
    ...     def measure(self, difference, work, out):
    ...         np.add.reduce(np.abs(difference) ** 3, axis=1, out=out)
    ...     def slope(self, difference, share, out):
    ...         np.multiply(3 * difference * np.abs(difference), share, out=out)
    >>> nn.testing.check_loss_gradient(CubeLoss(), np.zeros((5, 2)), np.ones((5, 2)))
    """

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        return targets(self, label, shape, dtype)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._outputs = math.prod(shape[1:])
        self._difference = self._memory.empty(shape, dtype)
        self._work = self._memory.empty((shape[0], self._outputs), dtype)
        self._losses = np.empty(shape[0], dtype)

    def each(self, label: Array, output: Array) -> Array:
        np.subtract(output, label, out=self._difference)
        rows = self._difference.reshape(self._work.shape)
        if self._proven:
            self.measure(rows, self._work, self._losses)
        else:
            written(self, "measure", (rows, self._work, self._losses), self._losses)
        # One division for each sample, in place of one for each output.
        return np.divide(self._losses, self._outputs, out=self._losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        share /= self._outputs
        # `each` has left the differences.
        if self._proven:
            self.slope(self._difference, share, out)
        else:
            written(self, "slope", (self._difference, share, out), out)

    @abstractmethod
    def measure(self, difference: Array, work: Array, out: Array) -> None:
        """Write the sum of h over each row.

        Args:
            difference: output less label (batch, outputs).
            work: one more array of this shape.
            out: takes the sums (batch,).
        """

    @abstractmethod
    def slope(self, difference: Array, share: float | Array, out: Array) -> None:
        """Write share * h'(difference), after `measure`.

        Args:
            difference: as of `measure`.
            share: as of `derive`.
            out: takes it, of the shape of the output.
        """


class MSELoss(DifferenceLoss):
    """Mean of (p - y)^2 over the batch and all outputs of a sample; its gradient is 2 (p - y) / (number of elements).

    Labels have the shape of the output, or (batch,) where a sample has one output.

    >>> loss, output = nn.loss.MSELoss(), np.array([[1.0], [4.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[1.0], [2.0]]), output), 4)
    2.0
    """

    def measure(self, difference: Array, work: Array, out: Array) -> None:
        # Sums of squares without an array of the squares.
        np.einsum("ij,ij->i", difference, difference, out=out)

    def slope(self, difference: Array, share: float | Array, out: Array) -> None:
        # The work space of the shares may be changed, which is less than a pass over the differences.
        share *= 2
        np.multiply(difference, share, out=out)

    def sum_losses(self, label: Array, output: Array) -> float:
        """Return the sum over the samples by one product of vectors."""
        difference = np.subtract(output, label, out=self._difference)
        # The squares of all samples in one product; only the sum is asked for.
        return float(np.vdot(difference, difference)) / self._outputs


class MAELoss(DifferenceLoss):
    """Mean of |p - y| over the batch and all outputs of a sample; its gradient is sign(p - y) / (number of elements), at 0 0.

    Labels have the shape of the output, or (batch,) where a sample has one output.

    >>> loss, output = nn.loss.MAELoss(), np.array([[1.0], [4.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[1.0], [2.0]]), output), 4)
    1.0
    """

    def measure(self, difference: Array, work: Array, out: Array) -> None:
        np.abs(difference, out=work)
        np.add.reduce(work, axis=1, out=out)

    def slope(self, difference: Array, share: float | Array, out: Array) -> None:
        np.sign(difference, out=out)
        np.multiply(out, share, out=out)


class HuberLoss(DifferenceLoss, configured=True):
    """Mean of h(p - y) over the batch and all outputs, h(d) = d^2 / 2 for |d| <= delta, delta (|d| - delta / 2) beyond.

    With c = max(-delta, min(d, delta)), h(d) = c (d - c / 2) and h'(d) = c. Labels have the shape of the output, or (batch,)
    where a sample has one output. Huber, Robust estimation of a location parameter, Annals of Mathematical Statistics 35,
    1964. Raises TypeError or ValueError unless delta > 0.

    >>> loss, output = nn.loss.HuberLoss(delta=1.0), np.array([[1.0], [4.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[1.0], [2.0]]), output), 4)
    0.75
    """

    def __init__(self, delta: float = 1.0) -> None:
        self.delta = arguments.number(self, "delta", delta, 0, open_low=True)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._clipped = self._memory.empty(self._work.shape, dtype)

    def measure(self, difference: Array, work: Array, out: Array) -> None:
        clipped = self._clipped
        np.minimum(difference, self.delta, out=clipped)
        np.maximum(clipped, -self.delta, out=clipped)
        np.multiply(clipped, -0.5, out=work)
        np.add(work, difference, out=work)
        # c (d - c / 2), summed for each sample in one call.
        np.einsum("ij,ij->i", clipped, work, out=out)

    def slope(self, difference: Array, share: float | Array, out: Array) -> None:
        np.multiply(self._clipped.reshape(difference.shape), share, out=out)


#: From here on log cosh d is |d| - log 2 in every digit.
_FAR = 20.0


class TanhLoss(DifferenceLoss):
    """Mean of log cosh(p - y) over the batch and all outputs; its gradient is tanh(p - y) / (number of elements).

    Close to d^2 / 2 for small differences d and to |d| - log 2 for large ones, smooth everywhere, and no sample pulls harder
    than 1; known as log-cosh loss. Labels have the shape of the output, or (batch,) where a sample has one output. Saleh and
    Saleh, Statistical properties of the log-cosh loss function used in machine learning, arXiv:2208.04564.

    >>> loss, output = nn.loss.TanhLoss(), np.array([[1.0], [4.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[1.0], [2.0]]), output), 4)
    0.6625
    """

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._beyond = self._memory.empty(self._work.shape, dtype)

    def measure(self, difference: Array, work: Array, out: Array) -> None:
        """Write the sums of log cosh d = log(1 + 2 sinh(d / 2)^2), which is as exact for small d as for large ones."""
        beyond = self._beyond
        np.abs(difference, out=work)
        # Beyond FAR the loss is a straight line and sinh would overflow: the rest is added as it is.
        np.maximum(work, _FAR, out=beyond)
        np.subtract(beyond, _FAR, out=beyond)
        np.minimum(work, _FAR, out=work)
        np.multiply(work, 0.5, out=work)
        np.sinh(work, out=work)
        np.multiply(work, work, out=work)
        np.multiply(work, 2, out=work)
        np.log1p(work, out=work)
        np.add(work, beyond, out=work)
        np.add.reduce(work, axis=1, out=out)

    def slope(self, difference: Array, share: float | Array, out: Array) -> None:
        np.tanh(difference, out=out)
        np.multiply(out, share, out=out)


class QuantileLoss(DifferenceLoss, configured=True):
    """Mean of max(q (y - p), (1 - q) (p - y)) over the batch and all outputs: the outputs become the quantile q of the labels.

    With q = 0.5 half of `MAELoss`, whose best prediction is the median; known as pinball loss (Koenker and Bassett, Regression
    quantiles, Econometrica 46, 1978). The derivative where p = y is taken as the mean of both sides. Labels have the shape of
    the output, or (batch,) where a sample has one output.

    Args:
        quantile: q, above 0 and below 1.

    >>> loss, output = nn.loss.QuantileLoss(0.9), np.array([[1.0], [4.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[2.0], [2.0]]), output), 4)
    0.55
    """

    def __init__(self, quantile: float = 0.5) -> None:
        self.quantile = arguments.number(self, "quantile", quantile, 0, 1, open_low=True)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._sums = np.empty(shape[0], dtype)
        self._below = self._memory.empty(shape, dtype)

    def measure(self, difference: Array, work: Array, out: Array) -> None:
        # Each side with its own factor: |d| / 2 + (1/2 - q) d would cancel for a q near 0 or 1.
        np.maximum(difference, 0, out=work)
        np.add.reduce(work, axis=1, out=out)
        np.multiply(out, 1 - self.quantile, out=out)
        np.minimum(difference, 0, out=work)
        np.add.reduce(work, axis=1, out=self._sums)
        np.multiply(self._sums, self.quantile, out=self._sums)
        np.subtract(out, self._sums, out=out)

    def slope(self, difference: Array, share: float | Array, out: Array) -> None:
        # 1 where p > y, 0 where p < y, 1/2 where they are equal: there the slope is the mean of both.
        np.heaviside(difference, 0.5, out=out)
        below = np.subtract(1, out, out=self._below)
        np.multiply(below, self.quantile, out=below)
        np.multiply(out, 1 - self.quantile, out=out)
        np.subtract(out, below, out=out)
        np.multiply(out, share, out=out)


class PoissonLoss(Loss):
    """Mean of p - y log p over the batch and all outputs: for labels that are counts, outputs being the rates that they have.

    The negative logarithm of the likelihood under Poisson's distribution, without log y! (Cameron and Trivedi, Regression
    analysis of count data, 1998). Outputs are above 0, as `Softplus` or `nn.function.exp` gives them; below the machine epsilon
    the logarithm is its tangent. Labels are at least 0 and have the shape of the output, or (batch,) where a sample has one
    output.

    >>> loss, output = nn.loss.PoissonLoss(), np.array([[1.0], [4.0]])
    >>> loss.allocate(output.shape, output.dtype)
    >>> round(loss.value(np.array([[2.0], [2.0]]), output), 4)
    1.1137
    """

    _takes: ClassVar[Taken] = "rates"

    def prepare(self, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
        numbers = targets(self, label, shape, dtype)
        if numbers.min() < 0:
            raise ValueError(f"{type(self).__name__} labels must be at least 0, got {numbers.min():g}")
        return numbers

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shape, dtype)
        self._outputs = math.prod(shape[1:])
        self._bound = float(np.finfo(dtype).eps)
        self._clipped, self._tangent, self._logarithm = self._memory.empty((3, *shape), dtype)
        self._losses = np.empty(shape[0], dtype)

    def each(self, label: Array, output: Array) -> Array:
        costs = self._logarithm
        tangent_log(output, self._bound, self._clipped, self._tangent, costs)
        np.multiply(costs, label, out=costs)
        np.subtract(output, costs, out=costs)
        np.add.reduce(costs.reshape(len(costs), -1), axis=1, out=self._losses)
        return np.divide(self._losses, self._outputs, out=self._losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        share /= self._outputs
        # Where the logarithm is its tangent its slope is 1 / bound, to which `each` has clipped.
        # Not 1 - y / p, which cancels where the rate is nearly right.
        np.subtract(self._clipped, label, out=out)
        np.divide(out, self._clipped, out=out)
        np.multiply(out, share, out=out)

"""Normalisation over a batch, with its moving statistics."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.batch_axis import batch_leads
from nn.operation.operation import Mode, Operation
from nn.operation.wide_rows import WideRows


class BatchNormalize(Operation):
    """y = gamma * (x - m) / sqrt(v + epsilon) + beta for every feature, the last axis (Ioffe and Szegedy, 2015).

    Inputs: x (batch, ..., features); gamma, beta, and the buffers moving mean and moving variance, (features,) each. In
    training m and v are mean and variance over all other axes, v divided by their number, from the differences to m; backward
    gives as the changes of the buffers (1 - momentum) * (m - moving mean), and the same for v. Otherwise they are the
    buffers' values; so they are in training, and the buffers do not change, where gamma and beta are frozen and
    `freeze_statistics` is set.
    """

    in_place: ClassVar[bool] = True

    def __init__(self, momentum: float, epsilon: float, freeze_statistics: bool = True) -> None:
        self.momentum, self.epsilon, self.freeze_statistics = momentum, epsilon, freeze_statistics
        self._training = False

    def infer(self, *shapes: Shape) -> Shape:
        """Return the shape of x."""
        return shapes[0]

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Whether the batch leads; with the statistics of a batch, in training, no plan makes use of it."""
        return batch_leads(shapes[0]) and len(shapes[0]) > 1

    def changes_buffers(self, frozen: bool) -> bool:
        """Whether training moves the statistics."""
        return not (frozen and self.freeze_statistics)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the statistics and for one block."""
        self._wide = WideRows(output, dtype)
        self._mean, self._variance, self._scale, self._factor = np.zeros((4, self._wide.features), dtype)
        self._sum, self._sum_with_c = np.zeros((2, self._wide.features), dtype)
        self._rows = np.zeros((4, self._wide.width), dtype)
        self._block = self.scratch.empty((self._wide.height, self._wide.width), dtype)

    def begin(self, mode: Mode, position: int) -> None:
        """Note whether to use the statistics of the batch."""
        self._training = mode.training and self.changes_buffers(self.frozen)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the normalised values, with the statistics of the batch or the moving ones."""
        wide, (mean, scale, shift, _) = self._wide, self._rows
        x, gamma, beta, moving_mean, moving_variance = inputs
        rows, output = wide.view(x), wide.view(out)
        if self._training:
            self._measure(rows)
        else:
            np.copyto(self._mean, moving_mean)
            np.copyto(self._variance, moving_variance)
        self._invert()
        np.multiply(gamma, self._scale, out=self._factor)
        wide.tile(self._mean, mean)
        wide.tile(self._factor, scale)
        wide.tile(beta, shift)
        for block in wide.blocks:
            np.subtract(rows[block], mean, out=output[block])
            np.multiply(output[block], scale, out=output[block])
            np.add(output[block], shift, out=output[block])

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write the gradients of x, gamma and beta and, in training, the changes of the moving statistics.

        With n positions, s = 1 / sqrt(v + epsilon) and c = x - m: beta's is sum g, gamma's s * sum g c, and that of x is
        gamma * s * (g - sum g / n - c * s^2 * sum g c / n); the last two terms come from m and v, so only in training.
        """
        wide, (mean, with_c, total, _) = self._wide, self._rows
        x, gamma = inputs[:2]
        rows, gradients = wide.view(x), wide.view(gradient)
        with_c.fill(0)
        total.fill(0)
        for block in wide.blocks:
            centred = self._block[: len(rows[block])]
            np.subtract(rows[block], mean, out=centred)
            np.multiply(centred, gradients[block], out=centred)
            wide.add_rows(centred, with_c)
            wide.add_rows(gradients[block], total)
        wide.fold(total, self._sum)
        wide.fold(with_c, self._sum_with_c)
        np.multiply(self._sum_with_c, self._scale, out=self._sum_with_c)
        for_x, for_gamma, for_beta, *moving = wanted
        if for_gamma is not None:
            np.copyto(for_gamma, self._sum_with_c)
        if for_beta is not None:
            np.copyto(for_beta, self._sum)
        self._change(inputs[3:], moving)
        if for_x is not None:
            np.multiply(gamma, self._scale, out=self._factor)
            self._descend(rows, gradients, wide.view(for_x))

    def _descend(self, rows: Array, gradients: Array, target: Array) -> None:
        """Write the gradient of x from the sums; `target` may be `gradients`."""
        wide, (mean, with_c, total, slope) = self._wide, self._rows
        wide.tile(self._factor, slope)
        if not self._training:
            np.multiply(gradients, slope, out=target)
            return
        np.multiply(self._sum_with_c, self._scale, out=self._sum_with_c)
        np.divide(self._sum_with_c, -wide.positions, out=self._sum_with_c)
        np.divide(self._sum, -wide.positions, out=self._sum)
        wide.tile(self._sum_with_c, with_c)
        wide.tile(self._sum, total)
        for block in wide.blocks:
            centred = self._block[: len(rows[block])]
            np.subtract(rows[block], mean, out=centred)
            np.multiply(centred, with_c, out=centred)
            np.add(centred, gradients[block], out=centred)
            np.add(centred, total, out=centred)
            np.multiply(centred, slope, out=target[block])

    def _measure(self, rows: Array) -> None:
        """Compute mean and variance in two passes: the sum of squares of differences does not cancel."""
        wide, (mean, total, _, _) = self._wide, self._rows
        total.fill(0)
        for block in wide.blocks:
            wide.add_rows(rows[block], total)
        wide.fold(total, self._mean)
        np.divide(self._mean, wide.positions, out=self._mean)
        wide.tile(self._mean, mean)
        total.fill(0)
        for block in wide.blocks:
            centred = self._block[: len(rows[block])]
            np.subtract(rows[block], mean, out=centred)
            np.square(centred, out=centred)
            wide.add_rows(centred, total)
        wide.fold(total, self._variance)
        np.divide(self._variance, wide.positions, out=self._variance)

    def _invert(self) -> None:
        """Write 1 / sqrt(v + epsilon)."""
        np.add(self._variance, self.epsilon, out=self._scale)
        np.sqrt(self._scale, out=self._scale)
        np.divide(1, self._scale, out=self._scale)

    def _change(self, moving: Sequence[Array], wanted: Sequence[Array | None]) -> None:
        """Write how far this block moves the moving statistics; outside training not at all."""
        rate = 1 - self.momentum if self._training else 0
        for value, statistic, change in zip(moving, (self._mean, self._variance), wanted, strict=True):
            if change is not None:
                np.subtract(statistic, value, out=change)
                np.multiply(change, rate, out=change)

"""What the losses of a difference have in common."""

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from nn.arrays import Array, Shape
from nn.loss.labels import targets
from nn.loss.loss import Loss


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
        """Return the labels in the shape of the output."""
        return targets(self, label, shape, dtype)

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the differences and one more array."""
        super().allocate(shape, dtype)
        self._outputs = math.prod(shape[1:])
        self._difference = np.empty(shape, dtype)
        self._work = np.empty((shape[0], self._outputs), dtype)
        self._losses = np.empty(shape[0], dtype)

    def each(self, label: Array, output: Array) -> Array:
        """Return the mean of h(p - y) for each sample."""
        np.subtract(output, label, out=self._difference)
        self.measure(self._difference.reshape(self._work.shape), self._work, self._losses)
        return np.divide(self._losses, self._outputs, out=self._losses)

    def derive(self, label: Array, output: Array, share: float | Array, out: Array) -> None:
        """Write share * h'(p - y) / outputs."""
        share /= self._outputs
        self.slope(self._difference, share, out)

    @abstractmethod
    def measure(self, difference: Array, work: Array, out: Array) -> None:
        """Write the sum of h over each row of `difference` (batch, outputs) into `out` (batch,); `work` is one more array."""

    @abstractmethod
    def slope(self, difference: Array, share: float | Array, out: Array) -> None:
        """Write share * h'(difference), after `measure`; arrays have the shape of the output; `share` is that of `derive`."""

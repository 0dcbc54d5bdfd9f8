"""Squared hinge, beside the hinge of `nn.loss.decisions`."""

from __future__ import annotations

from typing import Any

import numpy as np

from nn.arrays import Array, Shape
from nn.loss.decisions import Hinge


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

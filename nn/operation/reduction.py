"""What reductions have in common: which axes go, and what shape is left."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.batch_axis import batch_leads
from nn.operation.operation import Operation


class Reduction(Operation):
    """One number for all elements along some axes: `axis` is one, several or, for all, None.

    The axes are left out of the output or, with `keepdims`, stay with length 1. A reduction over the batch axis gives one
    number for the samples that are computed together.
    """

    def __init__(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> None:
        self.axis = axis if axis is None else tuple(axis) if isinstance(axis, Sequence) else (axis,)
        self.keepdims = keepdims
        for single in self.axis or ():
            if isinstance(single, bool) or not isinstance(single, (int, np.integer)):
                raise TypeError(f"{type(self).__name__} 'axis' must be an integer, a tuple of integers or None, got {axis!r}")

    def infer(self, *shapes: Shape) -> Shape:
        """Return the shape without the reduced axes, or with 1 in their places."""
        axes = self._axes(shapes[0])
        if self.keepdims:
            return self._kept(shapes[0])
        return tuple(length for axis, length in enumerate(shapes[0]) if axis not in axes)

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Whether the batch is the first axis and stays."""
        return batch_leads(shapes[0]) and 0 not in self._axes(shapes[0])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Fix the axes for this shape."""
        self._reduced = self._axes(shapes[0])
        self._with_ones = self._kept(shapes[0])

    def expand(self, array: Array) -> Array:
        """Return an array of the output's shape so that it broadcasts against the input."""
        return array.reshape(self._with_ones)

    def _axes(self, shape: Shape) -> tuple[int, ...]:
        rank = len(shape)
        given = range(rank) if self.axis is None else self.axis
        for axis in given:
            if not -rank <= axis < rank:
                raise ValueError(f"{type(self).__name__}: axis {axis} does not exist in shape {shape}")
        axes = tuple(sorted({axis % rank for axis in given}))
        if len(axes) < len(given):
            raise ValueError(f"{type(self).__name__}: 'axis' names an axis of shape {shape} twice, got {self.axis}")
        return axes

    def _kept(self, shape: Shape) -> Shape:
        axes = self._axes(shape)
        return tuple(1 if axis in axes else length for axis, length in enumerate(shape))

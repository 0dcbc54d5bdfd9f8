"""Sums, means, maxima and minima over axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array, Shape
from nn.operation.broadcasting import Summation
from nn.operation.operation import Operation, batch_leads


class Reduction(Operation):
    """One number for all elements along some axes: `axis` is one, several or, for all, None.

    The axes are left out of the output or, with `keepdims`, stay with length 1. A reduction over the batch axis gives one
    number for the samples that are computed together.
    """

    def __init__(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> None:
        self.axis = axis if axis is None else tuple(axis) if isinstance(axis, Sequence) else (axis,)
        self.keepdims = arguments.flag(self, "keepdims", keepdims)
        for single in self.axis or ():
            if isinstance(single, bool) or not isinstance(single, (int, np.integer)):
                raise TypeError(f"{type(self).__name__} 'axis' must be an integer, a tuple of integers or None, got {axis!r}")

    def infer(self, *shapes: Shape) -> Shape:
        axes = self._axes(shapes[0])
        if self.keepdims:
            return self._kept(shapes[0])
        return tuple(length for axis, length in enumerate(shapes[0]) if axis not in axes)

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0]) and 0 not in self._axes(shapes[0])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
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
        # Sorted and counted from the front: `Summation` looks for neighbouring axes.
        axes = tuple(sorted({axis % rank for axis in given}))
        if len(axes) < len(given):
            raise ValueError(f"{type(self).__name__}: 'axis' names an axis of shape {shape} twice, got {self.axis}")
        return axes

    def _kept(self, shape: Shape) -> Shape:
        axes = self._axes(shape)
        return tuple(1 if axis in axes else length for axis, length in enumerate(shape))


class Sum(Reduction):
    """The sum over some axes."""

    reads_inputs: ClassVar[bool] = False

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        self._sum = Summation(shapes[0], self._reduced, dtype, self.scratch)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        self._sum(inputs[0], out)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        if wanted[0] is not None:
            np.copyto(wanted[0], self.expand(gradient))


class Mean(Sum):
    """The arithmetic mean over some axes."""

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        # Multiplied by, because a division takes several times as long.
        self._share = 1 / math.prod(shapes[0][axis] for axis in self._reduced)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        super().forward(inputs, out)
        np.multiply(out, self._share, out=out)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        if wanted[0] is not None:
            np.multiply(self.expand(gradient), self._share, out=wanted[0])


class Max(Reduction):
    """The greatest element over some axes; equal ones share its gradient equally."""

    function: ClassVar[np.ufunc] = np.maximum

    reads_output: ClassVar[bool] = True

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        self._count = Summation(shapes[0], self._reduced, dtype, self.scratch)
        # Of the type of the gradient, not bool: its sum counts the maxima, and a product shares the gradient out.
        self._mask = self.scratch.empty(shapes[0], dtype)
        self._share = self.scratch.empty(self._with_ones, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        self.function.reduce(inputs[0], axis=self._reduced, keepdims=self.keepdims, out=out)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        if wanted[0] is not None:
            np.equal(inputs[0], self.expand(output), out=self._mask)
            self._count(self._mask, self._share)
            np.divide(self.expand(gradient), self._share, out=self._share)
            np.multiply(self._mask, self._share, out=wanted[0])


class Min(Max):
    """The least element over some axes; equal ones share its gradient equally."""

    function: ClassVar[np.ufunc] = np.minimum

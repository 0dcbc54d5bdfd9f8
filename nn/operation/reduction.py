"""Sums, means, maxima and minima over axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nn import arguments
from nn.arrays import Array, Shape
from nn.operation.broadcasting import Summation
from nn.operation.operation import Operation, batch_leads


class Reduction(Operation):
    """One number for all elements along some axes.

    A reduction over the batch axis gives one number for the samples that are computed together.

    Args:
        axis: an axis, several or, for all, None.
        keepdims: whether the axes stay in the output, with length 1, or are left out.
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
            # Each element has the gradient of its sum; the copy broadcasts.
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


LINE = 512
"""Elements of a row that is combined with others, at least, where places can lie side by side in it."""

LONGEST_LINE = 4096
"""Elements of a row of several places, at most."""

AT_ONCE = 131_072
"""Elements in hand at a time: two arrays of this size fit into a core's second-level cache."""


class _Lines(NamedTuple):
    """A view of an array: (before, rows, repeats * after), of which the rows, and repeats in a row, are reduced.

    Args:
        before: elements of the axes before those that are reduced.
        rows: rows of places, at most 255, so that a byte counts them.
        repeats: places that lie side by side in a row.
        after: elements of the axes behind.
        some: entries of the first axis that are in hand at a time.
    """

    before: int
    rows: int
    repeats: int
    after: int
    some: int


def _lines(shape: Shape, axes: tuple[int, ...], factor: int) -> _Lines | None:
    """Return the view for a reduction over neighbouring axes; None where there is none with long rows, and several of them."""
    if not axes or axes != tuple(range(axes[0], axes[-1] + 1)) or axes[-1] == len(shape) - 1:
        return None
    before, length, after = (
        math.prod(part) for part in (shape[: axes[0]], shape[axes[0] : axes[-1] + 1], shape[axes[-1] + 1 :])
    )
    # A row alone may be longer; several places may not make one that long.
    for repeats in range(1, min(length, max(2, LONGEST_LINE // after + 1))):
        if length % repeats == 0 and repeats * after >= LINE and length // repeats <= 255:
            return _Lines(before, length // repeats, repeats, after, min(before, max(1, factor * AT_ONCE // (length * after))))
    return None


class Max(Reduction):
    """The greatest element over some axes; equal ones share its gradient equally."""

    function: ClassVar[np.ufunc] = np.maximum

    reads_output: ClassVar[bool] = True

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        self._lines = _lines(shapes[0], self._reduced, self.block_factor)
        if self._lines is None:
            self._count = Summation(shapes[0], self._reduced, dtype, self.scratch)
            # Of the type of the gradient, not bool: its sum counts the maxima, and a product shares the gradient out.
            self._mask = self.scratch.empty(shapes[0], dtype)
            self._share = self.scratch.empty(self._with_ones, dtype)
            return
        before, rows, repeats, after, some = self._lines
        width = repeats * after
        self._best, self._line = self.scratch.empty((before, width), dtype), self.scratch.empty((some, 1, width), dtype)
        self._found = self.scratch.empty((some, rows, width), np.dtype(bool))
        self._counts = self.scratch.empty((some, width), np.dtype(np.uint8))
        self._share = self.scratch.empty((some, after), dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        if self._lines is None:
            self.function.reduce(inputs[0], axis=self._reduced, keepdims=self.keepdims, out=out)
            return
        before, rows, repeats, after, _ = self._lines
        # Place by place in short rows NumPy takes more than twice as long.
        self.function.reduce(inputs[0].reshape(before, rows, -1), axis=1, out=self._best)
        self.function.reduce(self._best.reshape(before, repeats, after), axis=1, out=out.reshape(before, after))

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        if wanted[0] is None:
            return
        if self._lines is not None:
            self._share_out(self._lines, inputs[0], output, gradient, wanted[0])
            return
        np.equal(inputs[0], self.expand(output), out=self._mask)
        self._count(self._mask, self._share)
        np.divide(self.expand(gradient), self._share, out=self._share)
        np.multiply(self._mask, self._share, out=wanted[0])

    def _share_out(self, lines: _Lines, x: Array, output: Array, gradient: Array, target: Array) -> None:
        """Write the gradient of x, a few entries of the first axis at a time: masks of these stay in the cache."""
        before, rows, repeats, after, some = lines
        whole, given = x.reshape(before, rows, -1), target.reshape(before, rows, -1)
        best, gradients = output.reshape(before, 1, after), gradient.reshape(before, after)
        for start in range(0, before, some):
            part = slice(start, min(start + some, before))
            count = part.stop - start
            found, counts, share, line = (each[:count] for each in (self._found, self._counts, self._share, self._line))
            np.copyto(line.reshape(count, repeats, after), best[part])
            np.equal(whole[part], line, out=found)
            # As bytes, a quarter of the memory: there are few enough rows to be counted by one.
            np.add.reduce(found.view(np.uint8), axis=1, out=counts)
            np.add.reduce(counts.reshape(count, repeats, after), axis=1, dtype=share.dtype, out=share)
            np.divide(gradients[part], share, out=share)
            np.copyto(line.reshape(count, repeats, after), share[:, np.newaxis])
            # Not copied where it is found, which takes long where a mask changes often, as of channels that are 0 everywhere.
            np.multiply(line, found, out=given[part])


class Min(Max):
    """The least element over some axes; equal ones share its gradient equally."""

    function: ClassVar[np.ufunc] = np.minimum


FEW = 16
"""Rows of which NumPy finds the maxima one by one in less time than three calls take."""


def maximum_of_rows(x: Array, out: Array) -> Array:
    """Write the greatest number of each row into `out`, and return that; NaN where a row has one.

    Args:
        x: the rows along the last axis.
        out: contiguous memory in the shape of x with a last axis of 1.
    """
    if out.size <= FEW or not x.flags.c_contiguous:
        # A reshape of a strided array would be a copy.
        return np.maximum.reduce(x, axis=-1, keepdims=True, out=out)
    # NumPy finds the place of a maximum several times faster than a maximum of short rows.
    places = x.reshape(-1, x.shape[-1]).argmax(axis=1)
    np.add(places, np.arange(0, x.size, x.shape[-1]), out=places)
    # Mode "raise" would go through a buffer.
    x.take(places, out=out.reshape(-1), mode="clip")
    return out

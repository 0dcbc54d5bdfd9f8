"""Layers that give images and sequences another size: zeros around them, a part of them, or each cell several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from nn import arguments
from nn.arrays import LENGTH
from nn.layer.layer import Layer, direct
from nn.operation.convolution import window
from nn.operation.shape import Pad, Repeat
from nn.resampling import mixing
from nn.value.value import Value, as_value

# 64 MiB in float32: the matrix is dense, although each row has two weights.
_MOST_WEIGHTS = 1 << 24

Sides = int | Sequence[int] | Sequence[Sequence[int]]
"""Cells on each side: a number for all; a pair, of sequences before and behind, of images those of height and of width; or
for images a pair of pairs, ((top, bottom), (left, right))."""


class _Sides(Layer):
    """Common part of layers with a number of cells for each side."""

    def _settle(self, name: str, given: Sides) -> int | list[int] | list[list[int]]:
        """Return the argument as plain numbers; raise TypeError or ValueError naming it."""
        if not isinstance(given, (list, tuple)):
            return arguments.integer(self, name, given, minimum=0)
        if len(given) != 2:
            raise ValueError(f"{type(self).__name__} '{name}' must be a number, a pair, or a pair of pairs, got {given!r}")
        if any(isinstance(each, (list, tuple)) for each in given):
            # Numbers beside a pair stand for both sides.
            pairs = [list(each) if isinstance(each, (list, tuple)) else [each, each] for each in given]
            if any(len(pair) != 2 for pair in pairs):
                raise ValueError(f"{type(self).__name__} '{name}' must be a number, a pair, or a pair of pairs, got {given!r}")
            return [[arguments.integer(self, name, cells, minimum=0) for cells in pair] for pair in pairs]
        return [arguments.integer(self, name, cells, minimum=0) for cells in given]

    def _widths(self, name: str, sides: int | list[int] | list[list[int]], x: Value) -> list[list[int]]:
        """Return (before, behind) for each axis between batch and channels."""
        axes = window.axes_of(self.describe(), x.shape)
        if isinstance(sides, int):
            return [[sides, sides]] * axes
        if isinstance(sides[0], list):
            if axes == 1:
                raise ValueError(f"'{name}' of sequences must be a number or a pair, before and behind, got {sides!r}")
            return [list(pair) for pair in sides if isinstance(pair, list)]
        numbers = [cells for cells in sides if isinstance(cells, int)]
        return [numbers] if axes == 1 else [[cells, cells] for cells in numbers]


class ZeroPadding(_Sides, configured=True):
    """Zeros around images or sequences.

    Shapes: (batch, height, width, channels) to (batch, top + height + bottom, left + width + right, channels), or (batch, time,
    channels) to (batch, before + time + behind, channels).

    Args:
        padding: cells on each side: a number for all; a pair, of sequences before and behind, of images (above and below, left
            and right); or for images a pair of pairs, ((top, bottom), (left, right)).
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for another padding, or one that does not fit the inputs.

    >>> nn.layer.ZeroPadding(((0, 1), (0, 1)))(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 33, 33, 3)
    """

    def __init__(self, padding: Sides = 1, name: str | None = None) -> None:
        super().__init__(name)
        self.padding = self._settle("padding", padding)

    def call(self, x: Value) -> Value:
        return direct(Pad(self._widths("padding", self.padding, x)), x)


class Cropping(_Sides, configured=True):
    """The inner part of images or sequences.

    Shapes: (batch, height, width, channels) to (batch, height - top - bottom, width - left - right, channels), or (batch, time,
    channels) to (batch, time - before - behind, channels).

    Args:
        cropping: cells to leave out on each side, as `ZeroPadding` takes those to add.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for another cropping, or one that leaves nothing of the inputs.

    >>> nn.layer.Cropping(2)(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 28, 28, 3)
    """

    def __init__(self, cropping: Sides = 1, name: str | None = None) -> None:
        super().__init__(name)
        self.cropping = self._settle("cropping", cropping)

    def call(self, x: Value) -> Value:
        widths = self._widths("cropping", self.cropping, x)
        for axis, (length, width) in enumerate(zip(x.shape[1:], widths, strict=False), start=1):
            if length != LENGTH and sum(width) >= length:
                raise ValueError(f"'cropping' must leave cells of axis {axis}, got {width[0]} and {width[1]} of {length}")
        # Counted from behind, as of an axis of any length the end is not known yet.
        return x[(slice(None), *(slice(before, -behind or None) for before, behind in widths))]


class UpSampling(Layer, configured=True):
    """Each cell of images or sequences several times, or cells between them.

    Shapes: (batch, height, width, channels) to (batch, height * size, width * size, channels), or (batch, time, channels) to
    (batch, time * size, channels).

    Args:
        size: how many times as many cells, a number for all axes or one for each.
        interpolation: 'nearest' repeats each cell; 'bilinear' mixes the two nearest along each axis by their distance, with
            centres of cells at halves, as Keras and torch (`align_corners=False`) do.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for other arguments and shapes.

    >>> nn.layer.UpSampling(2)(nn.Placeholder([-1, 7, 7, 64])).shape
    (-1, 14, 14, 64)
    """

    def __init__(
        self,
        size: int | Sequence[int] = 2,
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        # A list may have one entry, for sequences, or two; the rank of the inputs is not known yet.
        listed = isinstance(size, Sequence) and not isinstance(size, (str, bytes))
        pair = window.lengths(self, "size", size, 1 if isinstance(size, Sequence) and len(size) == 1 else 2)
        self.size = list(pair) if listed else pair[0]
        self.interpolation = arguments.one_of(self, "interpolation", interpolation, ("nearest", "bilinear"))

    def call(self, x: Value) -> Value:
        axes = window.axes_of(self.describe(), x.shape)
        times = window.lengths(self, "size", self.size, axes)
        if self.interpolation == "nearest":
            return direct(Repeat(times), x)
        # One axis after the other: the weights of bilinear mixing are products of those along each axis.
        for axis, count in enumerate(times, start=1):
            x = interpolated(x, axis, x.shape[axis] * count)
        return x


def interpolated(x: Value, axis: int, cells: int) -> Value:
    """Return x with another number of cells along one axis, each a mixture of two: a product with a matrix.

    Args:
        x: images or sequences, all but the batch known.
        axis: the axis, from 1.
        cells: their number in the result.
    """
    before, length, after = x.shape[1:axis], x.shape[axis], x.shape[axis + 1 :]
    if cells == length:
        return x
    if length * cells > _MOST_WEIGHTS:
        raise ValueError(
            f"'bilinear' takes at most {_MOST_WEIGHTS} weights along an axis, the product of both lengths, got {length} and "
            f"{cells}"
        )
    behind = int(np.prod(after))
    # A matrix product works on the last two axes, so the axes before become part of the batch.
    stacked = x.reshape(-1, length, behind)
    return (as_value(mixing(length, cells)) @ stacked).reshape(-1, *before, cells, *after)

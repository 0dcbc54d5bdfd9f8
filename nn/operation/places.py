"""Places of the greatest elements along an axis, and the elements at places that are computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.arrays import BATCH, LENGTH, Array, Shape
from nn.operation.index import read_ids
from nn.operation.operation import Operation, batch_leads


class TopPlaces(Operation):
    """Places of the greatest elements along an axis, the greatest first, of equal ones the first; no gradient.

    NaN is the greatest, as for `np.argmax` and the functions of torch. Raises ValueError for an axis that does not exist, is
    the batch, has fewer elements, or more than the type tells apart, 2**24 for float32.

    Args:
        count: number of the elements, the length of the axis of the output.
        axis: the axis, counted from the end where negative.

    >>> scores = nn.Placeholder([-1, 8400])
    >>> places = nn.operation.TopPlaces(100)(scores)
    >>> nn.operation.TakeAlong()(scores, places).shape
    (-1, 100)
    """

    reads_inputs: ClassVar[bool] = False
    differentiable: ClassVar[bool] = False

    def __init__(self, count: int, axis: int = -1) -> None:
        self.count = arguments.integer(self, "count", count, minimum=1)
        self.axis = axis

    def infer(self, *shapes: Shape) -> Shape:
        (shape,) = shapes
        axis = _axis(self, shape, self.axis)
        if shape[axis] != LENGTH and self.count > shape[axis]:
            raise ValueError(f"TopPlaces 'count' must be at most {shape[axis]}, axis {axis} of shape {shape}, got {self.count}")
        return (*shape[:axis], self.count, *shape[axis + 1 :])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._along = _axis(self, shapes[0], self.axis)
        length, limit = shapes[0][self._along], 1 << (np.finfo(dtype).nmant + 1)
        if length > limit:
            raise ValueError(f"TopPlaces: {dtype} tells at most {limit} places apart, axis {self._along} has {length}")
        self._last = length - 1
        self._greatest = (slice(None),) * self._along + (slice(None, -self.count - 1, -1),)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        if self.count == 1:
            np.copyto(out, inputs[0].argmax(axis=self._along, keepdims=True))
            return
        # Sorted from the back, and read from there again, equal elements and NaN keep their order. The greatest of negative
        # numbers would leave NaN behind.
        order = np.flip(inputs[0], self._along).argsort(axis=self._along, kind="stable")
        np.subtract(self._last, order[self._greatest], out=out)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        for target in wanted:
            if target is not None:
                target.fill(0)


class TakeAlong(Operation):
    """Elements of x at places along an axis: inputs x (batch, ..., n, ...) and places (batch, ..., k, ...), of whole numbers.

    The output has the shape of the places, and its element at i is that of x at i with the place in place of the number for
    the axis. An element that is taken several times has the sum of the gradients; places have none. Raises ValueError for
    shapes that differ on another axis and, when it is computed, for places that are none.
    """

    reads_inputs: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float] | None] = (-math.inf, math.inf)

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def infer(self, *shapes: Shape) -> Shape:
        x, places = shapes
        axis = _axis(self, x, self.axis)
        if len(x) != len(places) or (*x[:axis], *x[axis + 1 :]) != (*places[:axis], *places[axis + 1 :]):
            raise ValueError(f"TakeAlong: shapes {x} and {places} must differ on axis {axis} alone")
        return places

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return all(batch_leads(shape) for shape in shapes)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        x, places = shapes
        axis = _axis(self, x, self.axis)
        self._count = x[axis]
        # Kept from forward to backward: the places may have been overwritten by then.
        self._places = self._lasting.empty(places, np.dtype(np.intp))
        self._whole = self.scratch.empty(places, dtype)
        self._equal = self.scratch.empty(places, np.dtype(bool))
        grid: list[Array] = list(np.ogrid[tuple([slice(length) for length in places])])
        grid[axis] = self._places
        self._key = tuple(grid)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        x, places = inputs
        read_ids(lambda: "TakeAlong", places, self._count, self._places, (self._whole, self._equal))
        np.copyto(out, x[self._key])

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        for_x, for_places = wanted
        if for_x is not None:
            for_x.fill(0)
            np.add.at(for_x, self._key, gradient)
        if for_places is not None:
            for_places.fill(0)


def _axis(operation: Operation, shape: Shape, axis: int) -> int:
    """Return an axis counted from the front."""
    name = type(operation).__name__
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)) or not -len(shape) <= axis < len(shape):
        raise ValueError(f"{name} 'axis' must be an axis of shape {shape}, got {axis!r}")
    if shape[axis] == BATCH:
        raise ValueError(f"{name} 'axis' must not be the batch of shape {shape}, got {axis}")
    return int(axis) % len(shape)

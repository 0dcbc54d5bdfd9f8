"""Element-wise operations on two arrays with NumPy's broadcasting, and the way back: sums over the repeated axes."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.operation import Operation


def broadcast_shape(owner: str, first: Shape, second: Shape) -> Shape:
    """Return the common shape of two arrays; the unknown batch axis fits itself and 1."""
    length = max(len(first), len(second))
    axes = []
    for a, b in zip((1,) * (length - len(first)) + first, (1,) * (length - len(second)) + second, strict=True):
        if a != b and 1 not in (a, b):
            raise ValueError(f"{owner}: shapes {first} and {second} do not fit together")
        axes.append(b if a == 1 else a)
    return tuple(axes)


class Unbroadcast:
    """Brings a gradient of the broadcast shape back to the shape of one operand."""

    def __init__(self, shape: Shape, full: Shape, dtype: np.dtype[Any]) -> None:
        self._shape, self._full, self._dtype = shape, full, dtype
        padded = (1,) * (len(full) - len(shape)) + shape
        self._axes = tuple(axis for axis, (a, b) in enumerate(zip(padded, full, strict=True)) if a != b)
        self._kept = padded
        leading = self._axes == tuple(range(len(self._axes)))
        rows = int(np.prod(full[: len(self._axes)]))
        # a sum over leading axes is a product with ones, which BLAS does faster than NumPy's reduction
        self._ones = np.ones(rows, dtype) if leading and self._axes else None
        self._space: Array | None = None

    def space(self, wanted: Array) -> Array:
        """Return an array of the broadcast shape to compute in: `wanted` itself where the shapes agree."""
        if not self._axes:
            return wanted if wanted.shape == self._full else wanted.reshape(self._full)
        if self._space is None:
            self._space = np.empty(self._full, self._dtype)
        return self._space

    def reduce(self, gradient: Array, wanted: Array) -> None:
        """Write the sum of `gradient` over the repeated axes into `wanted`."""
        if not self._axes:
            if gradient is not wanted and not np.may_share_memory(gradient, wanted):
                np.copyto(wanted, gradient.reshape(self._shape))
        elif self._ones is not None:
            np.matmul(self._ones, gradient.reshape(self._ones.size, -1), out=wanted.reshape(-1))
        else:
            np.sum(gradient, axis=self._axes, keepdims=True, out=wanted.reshape(self._kept))


class Broadcasting(Operation):
    """An element-wise operation on two arrays; a subclass gives its value and its two partial derivatives."""

    in_place: ClassVar[bool] = True

    def infer(self, *shapes: Shape) -> Shape:
        """Return the broadcast shape."""
        first, second = shapes
        return broadcast_shape(type(self).__name__, first, second)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Plan the sums over repeated axes."""
        self._sides = [Unbroadcast(shape, output, dtype) for shape in shapes]

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Compute each wanted partial product and sum it over the repeated axes."""
        for side in (1, 0):
            target = wanted[side]
            if target is not None:
                space = self._sides[side].space(target)
                self._sides[side].reduce(self.partial(side, inputs, output, gradient, space), target)

    @abstractmethod
    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        """Return gradient * d output / d inputs[side], of the broadcast shape, computed in `out` if at all."""

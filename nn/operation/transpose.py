"""Another order of the axes."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.batch_axis import batch_leads
from nn.operation.operation import Operation


class Transpose(Operation):
    """The elements of a with its axes in another order: axis i of the output is axis `axes[i]` of a. Without axes, reversed.

    Raises ValueError where `axes` does not name every axis of a once.
    """

    reads_inputs: ClassVar[bool] = False

    def __init__(self, axes: Sequence[int] | None = None) -> None:
        self.axes = None if axes is None else tuple(axes)

    def infer(self, *shapes: Shape) -> Shape:
        """Return the lengths in the new order."""
        return tuple(shapes[0][axis] for axis in self._order(shapes[0]))

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Whether the batch is the first axis before and after."""
        return batch_leads(shapes[0]) and self._order(shapes[0])[0] == 0

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Copy the elements to their places."""
        np.copyto(out, inputs[0].transpose(self._order(out.shape)))

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Copy the gradient back."""
        if wanted[0] is not None:
            np.copyto(wanted[0].transpose(self._order(gradient.shape)), gradient)

    def _order(self, shape: Shape) -> tuple[int, ...]:
        rank = len(shape)
        if self.axes is None:
            return tuple(reversed(range(rank)))
        order = tuple(axis + rank if -rank <= axis < 0 else axis for axis in self.axes)
        if sorted(order) != list(range(rank)):
            raise ValueError(f"Transpose: 'axes' must name every axis of shape {shape} once, got {self.axes}")
        return order

"""Arrays side by side."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import BATCH, Array, Shape
from nn.operation.batch_axis import batch_leads
from nn.operation.operation import Operation


class Concatenate(Operation):
    """Arrays joined along one axis, which is not the batch; their other axes are equal.

    Raises ValueError naming shapes that do not fit together or an axis that does not exist.
    """

    reads_inputs: ClassVar[bool] = False

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def infer(self, *shapes: Shape) -> Shape:
        """Return the common shape with the sum of the lengths along the axis."""
        first = shapes[0]
        if not -len(first) <= self.axis < len(first):
            raise ValueError(f"Concatenate: axis {self.axis} does not exist in shape {first}")
        axis = self.axis % len(first)
        for shape in shapes:
            if len(shape) != len(first) or shape[:axis] + shape[axis + 1 :] != first[:axis] + first[axis + 1 :]:
                raise ValueError(f"Concatenate: shapes {first} and {shape} differ on other axes than {axis}")
            if shape[axis] == BATCH:
                raise ValueError(f"Concatenate: axis {axis} of shape {shape} is the batch, which cannot grow")
        return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Whether the batch is the first axis."""
        return all(batch_leads(shape) for shape in shapes)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Note where each input goes."""
        axis = self.axis % len(output)
        ends = np.cumsum([shape[axis] for shape in shapes]).tolist()
        starts = [0, *ends[:-1]]
        self._places = [(slice(None),) * axis + (slice(start, end),) for start, end in zip(starts, ends, strict=True)]

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Copy each input to its place."""
        for array, part in zip(inputs, self._parts(out), strict=True):
            np.copyto(part, array)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Copy each part of the gradient."""
        for target, part in zip(wanted, self._parts(gradient), strict=True):
            if target is not None:
                np.copyto(target, part)

    def _parts(self, whole: Array) -> Iterator[Array]:
        return (whole[place] for place in self._places)

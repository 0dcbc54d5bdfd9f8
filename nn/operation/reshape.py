"""Another shape for the same elements."""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from nn import arguments
from nn.arrays import BATCH, Array, Shape
from nn.operation.batch_axis import batch_leads
from nn.operation.operation import Operation


class Reshape(Operation):
    """The elements of a in row-major order, in another shape; one axis may be -1 and takes what is left.

    Raises ValueError where the elements do not fit. While the batch is unknown that is so where neither a sample is cut into
    whole rows of the new shape nor a row takes whole samples; else it shows when data arrive.
    """

    in_place: ClassVar[bool] = True
    aliases: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = False

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = arguments.shape("Reshape", "shape", shape, unknown=1)

    def infer(self, *shapes: Shape) -> Shape:
        """Return the new shape; -1 stays while the batch axis of the input is unknown."""
        known = math.prod(axis for axis in self.shape if axis != BATCH)
        if BATCH in shapes[0]:
            sample = math.prod(axis for axis in shapes[0] if axis != BATCH)
            if known % sample and (sample % known or BATCH not in self.shape):
                raise ValueError(
                    f"Reshape: samples of {sample} elements, shape {shapes[0]}, do not fit into rows of {known} elements, "
                    f"shape {self.shape}"
                )
            return self.shape
        size = math.prod(shapes[0])
        if BATCH not in self.shape and known == size:
            return self.shape
        if BATCH not in self.shape or size % known:
            raise ValueError(f"Reshape: {size} elements of shape {shapes[0]} do not fit into shape {self.shape}")
        return tuple(size // known if axis == BATCH else axis for axis in self.shape)

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Whether the batch stays the first axis and every sample keeps its elements."""
        shape = shapes[0]
        return batch_leads(shape) and batch_leads(self.shape) and math.prod(shape[1:]) == math.prod(self.shape[1:])

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Copy, unless the output already is the input's memory."""
        if not np.may_share_memory(inputs[0], out):
            np.copyto(out, inputs[0].reshape(out.shape))

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Copy, unless the wanted gradient already is the output's."""
        if wanted[0] is not None and not np.may_share_memory(gradient, wanted[0]):
            np.copyto(wanted[0], gradient.reshape(wanted[0].shape))

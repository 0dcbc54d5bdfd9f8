"""Sums of products over several axes."""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from nn import arguments
from nn.arrays import BATCH, Array, Shape
from nn.operation.batch_axis import batch_leads
from nn.operation.operation import Operation


class TensorDot(Operation):
    """The last `axes` axes of a contracted with the first of b: (..., k1, k2), (k1, k2, ...) give (..., ...) for two axes.

    One matrix product, without copies. Raises ValueError where the contracted axes differ.
    """

    multiplies: ClassVar[bool] = True

    def __init__(self, axes: int = 1) -> None:
        self.axes = arguments.integer(self, "axes", axes, minimum=1)

    def infer(self, *shapes: Shape) -> Shape:
        """Return the axes that are left."""
        a, b = shapes
        if self.axes > min(len(a), len(b)) or a[-self.axes :] != b[: self.axes] or BATCH in b:
            raise ValueError(f"TensorDot: the last {self.axes} axes of shape {a} are not the first of shape {b}")
        return (*a[: -self.axes], *b[self.axes :])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Whether a has the batch first."""
        return batch_leads(shapes[0]) and len(shapes[0]) > self.axes

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the product."""
        a, b, flat = self._matrices(inputs, out)
        np.matmul(a, b, out=flat)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write gradient @ b^T for a and a^T @ gradient for b, as matrices."""
        a, b, flat = self._matrices(inputs, gradient)
        if wanted[1] is not None:
            np.matmul(a.T, flat, out=wanted[1].reshape(b.shape))
        if wanted[0] is not None:
            np.matmul(flat, b.T, out=wanted[0].reshape(a.shape))

    def _matrices(self, inputs: Sequence[Array], out: Array) -> tuple[Array, Array, Array]:
        a, b = inputs
        summed = math.prod(b.shape[: self.axes])
        return a.reshape(-1, summed), b.reshape(summed, -1), out.reshape(-1, b.size // summed)

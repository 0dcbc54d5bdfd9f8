"""Negation."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.operation import Operation


class Negative(Operation):
    """-a."""

    in_place: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = False

    def infer(self, *shapes: Shape) -> Shape:
        """Return the shape of the input."""
        return shapes[0]

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write -a."""
        np.negative(inputs[0], out=out)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write -gradient."""
        if wanted[0] is not None:
            np.negative(gradient, out=wanted[0])

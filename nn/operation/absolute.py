"""The absolute value."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.elementwise import Elementwise


class Absolute(Elementwise):
    """|a|; the derivative at 0 is taken as 0."""

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the derivative."""
        self._derivative = self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write |a|."""
        np.absolute(inputs[0], out=out)

    def derive(self, a: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient * sign(a)."""
        np.sign(a, out=self._derivative)
        np.multiply(gradient, self._derivative, out=out)

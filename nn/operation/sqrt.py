"""The square root."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from nn.arrays import Array
from nn.operation.elementwise import Elementwise


class Sqrt(Elementwise):
    """The square root of a, for positive a: at 0 the derivative is infinite."""

    reads_inputs: ClassVar[bool] = False
    reads_output: ClassVar[bool] = True

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the root."""
        np.sqrt(inputs[0], out=out)

    def derive(self, a: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient / (2 * root)."""
        np.divide(gradient, output, out=out)
        np.multiply(out, 0.5, out=out)

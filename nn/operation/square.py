"""The square."""

from collections.abc import Sequence

import numpy as np

from nn.arrays import Array
from nn.operation.elementwise import Elementwise


class Square(Elementwise):
    """a * a."""

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write a * a."""
        np.square(inputs[0], out=out)

    def derive(self, a: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient * a * 2."""
        np.multiply(gradient, a, out=out)
        np.multiply(out, 2, out=out)

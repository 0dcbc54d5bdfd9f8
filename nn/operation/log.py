"""The natural logarithm."""

from collections.abc import Sequence

import numpy as np

from nn.arrays import Array
from nn.operation.elementwise import Elementwise


class Log(Elementwise):
    """ln a, for positive a."""

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write ln a."""
        np.log(inputs[0], out=out)

    def derive(self, a: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient / a."""
        np.divide(gradient, a, out=out)

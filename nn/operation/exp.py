"""The exponential function."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from nn.arrays import Array
from nn.operation.elementwise import Elementwise


class Exp(Elementwise):
    """e ** a."""

    reads_inputs: ClassVar[bool] = False
    reads_output: ClassVar[bool] = True

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write e ** a."""
        np.exp(inputs[0], out=out)

    def derive(self, a: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write gradient * e ** a."""
        np.multiply(gradient, output, out=out)

"""Negation."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from nn.arrays import Array
from nn.operation.elementwise import Elementwise


class Negative(Elementwise):
    """-a."""

    reads_inputs: ClassVar[bool] = False

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write -a."""
        np.negative(inputs[0], out=out)

    def derive(self, a: Array, output: Array, gradient: Array, out: Array) -> None:
        """Write -gradient."""
        np.negative(gradient, out=out)

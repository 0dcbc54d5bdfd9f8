"""Subtraction."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from nn.arrays import Array
from nn.operation.broadcasting import Broadcasting


class Subtract(Broadcasting):
    """a - b."""

    reads_inputs: ClassVar[bool] = False

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write a - b."""
        np.subtract(inputs[0], inputs[1], out=out)

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        """Return the gradient for a, its negative for b."""
        return gradient if side == 0 else np.negative(gradient, out=out)

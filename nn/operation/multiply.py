"""Element-wise multiplication."""

from collections.abc import Sequence

import numpy as np

from nn.arrays import Array
from nn.operation.broadcasting import Broadcasting


class Multiply(Broadcasting):
    """a * b."""

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write a * b."""
        np.multiply(inputs[0], inputs[1], out=out)

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        """Return gradient * b for a, gradient * a for b."""
        return np.multiply(gradient, inputs[1 - side], out=out)

"""Element-wise division."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from nn.arrays import Array
from nn.operation.broadcasting import Broadcasting


class Divide(Broadcasting):
    """a / b."""

    reads_output: ClassVar[bool] = True

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write a / b."""
        np.divide(inputs[0], inputs[1], out=out)

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        """Return gradient / b for a, -gradient * (a / b) / b for b."""
        if side == 0:
            return np.divide(gradient, inputs[1], out=out)
        np.multiply(gradient, output, out=out)
        np.divide(out, inputs[1], out=out)
        return np.negative(out, out=out)

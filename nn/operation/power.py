"""Element-wise power."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from nn.arrays import Array
from nn.operation.broadcasting import Broadcasting


class Power(Broadcasting):
    """a ** b; a gradient of the exponent exists for positive a only."""

    reads_output: ClassVar[bool] = True

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write a ** b."""
        np.power(inputs[0], inputs[1], out=out)

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        """Return gradient * b * a ** (b - 1) for a, gradient * a ** b * ln a for b."""
        base, exponent = inputs
        if side == 0:
            factor = np.power(base, exponent - 1)
            np.multiply(factor, exponent, out=factor)
        else:
            factor = np.multiply(np.log(base), output)
        np.multiply(gradient, factor, out=out)
        return out

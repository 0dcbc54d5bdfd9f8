"""Element-wise power."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.broadcasting import Broadcasting


class Power(Broadcasting):
    """a ** b; a gradient of the exponent exists for positive a only."""

    reads_output: ClassVar[bool] = True

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the derivative."""
        super().allocate(shapes, output, dtype)
        self._factor = self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write a ** b."""
        np.power(inputs[0], inputs[1], out=out)

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        """Return gradient * b * a ** (b - 1) for a, gradient * a ** b * ln a for b."""
        base, exponent = inputs
        if side == 0:
            np.subtract(exponent, 1, out=self._factor)
            np.power(base, self._factor, out=self._factor)
            np.multiply(self._factor, exponent, out=self._factor)
        else:
            np.copyto(self._factor, base)
            np.log(self._factor, out=self._factor)
            np.multiply(self._factor, output, out=self._factor)
        return np.multiply(gradient, self._factor, out=out)

"""Sums over axes."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.reduction import Reduction
from nn.operation.summation import Summation


class Sum(Reduction):
    """The sum over some axes."""

    reads_inputs: ClassVar[bool] = False

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Plan the sum."""
        super().allocate(shapes, output, dtype)
        self._sum = Summation(shapes[0], self._reduced, dtype, self.scratch)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the sums."""
        self._sum(inputs[0], out)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Give every summand the gradient of its sum."""
        if wanted[0] is not None:
            np.copyto(wanted[0], self.expand(gradient))

"""What maximum and minimum over axes have in common."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.reduction import Reduction
from nn.operation.summation import Summation


class Extremum(Reduction):
    """The greatest or least element over some axes; elements that are equal to it share its gradient equally."""

    reads_output: ClassVar[bool] = True

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the mask of the extreme elements and for their number."""
        super().allocate(shapes, output, dtype)
        self._count = Summation(shapes[0], self._reduced, dtype, self.scratch)
        self._mask = self.scratch.empty(shapes[0], dtype)
        self._share = self.scratch.empty(self._with_ones, dtype)

    @abstractmethod
    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the extreme elements."""

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Divide each gradient among the elements that are extreme."""
        if wanted[0] is not None:
            np.equal(inputs[0], self.expand(output), out=self._mask)
            self._count(self._mask, self._share)
            np.divide(self.expand(gradient), self._share, out=self._share)
            np.multiply(self._mask, self._share, out=wanted[0])

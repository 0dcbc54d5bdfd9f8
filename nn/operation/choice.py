"""What the element-wise maximum and minimum of two arrays have in common."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.broadcasting import Broadcasting


class Choice(Broadcasting):
    """One of two elements in every place, by comparison; the gradient goes to the one that was taken."""

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the mask of the places where a was taken."""
        super().allocate(shapes, output, dtype)
        self._taken = self.scratch.empty(output, np.dtype(bool))

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        """Return the gradient where the element of this side was taken, else 0."""
        self.takes_first(inputs[0], inputs[1], self._taken)
        if side == 1:
            np.logical_not(self._taken, out=self._taken)
        return np.multiply(gradient, self._taken, out=out)

    @abstractmethod
    def takes_first(self, a: Array, b: Array, out: Array) -> None:
        """Write where the element of a is taken."""

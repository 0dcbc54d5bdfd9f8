"""What the element-wise maximum and minimum of two arrays have in common."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.broadcasting import Broadcasting


class Choice(Broadcasting):
    """One of two elements in every place, by comparison; the gradient goes to the one that was taken.

    Where both are equal each gets half of it, as in torch, and as `Max` and `Min` share theirs.
    """

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the masks of the places where an element was taken, and where both are equal."""
        super().allocate(shapes, output, dtype)
        self._taken = self.scratch.empty(output, np.dtype(bool))
        self._tied = self.scratch.empty(output, np.dtype(bool))

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        """Return the gradient where the element of this side was taken, half of it where both are equal, else 0."""
        a, b = inputs
        own, other = (a, b) if side == 0 else (b, a)
        self.loses(own, other, self._taken)
        np.logical_not(self._taken, out=self._taken)
        np.multiply(gradient, self._taken, out=out)
        np.equal(a, b, out=self._tied)
        if self._tied.any():
            np.multiply(out, 0.5, out=out, where=self._tied)
        return out

    @abstractmethod
    def loses(self, own: Array, other: Array, out: Array) -> None:
        """Write where the other element is taken because it is not the same as the own."""

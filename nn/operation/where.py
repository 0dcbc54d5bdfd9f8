"""A choice between two arrays by a condition."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.broadcasting import Broadcasting


class Where(Broadcasting):
    """a where the condition is not 0, else b; inputs (a, b, condition), which has no gradient.

    What is not chosen may be infinite or NaN: neither value nor gradient looks at it.
    """

    reads_inputs: ClassVar[bool] = False

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the condition."""
        super().allocate(shapes, output, dtype)
        self._chosen = np.empty(shapes[2], bool)
        self._other = np.empty(shapes[2], bool)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the chosen elements."""
        a, b, condition = inputs
        np.not_equal(condition, 0, out=self._chosen)
        np.logical_not(self._chosen, out=self._other)
        if not np.may_share_memory(a, out):
            np.copyto(out, a)
        np.copyto(out, b, where=self._other)

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        """Return the gradient where this input was chosen, else 0."""
        if side == 2:
            out.fill(0)
            return out
        left_out = self._other if side == 0 else self._chosen
        if not np.may_share_memory(gradient, out):
            np.copyto(out, gradient)
        np.copyto(out, 0, where=left_out)
        return out

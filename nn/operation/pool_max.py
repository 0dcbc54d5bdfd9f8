"""The greatest number of each window."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.pool import Pool, image, reduce


class PoolMax(Pool):
    """y = max over the window. The gradient goes to the first maximum, row by row; that of an equal one behind it is 0."""

    reads_output: ClassVar[bool] = True

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for the maxima of columns, and for where the maximum is and where it was found already."""
        super().allocate(shapes, output, dtype)
        self._half = self.scratch.empty((*self._shape[:2], self._columns.length, self._channels), dtype)
        self._here = self.scratch.empty(self._shape, np.dtype(bool))
        self._found = self.scratch.empty(self._shape, np.dtype(bool))
        self._share = None if self._apart else self.scratch.empty(self._shape, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the maxima, first along the height, then along the width."""
        half = self._half
        reduce(np.maximum, -np.inf, image(inputs[0]).swapaxes(0, 1), self._rows, half.swapaxes(0, 1))
        reduce(np.maximum, -np.inf, half.transpose(2, 0, 1, 3), self._columns, image(out).transpose(2, 0, 1, 3))

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write the gradient where the maximum is, 0 elsewhere."""
        if wanted[0] is None:
            return
        x, y, incoming, target = (image(array) for array in (inputs[0], output, gradient, wanted[0]))
        if not self._gapless:
            target.fill(0)
        self._found.fill(False)
        for at, cells in self._taps():
            here, found = self._here[at], self._found[at]
            np.equal(x[cells], y[at], out=here)
            np.greater(here, found, out=here)
            np.logical_or(found, here, out=found)
            if self._share is None:
                np.multiply(incoming[at], here, out=target[cells])
            else:
                share = self._share[at]
                np.multiply(incoming[at], here, out=share)
                np.add(target[cells], share, out=target[cells])

"""The mean of each window."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.convolution.window import Window
from nn.operation.pool import Pool, image, reduce


class PoolAverage(Pool):
    """y = mean over those cells of the window that lie in the input."""

    reads_inputs: ClassVar[bool] = False

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Count the cells of each window and make room for the sums of columns and for shares of gradients."""
        super().allocate(shapes, output, dtype)
        self._half = self.scratch.empty((*self._shape[:2], self._columns.length, self._channels), dtype)
        self._part = self.scratch.empty(self._shape, dtype)
        counts = np.outer(_cells(self._rows), _cells(self._columns))
        even = (counts == counts[0, 0]).all()
        self._weights = np.asarray(1 / (counts[0, 0] if even else counts[:, :, np.newaxis]), dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the means, summing first along the height, then along the width."""
        half, target = self._half, image(out)
        reduce(np.add, 0, image(inputs[0]).swapaxes(0, 1), self._rows, half.swapaxes(0, 1))
        reduce(np.add, 0, half.transpose(2, 0, 1, 3), self._columns, target.transpose(2, 0, 1, 3))
        np.multiply(target, self._weights, out=target)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Give each cell its share of the gradient of every window it is in."""
        if wanted[0] is None:
            return
        target = image(wanted[0])
        np.multiply(image(gradient), self._weights, out=self._part)
        if not self._gapless:
            target.fill(0)
        for at, cells in self._taps():
            if self._apart:
                np.copyto(target[cells], self._part[at])
            else:
                np.add(target[cells], self._part[at], out=target[cells])


def _cells(window: Window) -> list[int]:
    """Return how many cells of each position lie in the input."""
    counts = [0] * window.positions
    for tap in range(window.size):
        places, _ = window.reach(tap)
        for position in range(places.start, places.stop):
            counts[position] += 1
    return counts

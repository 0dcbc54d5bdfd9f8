"""What operations over windows of images or sequences have in common."""

from abc import ABC
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nn.arrays import BATCH, Array, Shape
from nn.operation.batch_axis import batch_leads
from nn.operation.convolution.window import Padding, Window, place
from nn.operation.operation import Operation


class Pool(Operation, ABC):
    """One number for each window and channel: (batch, height, width, channels) to (batch, height', width', channels).

    Sequences (batch, time, channels) have windows along the time. Cells of the padding do not count.
    """

    def __init__(self, size: Sequence[int], strides: Sequence[int], padding: Padding = "valid") -> None:
        self.size, self.strides, self.padding = tuple(size), tuple(strides), padding

    def infer(self, *shapes: Shape) -> Shape:
        """Return (batch, height', width', channels), or (batch, time', channels)."""
        (x,) = shapes
        owner = type(self).__name__
        if len(x) != len(self.size) + 2 or BATCH in x[1:]:
            axes = "height, width" if len(self.size) == 2 else "time"
            raise ValueError(f"{owner}: expected inputs of shape (batch, {axes}, channels), all but the batch known, got {x}")
        windows = place(owner, x[1:-1], self.size, self.strides, self.padding)
        if any(max(window.before, window.after) >= window.size for window in windows):
            raise ValueError(f"{owner}: 'padding' must be smaller than the window {self.size}, got {self.padding}")
        return (x[0], *(window.positions for window in windows), x[-1])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Each image is pooled alone."""
        return batch_leads(shapes[0])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Find the windows along both axes; a sequence has a width of 1."""
        windows = place(type(self).__name__, shapes[0][1:-1], self.size, self.strides, self.padding)
        if len(windows) == 1:
            windows.append(Window(1, 1, 1, 0, 0))
        self._rows, self._columns = windows
        self._images, self._channels = shapes[0][0], shapes[0][-1]
        self._shape = (self._images, self._rows.positions, self._columns.positions, self._channels)
        self._apart = all(window.stride >= window.size for window in windows)
        """No cell is in two windows."""
        self._gapless = self._apart and all(window.length == window.positions * window.size for window in windows)
        """Each cell is in one window."""

    def _taps(self) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
        """Yield, for each cell of a window, row by row: the outputs whose window has it, and where it lies then."""
        every = slice(None)
        for row in range(self._rows.size):
            down, rows = self._rows.reach(row)
            for column in range(self._columns.size):
                across, columns = self._columns.reach(column)
                yield (every, down, across), (every, rows, columns)


def image(array: Array) -> Array:
    """Return a sequence as an image of width 1."""
    return array[:, :, np.newaxis] if array.ndim == 3 else array


def reduce(combine: np.ufunc, start: float, x: Array, window: Window, out: Array) -> None:
    """Combine the cells of each window along the first axis; `start` changes nothing in what it is combined with."""
    reaches = [window.reach(tap) for tap in range(window.size)]
    if any(places != slice(0, window.positions) for places, _ in reaches):
        out.fill(start)
        for places, cells in reaches:
            combine(out[places], x[cells], out=out[places])
    elif window.size == 1:
        np.copyto(out, x[reaches[0][1]])
    else:
        combine(x[reaches[0][1]], x[reaches[1][1]], out=out)
        for _, cells in reaches[2:]:
            combine(out, x[cells], out=out)

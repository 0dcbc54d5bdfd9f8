"""The greatest number or the mean of each window of images or sequences."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import BATCH, Array, Shape
from nn.operation.convolution.window import Padding, Window, place
from nn.operation.operation import Operation, batch_leads


class Pool(Operation, ABC):
    """One number for each window and channel: (batch, height, width, channels) to (batch, height', width', channels).

    Sequences (batch, time, channels) have windows along the time. Cells of the padding do not count.

    Args:
        size: cells of a window along each axis.
        strides: cells from one window to the next along each axis.
        padding: cells beyond the borders, as `window.Padding` tells.
    """

    def __init__(self, size: Sequence[int], strides: Sequence[int], padding: Padding = "valid") -> None:
        self.size, self.strides, self.padding = tuple(size), tuple(strides), padding

    def infer(self, *shapes: Shape) -> Shape:
        (x,) = shapes
        owner = type(self).__name__
        if len(x) != len(self.size) + 2 or BATCH in x[1:]:
            axes = "height, width" if len(self.size) == 2 else "time"
            raise ValueError(f"{owner}: expected inputs of shape (batch, {axes}, channels), all but the batch known, got {x}")
        windows = place(owner, x[1:-1], self.size, self.strides, self.padding)
        # Else a window could lie in the padding alone and have no cell.
        if any(max(window.before, window.after) >= window.size for window in windows):
            raise ValueError(f"{owner}: 'padding' must be smaller than the window {self.size}, got {self.padding}")
        return (x[0], *(window.positions for window in windows), x[-1])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Return whether the batch leads: each image is pooled alone."""
        return batch_leads(shapes[0])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        windows = place(type(self).__name__, shapes[0][1:-1], self.size, self.strides, self.padding)
        if len(windows) == 1:
            windows.append(Window(1, 1, 1, 0, 0))
        # A sequence is an image of width 1.
        self._rows, self._columns = windows
        self._images, self._channels = shapes[0][0], shapes[0][-1]
        self._shape = (self._images, self._rows.positions, self._columns.positions, self._channels)
        self._apart = all(window.stride >= window.size for window in windows)
        """No cell is in two windows."""
        self._gapless = self._apart and all(window.length == window.positions * window.size for window in windows)
        """Each cell is in one window."""

    def _taps(self) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
        """Yield, for each cell of a window, row by row: the outputs with a window that has it, and its places in the input."""
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
    """Combine the cells of each window along the first axis; combined with `start`, a number stays the same."""
    reaches = [window.reach(tap) for tap in range(window.size)]
    # Padding: where a tap lies outside, a position keeps what the taps before have given.
    if any(places != slice(0, window.positions) for places, _ in reaches):
        out.fill(start)
        for places, cells in reaches:
            combine(out[places], x[cells], out=out[places])
    elif window.size == 1:
        np.copyto(out, x[reaches[0][1]])
    else:
        # The first two taps overwrite `out`, so it need not be filled first.
        combine(x[reaches[0][1]], x[reaches[1][1]], out=out)
        for _, cells in reaches[2:]:
            combine(out, x[cells], out=out)


class PoolMax(Pool):
    """y = max over the window. The gradient goes to the first maximum, row by row; that of an equal one behind it is 0."""

    reads_output: ClassVar[bool] = True

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        self._half = self.scratch.empty((*self._shape[:2], self._columns.length, self._channels), dtype)
        self._here = self.scratch.empty(self._shape, np.dtype(bool))
        self._found = self.scratch.empty(self._shape, np.dtype(bool))
        self._share = None if self._apart else self.scratch.empty(self._shape, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        half = self._half
        # Down, then across: a window of r * c cells takes r + c steps. The views lead with the axis that is combined.
        reduce(np.maximum, -np.inf, image(inputs[0]).swapaxes(0, 1), self._rows, half.swapaxes(0, 1))
        reduce(np.maximum, -np.inf, half.transpose(2, 0, 1, 3), self._columns, image(out).transpose(2, 0, 1, 3))

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        if wanted[0] is None:
            return
        x, y, incoming, target = (image(array) for array in (inputs[0], output, gradient, wanted[0]))
        # Cells in no window have the gradient 0; with none of these each cell is overwritten below.
        if not self._gapless:
            target.fill(0)
        self._found.fill(False)
        for at, cells in self._taps():
            here, found = self._here[at], self._found[at]
            # x is compared with the output: taps of a position come in order, and the first equal one takes the gradient.
            np.equal(x[cells], y[at], out=here)
            # Here, and not found before.
            np.greater(here, found, out=here)
            np.logical_or(found, here, out=found)
            # Where no cell is in two windows nothing is added up.
            if self._share is None:
                np.multiply(incoming[at], here, out=target[cells])
            else:
                share = self._share[at]
                np.multiply(incoming[at], here, out=share)
                np.add(target[cells], share, out=target[cells])


class PoolAverage(Pool):
    """y = mean over those cells of the window that lie in the input."""

    reads_inputs: ClassVar[bool] = False

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        self._half = self.scratch.empty((*self._shape[:2], self._columns.length, self._channels), dtype)
        self._part = self.scratch.empty(self._shape, dtype)
        counts = np.outer(_cells(self._rows), _cells(self._columns))
        # One number where no window is cut by the border, so that the product need not broadcast.
        even = (counts == counts[0, 0]).all()
        self._weights = np.asarray(1 / (counts[0, 0] if even else counts[:, :, np.newaxis]), dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        half, target = self._half, image(out)
        reduce(np.add, 0, image(inputs[0]).swapaxes(0, 1), self._rows, half.swapaxes(0, 1))
        reduce(np.add, 0, half.transpose(2, 0, 1, 3), self._columns, target.transpose(2, 0, 1, 3))
        np.multiply(target, self._weights, out=target)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
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
    counts = [0] * window.positions
    for tap in range(window.size):
        places, _ = window.reach(tap)
        for position in range(places.start, places.stop):
            counts[position] += 1
    return counts

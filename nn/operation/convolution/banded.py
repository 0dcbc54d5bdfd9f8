"""Convolution of each channel with one kernel of its own, as products of the rows of its images and band matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nn.arrays import Array, Scratch
from nn.operation.convolution.problem import Blocks, Epilogue, Padded, Problem
from nn.operation.convolution.window import Window
from nn.threads import multiplies_small, transpose

NARROWEST = 8
"""Columns of images from which on the products are not too small."""

WIDEST = 6
"""So many times the kernel's columns those of images may be: others of a band are zeros, which are multiplied, too."""

BLOCK_BYTES = 1 << 20
"""Bytes of a block of images. The products are small, and fewer calls save more than the second cache does."""


class Banded:
    """y[n, i] = x[n, i : i + kh] @ band, for each channel, with rows of x as one row of kh * width numbers.

    The band (kh * width, width') holds the kernel of a channel shifted by one cell from each column to the next, so that cells
    beyond the edges need no memory along a row. With channels in front the rows of an image lie one behind the other: windows
    of rows 0, kh, 2 kh .. are a matrix as they lie, those of rows 1, kh + 1 .. another one. The gradient of x is the same
    operation on that of the output, with the rows of the kernel in reverse order and each part of the band transposed; that of
    the band is a product of windows and gradients, of which the kernel's are sums along the diagonals.

    A number that is not finite spreads along the rows of its channel and image that see it.
    """

    def __init__(self, problem: Problem, scratch: Scratch) -> None:
        rows, columns, channels, dtype = problem.rows, problem.columns, problem.channels, problem.dtype
        back = rows.turned()
        # Of both directions, so that a window and its gradient lie equally far from the first ones.
        height = max(rows.before + rows.length + rows.after, back.before + rows.positions + back.after)
        self._blocks = Blocks(problem.images, BLOCK_BYTES // (height * columns.length * channels * dtype.itemsize))
        images, size = self._blocks.largest, rows.size
        self._x = _Rows(images, height, rows, columns.length, channels, scratch, dtype)
        self._gradient = _Rows(images, height, back, columns.positions, channels, scratch, dtype)
        widest = max(columns.length, columns.positions)
        # One for all: the results of a block are read before the next ones are written.
        self._made = scratch.empty((channels, self._x.count(images) * widest), dtype)
        self._turned = scratch.empty((images * height * widest, channels), dtype)
        self._height, self._columns = height, columns
        self._band, self._back = (
            scratch.empty((channels, size * first, second), dtype)
            for first, second in ((columns.length, columns.positions), (columns.positions, columns.length))
        )
        self._total, self._part = scratch.empty((2, *self._band.shape), dtype)
        self._ends = Epilogue(problem, images, images * height * columns.positions, scratch)

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Return whether windows of all channels move by 1 over rows that are neither short nor long beside the kernel."""
        rows, columns = problem.rows, problem.columns
        if not problem.channels == problem.filters == problem.groups > 1 or not multiplies_small():
            return False
        moves = rows.stride == columns.stride == rows.dilation == 1
        fits = min(columns.length, columns.positions) >= NARROWEST and columns.length <= WIDEST * columns.size
        # The gradient's padding is the window's size - 1 - padding, which must not be negative.
        return moves and fits and max(rows.before, rows.after) < rows.size

    def forward(self, x: Array, kernel: Array, bias: Array | None, out: Array) -> None:
        """Write the convolution, block by block."""
        self._ends.begin(bias)
        self._x.padded.clear()
        self._spread(kernel, self._band, back=False)
        for block in self._blocks:
            self._x.padded.fill(x[block])
            self._x.turn(block.stop - block.start)
            self._ends.finish(self._convolve(self._x, self._band, out[block]), out[block])

    def backward(
        self,
        x: Array,
        kernel: Array,
        output: Array,
        gradient: Array,
        for_x: Array | None,
        for_kernel: Array | None,
        for_bias: Array | None,
    ) -> None:
        """Write the gradients that are wanted, block by block."""
        self._gradient.padded.clear()
        if for_kernel is not None:
            self._x.padded.clear()
        if for_x is not None:
            self._spread(kernel, self._back, back=True)
        for block in self._blocks:
            images, first = block.stop - block.start, block.start == 0
            self._ends.start(gradient[block], output[block], self._gradient.padded.split(images, 1))
            if for_bias is not None:
                # The border is zero, so the sum over all cells, which is contiguous, is that over the output.
                self._ends.add_bias_gradient(self._gradient.padded.cells(images), first, for_bias)
            self._gradient.turn(images)
            if for_kernel is not None:
                self._x.padded.fill(x[block])
                self._x.turn(images)
                self._correlate(images, first)
            if for_x is not None:
                np.copyto(for_x[block], self._convolve(self._gradient, self._back, for_x[block]))
        if for_kernel is not None:
            for place, diagonal in self._diagonals(self._total, back=False):
                np.add.reduce(diagonal, axis=2, out=for_kernel[:, place, 0].T)

    def _convolve(self, rows: _Rows, band: Array, like: Array) -> Array:
        """Return the products of the windows of a block of images and a band, as a view of the shape of `like`."""
        images, width = len(like), band.shape[2]
        made = self._made[:, : rows.count(images) * width].reshape(len(band), -1, width)
        for first in range(rows.size):
            np.matmul(rows.windows(images, first), band, out=made[:, first :: rows.size])
        lines = images * self._height * width
        turned = self._turned[: images * self._height * width]
        transpose(self._made[:, :lines], turned)
        return turned.reshape(images, self._height, width, -1)[:, : like.shape[1]]

    def _correlate(self, images: int, first: bool) -> None:
        """Add the gradient of the band, which the first block overwrites."""
        for number in range(self._x.size):
            fresh = first and number == 0
            windows = self._x.windows(images, number).swapaxes(1, 2)
            np.matmul(windows, self._gradient.lines(images, number), out=self._total if fresh else self._part)
            if not fresh:
                np.add(self._total, self._part, out=self._total)

    def _spread(self, kernel: Array, band: Array, *, back: bool) -> None:
        band.fill(0)
        for place, diagonal in self._diagonals(band, back=back):
            np.copyto(diagonal, (kernel[::-1] if back else kernel)[:, place, 0].T[..., None])

    def _diagonals(self, band: Array, *, back: bool) -> Iterator[tuple[int, Array]]:
        """Yield the number of each column of the kernel and where it lies in a band, (channels, kh, places), as a view."""
        size = self._x.size
        parts = band.reshape(len(band), size, -1, band.shape[2])
        channel, part, row, column = parts.strides
        for place in range(self._columns.size):
            positions, cells = self._columns.reach(place)
            first, second = (positions.start, cells.start) if back else (cells.start, positions.start)
            shape = (len(band), size, positions.stop - positions.start)
            yield place, as_strided(parts[:, :, first:, second:], shape, (channel, part, row + column))


class _Rows:
    """Padded images, and the same with channels in front: the rows of all images of a channel, one behind the other.

    `size` is the number of rows of a window. Behind the last image there are rows of zeros, so that each row begins a window.
    """

    def __init__(
        self, images: int, height: int, rows: Window, width: int, channels: int, scratch: Scratch, dtype: np.dtype[Any]
    ) -> None:
        self.size, self._height, self._width, self._before = rows.size, height, width, rows.before
        inside, corner = (rows.length, width), (rows.before, 0)
        self.padded = Padded(images, (height, width), inside, corner, channels, scratch, dtype)
        self._turned = scratch.empty((channels, self._length(images)), dtype)

    def count(self, images: int) -> int:
        """Return the number of windows that are multiplied, as many as rows of the images and some more."""
        return -(-images * self._height // self.size) * self.size

    def _length(self, images: int) -> int:
        # A window may begin as many rows later as it has, and a gradient as many more as there are above the images.
        return (self.count(images) + 2 * (self.size - 1)) * self._width

    def turn(self, images: int) -> None:
        """Write the padded images with channels in front."""
        end = images * self._height * self._width
        transpose(self.padded.cells(images), self._turned[:, :end])
        # A smaller block leaves numbers of the one before.
        self._turned[:, end : self._length(images)].fill(0)

    def windows(self, images: int, first: int) -> Array:
        """Return the windows that begin at row `first` and each `size` rows further on, (channels, windows, numbers)."""
        start = first * self._width
        part = self._turned[:, start : start + self.count(images) * self._width]
        return part.reshape(len(part), -1, self.size * self._width)

    def lines(self, images: int, first: int) -> Array:
        """Return the rows that belong to these windows, where the images are gradients of their results."""
        start = (self._before + first) * self._width
        part = self._turned[:, start : start + self.count(images) * self._width]
        return part.reshape(len(part), -1, self.size * self._width)[..., : self._width]

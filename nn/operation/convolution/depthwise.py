"""Convolution of each channel with one kernel of its own, cell by cell of the kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nn.arrays import Array, Scratch
from nn.operation.convolution.problem import Blocks, Epilogue, Padded, Problem
from nn.operation.convolution.window import Window

BLOCK_BYTES = 1 << 18
"""Bytes of a block of padded images: they stay in the second cache of a core for all cells of the kernel."""


class _Taps(NamedTuple):
    """Columns of the kernel that meet the same phase of the columns of the images, at equal distances.

    Args:
        columns: which columns of the kernel.
        windows: the cells that they meet, (images, rows, rows of the kernel, these columns, places of a row * channels); a view
            in which windows overlap, to read only.
    """

    columns: slice
    windows: Array


class Depthwise:
    """y = sum over the cells of the kernel of (x at that cell of each window) * (its weights of all channels).

    With one channel and one filter in a group there is nothing to sum up but cells, and matrices of one column are slow. Sums
    run along the places of a row and their channels, over a view of all windows: `einsum` multiplies and adds in one pass, and
    a row stays in the first cache for all cells of the kernel. The gradient of x is the same operation on the padded gradient
    with the kernel turned by 180 degrees if the window moves by 1; otherwise it adds up, cell by cell of the kernel.
    """

    def __init__(self, problem: Problem, scratch: Scratch) -> None:
        rows, columns, channels, dtype = problem.rows, problem.columns, problem.channels, problem.dtype
        back = (rows.turned(), columns.turned())
        # Padding beyond the reach of the window would have to be cut off the gradient, not added: then it is the other way.
        turns = rows.stride == columns.stride == 1 and min(min(each.before, each.after) for each in back) >= 0
        size = channels * dtype.itemsize
        for window in (rows, columns):
            size *= window.length + window.before + window.after
        self._blocks = Blocks(problem.images, BLOCK_BYTES // size)
        images = self._blocks.largest
        self._cells = [
            (row, column, _rows(rows, row), *_columns(columns, column))
            for row in range(rows.size)
            for column in range(columns.size)
        ]
        self._images = _Images(images, rows, columns, channels, scratch, dtype)
        self._back = _Images(images, *back, channels, scratch, dtype) if turns else None
        line = columns.positions * channels
        self._weights = scratch.empty((rows.size, columns.size, line), dtype)
        self._turned = scratch.empty((rows.size, columns.size, columns.length * channels if turns else 0), dtype)
        self._part = scratch.empty((images, *problem.output[1:]), dtype)
        self._gradient = scratch.empty((images, *problem.output[1:]), dtype)
        self._ones = np.ones(columns.positions, dtype)
        self._total, self._sums = scratch.empty((2, rows.size, columns.size, line), dtype)
        self._ends = Epilogue(problem, images, images * rows.positions * columns.positions, scratch)

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Return whether every channel has one filter of its own."""
        return problem.channels == problem.filters == problem.groups > 1

    def forward(self, x: Array, kernel: Array, bias: Array | None, out: Array) -> None:
        """Write the convolution, block by block."""
        self._ends.begin(bias)
        self._images.clear()
        _repeat(kernel, self._weights)
        for block in self._blocks:
            target = out[block]
            self._images.take(x[block])
            self._images.convolve(self._weights, self._part, target)
            self._ends.finish(target, target)

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
        self._images.clear()
        if for_x is not None and self._back is not None:
            self._back.clear()
            _repeat(kernel[::-1, ::-1], self._turned)
        elif for_x is not None:
            _repeat(kernel, self._weights)
        for block, incoming in self._ends.gradients(self._blocks, output, gradient, self._gradient, for_bias):
            # Before the gradient of x, which may be summed up in the memory of the padded images.
            if for_kernel is not None:
                self._images.take(x[block])
                # The first block overwrites, so that the sums need not be cleared.
                self._images.correlate(incoming, self._total if block.start == 0 else self._sums)
                if block.start:
                    np.add(self._total, self._sums, out=self._total)
            if for_x is not None and self._back is not None:
                self._back.take(incoming)
                self._back.convolve(self._turned, self._part, for_x[block])
            elif for_x is not None:
                self._add_up(incoming, for_x[block])
        if for_kernel is not None:
            # Sums of each place of a row of the output, so far: the places of one channel become one number.
            np.matmul(self._ones, self._total.reshape(*for_kernel.shape[:2], len(self._ones), -1), out=for_kernel[:, :, 0])

    def _add_up(self, incoming: Array, target: Array) -> None:
        part = self._part[: len(target)]
        # The images of this block are read no more: their place takes the sum.
        split = self._images.split[: len(target)]
        split.fill(0)
        for row, column, down, phase, across in self._cells:
            np.multiply(incoming, self._weights[row, column].reshape(part.shape[2:]), out=part)
            cells = split[:, down, phase, across]
            np.add(cells, part, out=cells)
        self._images.give(target)
        # It has summed up in the padding too, where the next block's windows must read zeros.
        self._images.clear()


class _Images:
    """Some padded images, the columns that are a stride apart beside each other, and their windows.

    So inner loops are long; with a stride of 1 the padded images themselves are the only phase, and nothing is copied.
    """

    def __init__(
        self, images: int, rows: Window, columns: Window, channels: int, scratch: Scratch, dtype: np.dtype[Any]
    ) -> None:
        shape = (rows.length + rows.before + rows.after, columns.length + columns.before + columns.after)
        inside, corner = (rows.length, columns.length), (rows.before, columns.before)
        self._padded = Padded(images, shape, inside, corner, channels, scratch, dtype)
        self._apart = columns.stride > 1
        phases = (images, shape[0], columns.stride, -(-shape[1] // columns.stride), channels)
        self.split = scratch.empty(phases, dtype) if self._apart else self._padded.array[:, :, None]
        image, row, _, cell, number = self.split.strides
        self._taps = []
        # So many columns of the kernel further on, the phase is the same.
        period = columns.stride // math.gcd(columns.stride, columns.dilation)
        for first in range(min(period, columns.size)):
            chosen = slice(first, None, period)
            number_of_phase, place = _columns(columns, first)
            apart = (rows.dilation * row, period * columns.dilation // columns.stride * cell)
            windows = as_strided(
                self.split[:, :, number_of_phase, place.start :],
                (images, rows.positions, rows.size, len(range(columns.size)[chosen]), columns.positions * channels),
                (image, rows.stride * row, *apart, number),
            )
            self._taps.append(_Taps(chosen, windows))

    def clear(self) -> None:
        """Write zeros into the padding."""
        self._padded.clear()

    def take(self, images: Array) -> None:
        """Copy some images into the padded ones."""
        self._padded.fill(images)
        if self._apart:
            for place, whole in self._phases(len(images)):
                np.copyto(place, whole)

    def give(self, target: Array) -> None:
        """Copy the images, which have been summed up in `split`, out of the padded ones."""
        if self._apart:
            for place, whole in self._phases(len(target)):
                np.copyto(whole, place)
        # What has been added to the padding belongs to no cell of x.
        np.copyto(target, self._padded.inside[: len(target)])

    def convolve(self, weights: Array, part: Array, target: Array) -> None:
        """Write the sum over the cells of the kernel of windows * weights; `part` is work space of the shape of `target`."""
        for number, taps in enumerate(self._taps):
            result = (part[: len(target)] if number else target).reshape(*target.shape[:2], -1)
            np.einsum("nrkjw,kjw->nrw", taps.windows[: len(target)], weights[:, taps.columns], out=result)
            if number:
                np.add(target, part[: len(target)], out=target)

    def correlate(self, incoming: Array, total: Array) -> None:
        """Write the sums over images and rows of windows * gradient, (rows and columns of the kernel, places * channels)."""
        gradient = incoming.reshape(*incoming.shape[:2], -1)
        for taps in self._taps:
            np.einsum("nrkjw,nrw->kjw", taps.windows[: len(incoming)], gradient, out=total[:, taps.columns])

    def _phases(self, images: int) -> Iterator[tuple[Array, Array]]:
        """Yield the columns that are a stride apart, beside each other and where they lie in the padded images."""
        for phase in range(self.split.shape[2]):
            whole = self._padded.array[:images, :, phase :: self.split.shape[2]]
            yield self.split[:images, :, phase, : whole.shape[2]], whole


def _repeat(kernel: Array, weights: Array) -> None:
    """Repeat the weights of each cell for every place of a row."""
    np.copyto(weights.reshape(*kernel.shape[:2], -1, kernel.shape[3]), kernel)


def _rows(window: Window, cell: int) -> slice:
    """Return the rows of the padded images that one row of the window meets."""
    start = cell * window.dilation
    return slice(start, start + (window.positions - 1) * window.stride + 1, window.stride)


def _columns(window: Window, cell: int) -> tuple[int, slice]:
    """Return the phase of the columns that one column of the window meets, and their places in it."""
    place, phase = divmod(cell * window.dilation, window.stride)
    return phase, slice(place, place + window.positions)

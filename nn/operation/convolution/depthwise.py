"""Convolution of each channel with one kernel of its own, cell by cell of the kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nn.arrays import Array, Scratch
from nn.operation.convolution.problem import Blocks, Epilogue, Padded, Problem
from nn.operation.convolution.window import Window

BLOCK_BYTES = 1 << 18
"""Bytes of a block of padded images: they stay in the second cache of a core for all cells of the kernel."""


class Depthwise:
    """y = sum over the cells of the kernel of (x at that cell of each window) * (its weights of all channels).

    With one channel and one filter in a group there is nothing to sum up but cells, and matrices of one column are slow.
    """

    def __init__(self, problem: Problem, scratch: Scratch) -> None:
        rows, columns, channels, dtype = problem.rows, problem.columns, problem.channels, problem.dtype
        shape = (rows.length + rows.before + rows.after, columns.length + columns.before + columns.after)
        size = shape[0] * shape[1] * channels * dtype.itemsize
        self._blocks = Blocks(problem.images, BLOCK_BYTES // size)
        images = self._blocks.largest
        self._cells = [
            (row, column, _rows(rows, row), *_columns(columns, column))
            for row in range(rows.size)
            for column in range(columns.size)
        ]
        inside, corner = (rows.length, columns.length), (rows.before, columns.before)
        self._padded = Padded(images, shape, inside, corner, channels, scratch, dtype)
        # columns that a stride apart lie beside each other, so that inner loops are long
        self._apart = columns.stride > 1
        split = (images, shape[0], columns.stride, -(-shape[1] // columns.stride), channels)
        # With a stride of 1 the padded images themselves are the only phase; nothing is copied.
        self._split = scratch.empty(split, dtype) if self._apart else self._padded.array[:, :, None]
        self._weights = scratch.empty((rows.size, columns.size, columns.positions, channels), dtype)
        self._part = scratch.empty((images, *problem.output[1:]), dtype)
        self._gradient = scratch.empty((images, *problem.output[1:]), dtype)
        places = images * rows.positions * columns.positions
        self._ones, self._sum = np.ones(places, dtype), np.empty(channels, dtype)
        self._ends = Epilogue(problem, images, places, scratch)

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Return whether every channel has one filter of its own."""
        return problem.channels == problem.filters == problem.groups > 1

    def forward(self, x: Array, kernel: Array, bias: Array | None, out: Array) -> None:
        """Write the convolution, block by block."""
        self._ends.begin(bias)
        self._prepare(kernel)
        for block in self._blocks:
            self._take(x[block])
            target, first = out[block], True
            part = self._part[: len(target)]
            for row, column, cells in self._taps(len(target)):
                # The first cell of the kernel overwrites the target, which spares a pass to clear it.
                np.multiply(cells, self._weights[row, column], out=target if first else part)
                if not first:
                    np.add(target, part, out=target)
                first = False
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
        self._prepare(kernel)
        for block, incoming in self._ends.gradients(self._blocks, output, gradient, self._gradient, for_bias):
            # Before the gradient of x, which is summed up in the memory of the padded images.
            if for_kernel is not None:
                self._add_kernel_gradient(x[block], incoming, block.start == 0, for_kernel)
            if for_x is not None:
                self._write_x_gradient(incoming, for_x[block])

    def _add_kernel_gradient(self, x: Array, incoming: Array, first: bool, for_kernel: Array) -> None:
        self._padded.clear()  # the gradient of x of the block before may lie there
        self._take(x)
        part = self._part[: len(x)]
        rows = part.reshape(-1, part.shape[-1])
        for row, column, cells in self._taps(len(x)):
            np.multiply(cells, incoming, out=part)
            # A product with ones: faster than NumPy's sum over the long first axis of a narrow matrix.
            np.matmul(self._ones[: len(rows)], rows, out=self._sum)
            total = for_kernel[row, column, 0]
            if first:
                np.copyto(total, self._sum)
            else:
                np.add(total, self._sum, out=total)

    def _write_x_gradient(self, incoming: Array, target: Array) -> None:
        part = self._part[: len(target)]
        # The images of this block are read no more: their place takes the sum.
        self._split[: len(target)].fill(0)
        for row, column, cells in self._taps(len(target)):
            np.multiply(incoming, self._weights[row, column], out=part)
            np.add(cells, part, out=cells)
        if self._apart:
            for place, whole in self._phases(len(target)):
                np.copyto(whole, place)
        # What has been added to the padding belongs to no cell of x.
        np.copyto(target, self._padded.inside[: len(target)])

    def _prepare(self, kernel: Array) -> None:
        """Clear the padding, and repeat the weights of each cell for every place of a row, so that inner loops are long."""
        self._padded.clear()
        np.copyto(self._weights, kernel)

    def _take(self, images: Array) -> None:
        """Copy some images into the padded ones."""
        self._padded.fill(images)
        if self._apart:
            for place, whole in self._phases(len(images)):
                np.copyto(place, whole)

    def _phases(self, images: int) -> Iterator[tuple[Array, Array]]:
        """Yield the columns that are a stride apart, beside each other and where they lie in the padded images."""
        for phase in range(self._split.shape[2]):
            whole = self._padded.array[:images, :, phase :: self._split.shape[2]]
            yield self._split[:images, :, phase, : whole.shape[2]], whole

    def _taps(self, images: int) -> Iterator[tuple[int, int, Array]]:
        """Yield row and column of each cell of the kernel, and the cells of the images that it meets, as the output lies."""
        for row, column, down, phase, across in self._cells:
            yield row, column, self._split[:images, down, phase, across]


def _rows(window: Window, cell: int) -> slice:
    """Return the rows of the padded images that one row of the window meets."""
    start = cell * window.dilation
    return slice(start, start + (window.positions - 1) * window.stride + 1, window.stride)


def _columns(window: Window, cell: int) -> tuple[int, slice]:
    """Return the phase of the columns that one column of the window meets, and their places in it."""
    place, phase = divmod(cell * window.dilation, window.stride)
    return phase, slice(place, place + window.positions)

"""Convolution as one product of matrices: every window of the input becomes a row."""

from __future__ import annotations

import numpy as np

from nn.arrays import Array, Scratch
from nn.operation.convolution.patches import Patches
from nn.operation.convolution.problem import Blocks, Epilogue, Problem
from nn.operation.convolution.sub_cells import SubCells

BLOCK_BYTES = 1 << 19
"""Bytes that the windows of a block of images may take: they stay in the second cache of a core until they are multiplied."""

WIDER = 3
"""With more filters for each channel than that, adding up windows is faster than copying those of the gradient."""


class Im2Col:
    """y = windows(x) @ kernel, with windows (positions, kh * kw * channels), for a few images at a time.

    The gradient of the kernel is windows(x)^T @ g. That of x is the same operation on the padded g with the kernel turned by
    180 degrees if the window moves by 1 and filters are not many more than channels, and one product for blocks of cells, by
    `SubCells`, where that suits; otherwise it adds up the windows of g @ kernel^T. Groups are separate products.

    Chellapilla et al., High performance convolutional neural networks for document processing, 2006.
    """

    def __init__(self, problem: Problem, scratch: Scratch) -> None:
        rows, columns, dtype = problem.rows, problem.columns, problem.dtype
        self._groups = problem.groups
        back = (rows.turned(), columns.turned())
        # Padding beyond the reach of the window would have to be cut off the gradient, not added: then it is the other way.
        turns = min(back[0].before, back[0].after, back[1].before, back[1].after) >= 0 and rows.stride == columns.stride == 1
        turns = turns and problem.filters <= WIDER * problem.channels
        places, cells = rows.positions * columns.positions, rows.size * columns.size
        # Numbers of the windows of one image, for whichever of the two directions has more.
        row = cells * max(places * problem.channels, rows.length * columns.length * problem.filters if turns else 0)
        cut = SubCells.suits(problem)
        if cut:
            row = max(row, SubCells.numbers(problem))
        self._blocks = Blocks(problem.images, BLOCK_BYTES // (row * dtype.itemsize))
        images = self._blocks.largest
        self._cells = SubCells(problem, images, scratch) if cut else None

        self._patches = Patches(images, rows, columns, problem.channels, problem.groups, scratch, dtype)
        self._back = Patches(images, *back, problem.filters, problem.groups, scratch, dtype) if turns else None
        # One product for each group, which NumPy's stacked `matmul` runs in one call.
        by_group = (problem.groups, self._patches.taps, problem.filters // problem.groups)
        self._part = scratch.empty(by_group, dtype)
        turned = (rows.size, columns.size, problem.filters // problem.groups, problem.channels)
        self._kernel = scratch.empty(turned if turns else (0,), dtype)
        self._gradient = scratch.empty((images, *problem.output[1:]), dtype)
        self._ends = Epilogue(problem, images, images * places, scratch)

    def forward(self, x: Array, kernel: Array, bias: Array | None, out: Array) -> None:
        """Write the convolution, block by block."""
        self._ends.begin(bias)
        self._patches.clear()
        taps = self._by_group(kernel)
        for block in self._blocks:
            target = out[block]
            np.matmul(self._patches.take(x[block]), taps, out=self._by_group(target))
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
        self._patches.clear()
        if for_x is not None:
            self._begin_x_gradient(kernel)
        for block, incoming in self._ends.gradients(self._blocks, output, gradient, self._gradient, for_bias):
            # Before the gradient of x, which may write its windows over those of x.
            if for_kernel is not None:
                self._add_kernel_gradient(self._patches.take(x[block]), self._by_group(incoming), block.start == 0, for_kernel)
            if for_x is not None:
                self._write_x_gradient(kernel, incoming, for_x[block])

    def reverse(self, gradient: Array, kernel: Array, out: Array) -> None:
        """Write the way back alone, from gradients of the output to those of the input.

        Args:
            gradient: of the shape of the output.
            kernel: the kernel.
            out: memory of the shape of the input.
        """
        self._begin_x_gradient(kernel)
        for block in self._blocks:
            self._write_x_gradient(kernel, gradient[block], out[block])

    def reverse_gradients(
        self, x: Array, kernel: Array, gradient: Array, for_kernel: Array | None, for_output: Array | None
    ) -> None:
        """Write the gradients of the way back, from gradients of the output to that of the input.

        Args:
            x: gradient of the result of that way, of the shape of the input.
            kernel: the kernel.
            gradient: argument of that way, of the shape of the output.
            for_kernel: memory for the gradient of the kernel; None where it is not wanted.
            for_output: that for the gradient of `gradient`.
        """
        self._patches.clear()
        taps = self._by_group(kernel)
        for block in self._blocks:
            # The same windows for both.
            windows = self._patches.take(x[block])
            if for_kernel is not None:
                self._add_kernel_gradient(windows, self._by_group(gradient[block]), block.start == 0, for_kernel)
            if for_output is not None:
                np.matmul(windows, taps, out=self._by_group(for_output[block]))

    def _add_kernel_gradient(self, windows: Array, incoming: Array, first: bool, for_kernel: Array) -> None:
        total = self._by_group(for_kernel)
        np.matmul(windows.swapaxes(1, 2), incoming, out=total if first else self._part)
        if not first:
            np.add(total, self._part, out=total)

    def _begin_x_gradient(self, kernel: Array) -> None:
        if self._cells is not None:
            self._cells.begin(kernel)
        elif self._back is not None:
            self._back.clear()
            self._turn(kernel)

    def _write_x_gradient(self, kernel: Array, incoming: Array, target: Array) -> None:
        if self._cells is not None:
            self._cells.write(incoming, target)
            return
        if self._back is not None:
            np.matmul(self._back.take(incoming), self._by_group(self._kernel), out=self._by_group(target))
            return
        # The matrix of windows serves twice: that of x has been multiplied, and now takes the windows of the gradient.
        np.matmul(self._by_group(incoming), self._by_group(kernel).swapaxes(1, 2), out=self._patches.matrix(len(target)))
        self._patches.give(target)
        # `give` has summed up in the padding too, where the next block's windows must read zeros.
        self._patches.clear()

    def _turn(self, kernel: Array) -> None:
        """Turn the kernel by 180 degrees and exchange channels and filters of each group."""
        grouped = kernel.reshape(*kernel.shape[:3], self._groups, -1)[::-1, ::-1]
        # Channels of a group become filters of the turned kernel, and filters channels.
        np.copyto(self._kernel.reshape(*self._kernel.shape[:3], self._groups, -1), grouped.swapaxes(2, 4))

    def _by_group(self, array: Array) -> Array:
        """Return (..., filters) as a matrix for each group, (groups, ..., filters / groups)."""
        return array.reshape(-1, self._groups, array.shape[-1] // self._groups).swapaxes(0, 1)

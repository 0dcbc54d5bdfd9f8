"""The way back of a convolution with a stride as one product of matrices: each window of x gives a block of cells."""

from __future__ import annotations

import math

import numpy as np

from nn.arrays import Array, Scratch
from nn.operation.convolution.patches import Patches
from nn.operation.convolution.problem import Problem
from nn.operation.convolution.window import Window

WASTE = 2.0
"""So many times the multiplications of the kernel's cells there may be: blocks of cells take a kernel of whole strides."""

SPARED = 30
"""Multiplications that take as long as adding up one number of a window, which blocks of cells spare."""


class SubCells:
    """y[s j + a] = sum over b of x[j - b] w[s b + a], for 0 <= a < s along each axis: the sums of the windows.

    So a block of s cells of y, the stride, depends on a window of t cells of x, where t strides cover the kernel, and all
    blocks are one product of matrices. Nothing is added up in memory, which takes twice as long as that product. Cells of w
    beyond the kernel are 0, so a number of x that is not finite makes NaN of all cells of the blocks that its window has.

    Shi et al., Real-time single image and video super-resolution using an efficient sub-pixel convolutional neural network,
    CVPR 2016.

    Args:
        problem: the convolution, of which it is the way back.
        images: how many `write` gets at most.
        scratch: source of the memory.
    """

    def __init__(self, problem: Problem, images: int, scratch: Scratch) -> None:
        axes, dtype = (problem.rows, problem.columns), problem.dtype
        rows, columns = (_window(axis) for axis in axes)
        down, across = (axis.stride for axis in axes)
        self._blocks = (rows.size, down, columns.size, across, problem.channels, problem.filters)
        places, taps, block = _lengths(problem)
        self._patches = Patches(images, rows, columns, problem.filters, 1, scratch, dtype)
        self._kernel = scratch.empty((rows.size * down, columns.size * across, problem.channels, problem.filters), dtype)
        self._arranged = scratch.empty((taps, block), dtype)
        self._product = scratch.empty((images * places, block), dtype)
        self._split = (rows.positions, columns.positions, down, across, problem.channels)
        self._whole = scratch.empty((images, rows.positions * down, columns.positions * across, problem.channels), dtype)
        # Of the blocks at the edges, cells that padding has cut off.
        self._inside = tuple(slice(axis.before % axis.stride, axis.before % axis.stride + axis.length) for axis in axes)

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Return whether a window without groups and dilations moves by more than 1, and blocks of cells are faster.

        It multiplies cells of whole strides that lie beyond the kernel, and blocks beyond the edges, and adds up nothing.
        """
        axes = (problem.rows, problem.columns)
        if problem.groups > 1 or any(axis.dilation > 1 for axis in axes) or all(axis.stride == 1 for axis in axes):
            return False
        if any(min(_window(axis)[3:5]) < 0 for axis in axes):
            return False
        cells = math.prod(axis.size for axis in axes)
        covered = math.prod(_window(axis).size * axis.stride for axis in axes)
        needed = cells * math.prod(axis.positions for axis in axes)
        beyond = covered * math.prod(_window(axis).positions for axis in axes) - needed
        return covered <= WASTE * cells and beyond * problem.filters <= SPARED * needed

    @staticmethod
    def numbers(problem: Problem) -> int:
        """Return how many numbers the windows and blocks of an image have."""
        places, taps, block = _lengths(problem)
        return places * (taps + block)

    def begin(self, kernel: Array) -> None:
        """Take the kernel (kh, kw, channels, filters) of this call."""
        self._arrange(kernel)
        self._patches.clear()

    def write(self, x: Array, out: Array) -> None:
        """Write the way back for images x, of the shape of the convolution's output, into `out`, of that of its input."""
        windows = self._patches.take(x)[0]
        product, whole = self._product[: len(windows)], self._whole[: len(x)]
        np.matmul(windows, self._arranged, out=product)
        down, across, *block = self._split
        # Cells of a block stand beside each other, and blocks as the windows do.
        cells = whole.reshape(-1, down, block[0], across, block[1], block[2]).transpose(0, 1, 3, 2, 4, 5)
        np.copyto(cells, product.reshape(-1, *self._split))
        np.copyto(out, whole[(slice(None), *self._inside)])

    def _arrange(self, kernel: Array) -> None:
        """Write the kernel as a matrix (cells of a window * filters, block * channels)."""
        # Cells of whole strides beyond the kernel.
        self._kernel.fill(0)
        np.copyto(self._kernel[: len(kernel), : kernel.shape[1]], kernel)
        rows, down, columns, across, channels, filters = shape = self._blocks
        # The first cell of a window is the furthest back.
        turned = self._kernel.reshape(shape)[::-1, :, ::-1].transpose(0, 2, 5, 1, 3, 4)
        np.copyto(self._arranged.reshape(rows, columns, filters, down, across, channels), turned)


def _lengths(problem: Problem) -> tuple[int, int, int]:
    """Return the number of windows of an image, and the numbers in a window and in a block."""
    rows, columns = _window(problem.rows), _window(problem.columns)
    block = problem.rows.stride * problem.columns.stride * problem.channels
    return rows.positions * columns.positions, rows.size * columns.size * problem.filters, block


def _window(axis: Window) -> Window:
    """Return the window that moves over the small side, for one of a convolution; padding may be negative."""
    size, first = -(-axis.size // axis.stride), axis.before // axis.stride
    positions = (axis.before + axis.length - 1) // axis.stride - first + 1
    before = size - 1 - first
    return Window(axis.positions, size, 1, before, positions + size - 1 - before - axis.positions)

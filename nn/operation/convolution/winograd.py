"""Convolution of small kernels with a fraction of the multiplications, by Winograd's algorithm."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from nn.arrays import Array, Scratch
from nn.operation.convolution.problem import Blocks, Epilogue, Padded, Problem
from nn.operation.convolution.tiles import (
    FREQUENCIES,
    SIZE,
    Correlation,
    FilterGradient,
    FilterTransform,
    Setting,
    Tiling,
    matrices,
)
from nn.operation.convolution.window import Window

FEWEST_CHANNELS = 16
"""With fewer channels or filters in a group the direct sum costs little more and rounds less."""

WORTH = 0.7
"""The share of the direct sum's multiplications that may be left: tiles that reach far beyond the output waste theirs."""

WIDE = 128
"""Columns of a product that are enough."""

BLOCK_BYTES = 5 << 19
"""Bytes of the tiles of a block of images and their products together: they stay in the cache, and a part of the batch
that is multiplied at once is large enough for the BLAS."""


class Winograd:
    """Y = A^T ((G w G^T) * (B^T d B)) A for each tile d of 6x6 cells, where * sums over channels: 36 products of matrices.

    A tile gives 4x4 outputs of a 3x3 kernel, F(4x4, 3x3), or 2x2 of a 5x5 one: 7 - k along each axis for 2 <= k <= 5. The
    gradient of the input is the same with the kernel turned by 180 degrees; that of the kernel is G^T D G with D the sum over
    tiles of (B^T d B) * (A g A^T). Where cells of the kernel are d cells apart, so are those of a tile, and tiles of neighbours
    lie between them. Images are transformed and multiplied a few at a time, so that their tiles stay in the cache. In float32
    the mean error is 2.5 times that of the direct sum, 1e-6 of the output's deviation with 128 channels. A cell that is not
    finite spreads over its tile; so do rounding errors, except to outputs that see zeros only (`BlankWindows`).

    Lavin and Gray, Fast algorithms for convolutional neural networks, CVPR 2016; `tiles.matrices` makes the matrices.
    """

    def __init__(self, problem: Problem, scratch: Scratch) -> None:
        channels, filters, groups, dtype = problem.channels, problem.filters, problem.groups, problem.dtype
        rows, columns = _Axis(problem.rows, dtype), _Axis(problem.columns, dtype)
        # The larger of both directions counts, because the same blocks serve forward and backward.
        tiles = max(rows.tiles * columns.tiles, rows.back_tiles * columns.back_tiles) * rows.apart * columns.apart
        self._blocks = Blocks(problem.images, BLOCK_BYTES // (FREQUENCIES * (channels + filters) * tiles * dtype.itemsize))
        images = self._blocks.largest
        self._beside = beside = _beside(self._blocks.sizes, min(channels, filters)) if rows.apart * columns.apart > 1 else 1
        inside, corner = (problem.rows.length, problem.columns.length), (problem.rows.before, problem.columns.before)
        some = images // beside
        self._x = Padded(some, (rows.cells, columns.cells), inside, corner, beside * channels, scratch, dtype)
        cells, corner = (rows.back_cells, columns.back_cells), (rows.back_before, columns.back_before)
        self._gradient = Padded(some, cells, problem.output[1:3], corner, beside * filters, scratch, dtype)

        each = (rows.step, columns.step, rows.apart, columns.apart)
        tiling = Tiling(some, rows.tiles, columns.tiles, *each)
        back = Tiling(some, rows.back_tiles, columns.back_tiles, *each)
        most = beside * max(channels, filters)
        # The two work spaces change their roles: tiles of channels or of filters, whole or transformed along one axis only.
        size = max(way(most) for found in (tiling, back) for way in (found.frequencies, found.halves))
        work = (scratch.empty((size,), dtype), scratch.empty((size,), dtype))
        setting = Setting(rows.matrices, columns.matrices, groups, beside, self._blocks.sizes, *work)
        self._filters = FilterTransform(channels, filters, groups, rows.matrices.taps, columns.matrices.taps, scratch, dtype)
        self._forward = Correlation(setting, tiling, self._x.array, problem.output[1:3], filters, scratch)
        self._backward = Correlation(setting, back, self._gradient.array, inside, channels, scratch)
        self._sum = FilterGradient(setting, tiling, self._x.array, self._gradient.from_corner, scratch)
        self._blanks = BlankWindows(problem, images, scratch)
        self._ends = Epilogue(problem, images, images * cells[0] * cells[1], scratch)

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Return whether the kernel has 2 to 5 cells each way and moves by 1, with enough channels and enough work to save."""
        windows = (problem.rows, problem.columns)
        if not all(1 < window.size < SIZE and window.stride == 1 for window in windows):
            return False
        # The gradient's border is the window's span - 1 - padding, which must not be negative.
        if any(max(window.before, window.after) >= window.span for window in windows):
            return False
        fewest = min(problem.channels, problem.filters) // problem.groups
        work, direct = FREQUENCIES, 1
        for window in windows:
            # 36 products for each tile, against one for each cell of the kernel and place of the output.
            work *= window.dilation * _tiles(window.positions, window)
            direct *= window.positions * window.size
        return fewest >= FEWEST_CHANNELS and work <= WORTH * direct

    def forward(self, x: Array, kernel: Array, bias: Array | None, out: Array) -> None:
        """Write the convolution, block by block."""
        self._ends.begin(bias)
        self._x.clear()
        filters = self._filters.transform(kernel)
        suspects = self._blanks.suspects(x)
        for block in self._blocks:
            target = out[block]
            self._x.fill(x[block], self._beside)
            result = self._forward.run(filters, target)
            if suspects is not None and suspects[block].any():
                self._blanks.clear(self._blanks.find(x[block]), result)
            self._ends.finish(result, target)

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
        self._gradient.clear()
        if for_kernel is not None:
            self._x.clear()
        filters = None if for_x is None else self._filters.transform_turned(kernel)
        for block in self._blocks:
            images, first = block.stop - block.start, block.start == 0
            self._ends.start(gradient[block], output[block], self._gradient.split(images, self._beside))
            if for_bias is not None:
                # The border is zero, so the sum over all cells, which is contiguous, is that over the output.
                cells = self._gradient.cells(images // self._beside)
                self._ends.add_bias_gradient(cells.reshape(-1, len(for_bias)), first, for_bias)
            if for_kernel is not None:
                self._x.fill(x[block], self._beside)
                self._sum.add(images, first)
            if for_x is not None and filters is not None:
                target = for_x[block]
                result = self._backward.run(filters, target)
                if result is not target:
                    np.copyto(target, result)
        # The transform back is linear: one for the sum of all blocks.
        if for_kernel is not None:
            self._filters.transform_back(self._sum.total, for_kernel)


class _Axis:
    """Tiles and cells along one axis, forward and for the gradient of the input."""

    def __init__(self, window: Window, dtype: np.dtype[Any]) -> None:
        self.step, self.apart = _step(window), window.dilation
        self.matrices = matrices(self.step, window.size, dtype)
        # Of each of the first cells, as many as cells of the kernel are apart.
        self.tiles = _tiles(window.positions, window)
        self.cells = self.apart * (self.step * (self.tiles - 1) + SIZE)
        self.back_tiles = _tiles(window.length, window)
        self.back_before = window.span - 1 - window.before
        # of the gradient one reads tiles of 6 cells with the border, and the tiles of the output without
        reach, covered = self.step * (self.back_tiles - 1) + SIZE, self.step * self.tiles
        self.back_cells = max(self.apart * reach, self.back_before + self.apart * covered)


def _beside(sizes: Iterable[int], channels: int) -> int:
    """Return how many images lie beside each other, as more channels: products with fewer than `WIDE` columns are slow."""
    common = math.gcd(*sizes)
    return max(count for count in range(1, common + 1) if common % count == 0 and (count == 1 or count * channels <= WIDE))


def _step(window: Window) -> int:
    return SIZE + 1 - window.size


def _tiles(cells: int, window: Window) -> int:
    return -(-cells // (_step(window) * window.dilation))


class BlankWindows:
    """Search for outputs of windows that hold zeros only; it sets them to 0, where a method leaves rounding errors instead.

    A rectifier would take those for positive numbers, and pass gradients on. Of every window one cell lies on a lattice; where
    none of these cells is 0, as in most inputs, there is nothing more to look at.
    """

    def __init__(self, problem: Problem, images: int, scratch: Scratch) -> None:
        self._rows, self._columns, self._groups = problem.rows, problem.columns, problem.groups
        self._lattice = (slice(None), lattice(problem.rows), lattice(problem.columns))
        self._part = problem.channels // problem.groups
        cells = images * problem.rows.length * problem.columns.length
        self._sizes = scratch.empty((cells * problem.channels,), problem.dtype)
        self._sums = scratch.empty((cells * problem.groups,), problem.dtype)
        self._ones = np.ones(self._part, problem.dtype)

    def suspects(self, x: Array) -> Array | None:
        """Return for each of the images whether it may have blank windows; None where none has."""
        cells = x[self._lattice]
        # The first channel of each group.
        blank = np.equal(cells[..., :: self._part], 0)
        # few inputs have cells whose first, middle and last channel are 0, so that few cells need a closer look
        for channel in (self._part // 2, self._part - 1):
            if not blank.any():
                return None
            np.logical_and(blank, np.equal(cells[..., channel :: self._part], 0), out=blank)
        blank[blank] = ~cells.reshape(*blank.shape, self._part)[blank].any(axis=1)
        suspects: Array = np.logical_or.reduce(blank.reshape(len(x), -1), axis=1)
        return suspects

    def find(self, x: Array) -> Array:
        """Return where windows of the images `x` are blank, (images, rows, columns, groups) of the output."""
        rows, columns = self._rows, self._columns
        shape = (rows.length + rows.before + rows.after, columns.length + columns.before + columns.after)
        blank = np.ones((len(x), *shape, self._groups), bool)
        blank[:, rows.before : rows.before + rows.length, columns.before : columns.before + columns.length] = self._zeros(x)
        return _all_within(_all_within(blank, rows, 1), columns, 2)

    @staticmethod
    def clear(blank: Array, result: Array) -> None:
        """Set these outputs to 0 in `result`, before the bias is added."""
        # the filters of a group as one element, which a mask reaches several times faster than rows of them
        grouped = result.reshape(*blank.shape, -1)
        if grouped.shape[-1] > 1:
            grouped = grouped.view(np.dtype((np.void, grouped.shape[-1] * grouped.itemsize)))
        grouped[..., 0][blank] = np.zeros((), grouped.dtype)

    def _zeros(self, cells: Array) -> Array:
        """Return where all channels of a group are 0, (images, rows, columns, groups)."""
        sizes, sums = self._sizes[: cells.size].reshape(cells.shape), self._sums[: cells.size // self._part]
        np.abs(cells, out=sizes)
        # a sum of sizes is 0 only if all of them are; BLAS is faster than NumPy's reductions over short axes
        # A sum that overflows is infinite, and so not 0: the answer is right.
        with np.errstate(over="ignore"):
            np.matmul(sizes.reshape(-1, self._part), self._ones, out=sums)
        return np.equal(sums, 0).reshape(*cells.shape[:3], self._groups)


def lattice(window: Window) -> slice:
    """Return the widest lattice along an axis that has at least one cell of the axis in every window."""
    for step in range(window.size, 1, -1):
        for start in range(step):
            chosen = range(start, window.length, step)
            if all(_holds(window, position, chosen) for position in range(window.positions)):
                return slice(start, None, step)
    return slice(None)


def _holds(window: Window, position: int, chosen: range) -> bool:
    first = position * window.stride - window.before
    return any(cell in chosen for cell in range(first, first + window.span, window.dilation))


def _all_within(mask: Array, window: Window, axis: int) -> Array:
    """Return for each position of a window, which moves by 1, whether `mask` is set in all its cells."""
    before = (slice(None),) * axis
    found = mask[(*before, slice(window.positions))].copy()
    for cell in range(window.dilation, window.span, window.dilation):
        np.logical_and(found, mask[(*before, slice(cell, cell + window.positions))], out=found)
    return found

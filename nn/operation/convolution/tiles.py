"""Steps of Winograd's algorithm for a block of images: correlations, and sums over tiles for the gradient of a kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nn.arrays import Array, Scratch
from nn.operation.convolution.problem import side_by_side


class Setting(NamedTuple):
    """Matrices, sizes and work space of both steps.

    `beside` images lie beside each other, as more channels, and `sizes` are the numbers of images that a block may have. `one`
    and `other` are work space for tiles: neither keeps anything there from one block to the next, so all share it.
    """

    down: Matrices
    across: Matrices
    groups: int
    beside: int
    sizes: Iterable[int]
    one: Array
    other: Array


class Correlation:
    """Correlates padded images with filters. `shape` is that of the output's images, which may cut tiles off."""

    def __init__(
        self, setting: Setting, tiling: Tiling, padded: Array, shape: tuple[int, int], filters: int, scratch: Scratch
    ) -> None:
        channels, one, other, self._groups = padded.shape[-1], setting.one, setting.other, setting.groups
        # Tiles are written whole; where they reach beyond the output they need memory of their own, which is then cut.
        # So they do where several images lie beside each other, which are then taken apart.
        self._beside, apart = setting.beside, setting.beside > 1 or tiling.covered != shape
        many = setting.beside * filters
        self._covered = scratch.empty((tiling.images, *tiling.covered, many), padded.dtype) if apart else None
        self._steps = {}
        # The views of all sizes of blocks are made here: no call has to make strided views.
        for images in setting.sizes:
            some = images // setting.beside
            tiles, products = tiling.take(one, some, channels), tiling.take(other, some, many)
            # `other` is the work space until the products are written there, then `one`, whose tiles have been multiplied.
            spread = InputTransform(tiling, setting.down.inputs, setting.across.inputs, padded[:some], tiles, other)
            gather = OutputTransform(tiling, setting.down.gather, setting.across.gather, products, one)
            matrices_of = (_matrices(tiles, channels // setting.beside), _matrices(products, filters))
            self._steps[images] = (spread, *matrices_of, gather)

    def run(self, filters: Array, out: Array) -> Array:
        """Correlate with filters (36, channels / groups, filters); return the result, which is `out` if no tile is cut off."""
        spread, tiles, products, gather = self._steps[len(out)]
        spread()
        multiply(tiles, filters, products, self._groups)
        if self._covered is None:
            gather(out)
            return out
        covered = self._covered[: len(out) // self._beside]
        gather(covered)
        inside = covered[:, : out.shape[1], : out.shape[2]]
        if self._beside == 1:
            return inside
        parts = side_by_side(inside, self._beside)
        np.copyto(out.reshape(parts.shape), parts)
        return out


class FilterGradient:
    """Sums up the gradient of transformed filters (36, channels / groups, filters) over blocks of images."""

    def __init__(self, setting: Setting, tiling: Tiling, padded: Array, gradient: Array, scratch: Scratch) -> None:
        channels, filters, dtype, self._groups = padded.shape[-1], gradient.shape[-1], padded.dtype, setting.groups
        one_of = channels // setting.beside, filters // setting.beside
        # The gradient's transform has work space of its own: both shared ones hold tiles by then.
        work = scratch.empty((tiling.halves(filters),), dtype)
        self.total = scratch.empty((FREQUENCIES, one_of[0] // setting.groups, one_of[1]), dtype)
        self._part = scratch.empty(self.total.shape, dtype)
        # The adjoint of the output's transform is the product with its transposed matrices.
        down, across = (np.ascontiguousarray(found.gather.T) for found in (setting.down, setting.across))
        self._steps = {}
        for images in setting.sizes:
            some = images // setting.beside
            tiles, incoming = tiling.take(setting.one, some, channels), tiling.take(setting.other, some, filters)
            spread = InputTransform(tiling, setting.down.inputs, setting.across.inputs, padded[:some], tiles, setting.other)
            spread_gradient = InputTransform(tiling, down, across, gradient[:some], incoming, work)
            self._steps[images] = (spread, spread_gradient, _matrices(tiles, one_of[0]), _matrices(incoming, one_of[1]))

    def add(self, images: int, first: bool) -> None:
        """Add the contribution of so many images; the first block overwrites."""
        spread, spread_gradient, tiles, incoming = self._steps[images]
        # In this order: the work space of the first is where the second writes its tiles.
        spread()
        spread_gradient()
        multiply_adjoint(tiles, incoming, self.total if first else self._part, self._groups)
        if not first:
            np.add(self.total, self._part, out=self.total)


def _matrices(tiles: Array, channels: int) -> Array:
    """Return tiles as matrices (36, tiles, channels)."""
    return tiles.reshape(FREQUENCIES, -1, channels)


# Transforms of images to tiles and back, along both axes, as products with small matrices.
#
# A tile has 6x6 frequencies. As a product the transform takes no longer than one pass of an elementwise operation, whatever
# numbers the matrix holds.

SIZE = 6
"""Frequencies of a tile along one axis."""

FREQUENCIES = SIZE * SIZE


class Tiling(NamedTuple):
    """Number of images of a block, the tiles of an image down and across, and the outputs of a tile down and across.

    Where cells of the kernel are apart, those outputs make tiles that are as far apart: there are tiles for each of the first
    `apart_down` rows and `apart_across` columns, and of each of them so many down and across.
    """

    images: int
    down: int
    across: int
    step_down: int
    step_across: int
    apart_down: int = 1
    apart_across: int = 1

    @property
    def covered(self) -> tuple[int, int]:
        """Rows and columns of an output of whole tiles."""
        return self.down * self.step_down * self.apart_down, self.across * self.step_across * self.apart_across

    def frequencies(self, channels: int) -> int:
        """Return how many frequencies the tiles have."""
        return FREQUENCIES * self.images * self.apart_down * self.down * self.apart_across * self.across * channels

    def halves(self, channels: int) -> int:
        """Return how many numbers there are when one axis is transformed."""
        rows = self.apart_down * (self.step_down * self.down + SIZE)
        return self.images * rows * SIZE * self.apart_across * self.across * channels

    def take(self, flat: Array, images: int, channels: int) -> Array:
        """Return the beginning of work space as the tiles of so many images."""
        size = self._replace(images=images).frequencies(channels)
        shape = (SIZE, SIZE, images, self.apart_down, self.down, self.apart_across, self.across, channels)
        return flat[:size].reshape(shape)


class InputTransform:
    """Cuts images (images, height, width, channels) into tiles, which overlap if the matrices have more columns than a tile
    has outputs, and transforms them by a matrix (6, cells) for each axis to `target`, tiles as `Tiling` takes them.
    """

    def __init__(self, tiling: Tiling, down: Array, across: Array, source: Array, target: Array, work: Array) -> None:
        self._down, self._across = down, across
        images, channels = len(source), source.shape[-1]
        line = tiling.apart_across * tiling.across * channels
        # Rows that tiles read; images may have more of them for the other direction.
        height = tiling.apart_down * (tiling.step_down * (tiling.down - 1) + down.shape[1])
        half = work[: images * height * SIZE * line]
        half = half.reshape(images, height, SIZE, tiling.apart_across, tiling.across, channels)
        image, row, cell, channel = source.strides
        shape = (images, height, tiling.apart_across, tiling.across, across.shape[1], channels)
        apart = tiling.apart_across * cell
        # Tiles overlap in the view instead of being copied; `matmul` reads them where they lie.
        self._first = as_strided(source, shape, (image, row, cell, tiling.step_across * apart, apart, channel))
        self._first_target = half.transpose(0, 1, 3, 4, 2, 5)
        image, row, frequency, _, _, channel = half.strides
        shape = (SIZE, images, tiling.apart_down, tiling.down, down.shape[1], line)
        apart = tiling.apart_down * row
        self._second = as_strided(half, shape, (frequency, image, row, tiling.step_down * apart, apart, channel))
        # The frequencies lead in the target: each of the 36 is then a matrix of its own for the BLAS.
        self._second_target = target.reshape(*target.shape[:5], line).transpose(1, 2, 3, 4, 0, 5)

    def __call__(self) -> None:
        """Transform along the width, then along the height."""
        np.matmul(self._across, self._first, out=self._first_target)
        np.matmul(self._down, self._second, out=self._second_target)


class OutputTransform:
    """Transforms `source`, tiles as `Tiling` takes them, by a matrix (outputs, 6) for each axis to images side by side."""

    def __init__(self, tiling: Tiling, down: Array, across: Array, source: Array, work: Array) -> None:
        self._down, self._across = down, across
        images, channels = source.shape[2], source.shape[-1]
        line = tiling.apart_across * tiling.across * channels
        shape = (images, tiling.apart_down, tiling.down, tiling.step_down, SIZE)
        columns = (tiling.apart_across, tiling.across, channels)
        half = work[: math.prod(shape) * line]
        self._first = source.reshape(*source.shape[:5], line).transpose(1, 2, 3, 4, 0, 5)
        self._first_target = half.reshape(*shape, line).transpose(4, 0, 1, 2, 3, 5)
        self._second = half.reshape(*shape, *columns).transpose(0, 1, 2, 3, 5, 6, 4, 7)
        # A row of the output is the tile's number, the row in the tile, and which of the rows that are apart; columns as well.
        rows = (images, tiling.down, tiling.step_down, tiling.apart_down)
        self._shape = (*rows, tiling.across, tiling.step_across, tiling.apart_across, channels)

    def __call__(self, target: Array) -> None:
        """Write the outputs into a contiguous array (images, rows, columns, channels) of whole tiles."""
        np.matmul(self._down, self._first, out=self._first_target)
        np.matmul(self._across, self._second, out=target.reshape(self._shape).transpose(0, 3, 1, 2, 6, 4, 5, 7))


POINTS = (0.0, 2 / 3, -2 / 3, 3 / 2, -3 / 2)
"""Where the polynomials are evaluated, beside infinity. Distances near 1 and pairs p, 1 / p keep rounding small: with float32
the mean error of F(4x4, 3x3) is half of that of the usual points 0, 1, -1, 2, -2, the largest error a quarter."""


class Matrices(NamedTuple):
    """Turn m + r - 1 inputs and r taps into m outputs of a correlation: y = gather @ ((taps @ w) * (inputs @ x))."""

    inputs: Array
    taps: Array
    gather: Array


def matrices(outputs: int, taps: int, dtype: np.dtype[Any]) -> Matrices:
    """Return the matrices of F(outputs, taps), the algorithm of Toom and Cook transposed.

    With points p_0 ... p_(n-2), n = outputs + taps - 1, and M_i(x) = prod_(l != i) (x - p_l): row i of `inputs` holds the
    coefficients of M_i, row i of `taps` the powers of p_i over M_i(p_i), column i of `gather` the powers of p_i; the last one
    of each belongs to infinity.

    Winograd, Arithmetic complexity of computations, SIAM 1980; Lavin and Gray, Fast algorithms for convolutional neural
    networks, CVPR 2016; on the choice of points Barabasz et al., Error analysis and improving the accuracy of Winograd
    convolution for deep neural networks, ACM TOMS 2020.
    """
    size = outputs + taps - 1
    points = np.array(POINTS[: size - 1])
    of_inputs, of_taps, of_gather = np.zeros((size, size)), np.zeros((size, taps)), np.zeros((outputs, size))
    for i, point in enumerate(points):
        others = np.delete(points, i)
        # `np.poly` gives the highest power first.
        of_inputs[i, :-1] = np.poly(others)[::-1]
        of_taps[i] = point ** np.arange(taps) / np.prod(point - others)
        of_gather[:, i] = point ** np.arange(outputs)
    # Infinity: the inputs' row is the product over all points, the taps' and the outputs' take the highest power.
    of_inputs[-1] = np.poly(points)[::-1]
    of_taps[-1, -1] = of_gather[-1, -1] = 1
    # Computed in float64 and rounded once.
    return Matrices(of_inputs.astype(dtype), of_taps.astype(dtype), of_gather.astype(dtype))


class FilterTransform:
    """Transforms kernels (kh, kw, channels / groups, filters) to 36 matrices by G w G^T, and gradients back.

    `down` and `across` are the matrices G of both axes, (6, kh) and (6, kw).
    """

    def __init__(
        self, channels: int, filters: int, groups: int, down: Array, across: Array, scratch: Scratch, dtype: np.dtype[Any]
    ) -> None:
        self._down, self._across, self._groups = down, across, groups
        self._down_back, self._across_back = np.ascontiguousarray(down.T), np.ascontiguousarray(across.T)
        height, width, size = down.shape[1], across.shape[1], channels // groups * filters
        self._half = scratch.empty((SIZE, width, size), dtype)
        self._turned = scratch.empty((height, width, filters // groups, channels), dtype)
        self._all = scratch.empty((SIZE, SIZE, size), dtype)

    def transform(self, kernel: Array) -> Array:
        """Return the matrices (36, channels / groups, filters) of a kernel. They stay until the next call."""
        np.matmul(self._down, kernel.reshape(len(kernel), -1), out=self._half.reshape(SIZE, -1))
        np.matmul(self._across, self._half, out=self._all)
        return self._all.reshape(FREQUENCIES, *kernel.shape[2:])

    def transform_turned(self, kernel: Array) -> Array:
        """Return the matrices (36, filters / groups, channels) of the kernel turned by 180 degrees."""
        grouped = kernel.reshape(*kernel.shape[:3], self._groups, -1)[::-1, ::-1]
        turned = self._turned.reshape(*self._turned.shape[:3], self._groups, -1)
        np.copyto(turned, grouped.swapaxes(2, 4))
        return self.transform(self._turned)

    def transform_back(self, gradient: Array, out: Array) -> None:
        """Write the gradient of the kernel that belongs to a gradient (36, channels / groups, filters) of its matrices."""
        # The transposed steps in reverse order.
        np.matmul(self._across_back, gradient.reshape(self._all.shape), out=self._half)
        np.matmul(self._down_back, self._half.reshape(SIZE, -1), out=out.reshape(len(out), -1))


SMALL_PRODUCT = 10**6
"""OpenBLAS multiplies matrices of up to so many products without rearranging them first, a fifth faster."""

NARROW_PRODUCT = 32
"""Narrower slices would cost more than that gains."""


def multiply(tiles: Array, filters: Array, out: Array, groups: int) -> None:
    """Write tiles (36, count, channels) times filters (36, channels / groups, filters) into `out` (36, count, filters)."""
    _product(_grouped(tiles, groups), _grouped(filters, groups), _grouped(out, groups))


def multiply_adjoint(tiles: Array, gradient: Array, out: Array, groups: int) -> None:
    """Write the gradient of the filters for that of the products, (36, count, filters)."""
    _product(_grouped(tiles, groups).swapaxes(2, 3), _grouped(gradient, groups), _grouped(out, groups))


def _grouped(array: Array, groups: int) -> Array:
    """Return (36, rows, columns) as (36, groups, rows, columns / groups)."""
    return array.reshape(*array.shape[:2], groups, -1).swapaxes(1, 2)


def _product(a: Array, b: Array, out: Array) -> None:
    """Write a @ b, in slices of the columns of b that make small products."""
    rows, inner, columns = *a.shape[2:], b.shape[3]
    width = columns
    # Halved only while that leaves no rest, so that all slices are alike.
    while rows * inner * width > SMALL_PRODUCT and width % 2 == 0 and width > NARROW_PRODUCT:
        width //= 2
    for start in range(0, columns, width):
        part = slice(start, start + width)
        np.matmul(a, b[..., part], out=out[..., part])

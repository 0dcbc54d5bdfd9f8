"""What Winograd's algorithm does with a block of images: correlations, and sums over tiles for the gradient of a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from nn.arrays import Array
from nn.operation.convolution.products import multiply, multiply_adjoint
from nn.operation.convolution.tiles import FREQUENCIES, Gather, Spread, Tiling
from nn.operation.convolution.toom_cook import Matrices
from nn.scratch import Scratch


class Setting(NamedTuple):
    """What both work with.

    `sizes` are the numbers of images that a block may have. `one` and `other` are work space for tiles: neither keeps anything
    there from one block to the next, so all share it.
    """

    down: Matrices
    across: Matrices
    groups: int
    sizes: Iterable[int]
    one: Array
    other: Array


class Correlation:
    """Correlates padded images with filters. `shape` is that of the output's images, which may cut tiles off."""

    def __init__(
        self, setting: Setting, tiling: Tiling, padded: Array, shape: tuple[int, int], filters: int, scratch: Scratch
    ) -> None:
        channels, one, other, self._groups = padded.shape[-1], setting.one, setting.other, setting.groups
        covered = (tiling.down * tiling.step_down, tiling.across * tiling.step_across)
        self._covered = None if covered == shape else scratch.empty((tiling.images, *covered, filters), padded.dtype)
        self._steps = {}
        for images in setting.sizes:
            tiles, products = tiling.take(one, images, channels), tiling.take(other, images, filters)
            spread = Spread(tiling, setting.down.inputs, setting.across.inputs, padded[:images], tiles, other)
            gather = Gather(tiling, setting.down.gather, setting.across.gather, products, one)
            self._steps[images] = (spread, _matrices(tiles), _matrices(products), gather)

    def run(self, filters: Array, out: Array) -> Array:
        """Correlate with filters (36, channels / groups, filters); return the result, which is `out` if no tile is cut off."""
        spread, tiles, products, gather = self._steps[len(out)]
        spread()
        multiply(tiles, filters, products, self._groups)
        if self._covered is None:
            gather(out)
            return out
        covered = self._covered[: len(out)]
        gather(covered)
        return covered[:, : out.shape[1], : out.shape[2]]


class FilterGradient:
    """Sums up the gradient of transformed filters (36, channels / groups, filters) over blocks of images."""

    def __init__(self, setting: Setting, tiling: Tiling, padded: Array, gradient: Array, scratch: Scratch) -> None:
        channels, filters, dtype, self._groups = padded.shape[-1], gradient.shape[-1], padded.dtype, setting.groups
        work = scratch.empty((tiling.halves(filters),), dtype)
        self.total = scratch.empty((FREQUENCIES, channels // setting.groups, filters), dtype)
        self._part = scratch.empty(self.total.shape, dtype)
        down, across = (np.ascontiguousarray(found.gather.T) for found in (setting.down, setting.across))
        self._steps = {}
        for images in setting.sizes:
            tiles, incoming = tiling.take(setting.one, images, channels), tiling.take(setting.other, images, filters)
            spread = Spread(tiling, setting.down.inputs, setting.across.inputs, padded[:images], tiles, setting.other)
            spread_gradient = Spread(tiling, down, across, gradient[:images], incoming, work)
            self._steps[images] = (spread, spread_gradient, _matrices(tiles), _matrices(incoming))

    def add(self, images: int, first: bool) -> None:
        """Add what so many images contribute; the first block overwrites."""
        spread, spread_gradient, tiles, incoming = self._steps[images]
        spread()
        spread_gradient()
        multiply_adjoint(tiles, incoming, self.total if first else self._part, self._groups)
        if not first:
            np.add(self.total, self._part, out=self.total)


def _matrices(tiles: Array) -> Array:
    """Return tiles (6, 6, images, down, across, channels) as matrices (36, tiles, channels)."""
    return tiles.reshape(FREQUENCIES, -1, tiles.shape[-1])

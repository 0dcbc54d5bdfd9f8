"""Transforms of images to tiles and back, along both axes, as products with small matrices.

A tile has 6x6 frequencies. As a product the transform takes no longer than one pass of an elementwise operation, whatever
numbers the matrix holds.
"""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nn.arrays import Array

SIZE = 6
"""Frequencies of a tile along one axis."""

FREQUENCIES = SIZE * SIZE


class Tiling(NamedTuple):
    """How many images a block has, the tiles of an image down and across, and the outputs of a tile down and across."""

    images: int
    down: int
    across: int
    step_down: int
    step_across: int

    def frequencies(self, channels: int) -> int:
        """Return how many frequencies the tiles have."""
        return FREQUENCIES * self.images * self.down * self.across * channels

    def halves(self, channels: int) -> int:
        """Return how many numbers there are when one axis is transformed."""
        return self.images * (self.step_down * self.down + SIZE) * SIZE * self.across * channels

    def take(self, flat: Array, images: int, channels: int) -> Array:
        """Return the beginning of work space as the tiles of so many images."""
        size = self._replace(images=images).frequencies(channels)
        return flat[:size].reshape(SIZE, SIZE, images, self.down, self.across, channels)


class Spread:
    """Cuts images (images, height, width, channels) into tiles, which overlap if the matrices have more columns than a tile
    has outputs, and transforms them by a matrix (6, cells) for each axis to `target` (6, 6, images, down, across, channels).
    """

    def __init__(self, tiling: Tiling, down: Array, across: Array, source: Array, target: Array, work: Array) -> None:
        self._down, self._across = down, across
        images, channels = len(source), source.shape[-1]
        line = tiling.across * channels
        height = tiling.step_down * (tiling.down - 1) + down.shape[1]
        half = work[: images * height * SIZE * line].reshape(images, height, SIZE, tiling.across, channels)
        image, row, cell, channel = source.strides
        shape = (images, height, tiling.across, across.shape[1], channels)
        self._first = as_strided(source, shape, (image, row, tiling.step_across * cell, cell, channel))
        self._first_target = half.swapaxes(2, 3)
        image, row, frequency, _, channel = half.strides
        shape = (SIZE, images, tiling.down, down.shape[1], line)
        self._second = as_strided(half, shape, (frequency, image, tiling.step_down * row, row, channel))
        self._second_target = target.reshape(SIZE, SIZE, images, tiling.down, line).transpose(1, 2, 3, 0, 4)

    def __call__(self) -> None:
        """Transform along the width, then along the height."""
        np.matmul(self._across, self._first, out=self._first_target)
        np.matmul(self._down, self._second, out=self._second_target)


class Gather:
    """Transforms tiles (6, 6, images, down, across, channels) by a matrix (outputs, 6) for each axis to images side by side."""

    def __init__(self, tiling: Tiling, down: Array, across: Array, source: Array, work: Array) -> None:
        self._down, self._across = down, across
        images, channels = source.shape[2], source.shape[-1]
        line = tiling.across * channels
        shape = (images, tiling.down, tiling.step_down, SIZE, tiling.across, channels)
        half = work[: int(np.prod(shape))].reshape(shape)
        self._first = source.reshape(SIZE, SIZE, images, tiling.down, line).transpose(1, 2, 3, 0, 4)
        self._first_target = half.reshape(*shape[:4], line).transpose(3, 0, 1, 2, 4)
        self._second = half.swapaxes(3, 4)
        self._shape = (*shape[:3], tiling.across, tiling.step_across, channels)

    def __call__(self, target: Array) -> None:
        """Write the outputs into a contiguous array (images, rows, columns, channels) of whole tiles."""
        np.matmul(self._down, self._first, out=self._first_target)
        np.matmul(self._across, self._second, out=target.reshape(self._shape))

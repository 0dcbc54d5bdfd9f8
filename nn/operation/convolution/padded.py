"""Images with a border of zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from nn.arrays import Array
from nn.scratch import Scratch


class Padded:
    """Room for images (height, width, channels) from (`top`, `left`) on in an array (images, *shape, channels).

    The array is work space, so whoever uses it calls `clear` at the beginning of a call.
    """

    def __init__(
        self,
        images: int,
        shape: tuple[int, int],
        inside: tuple[int, int],
        corner: tuple[int, int],
        channels: int,
        scratch: Scratch,
        dtype: np.dtype[Any],
    ) -> None:
        (top, left), (height, width) = corner, inside
        self.array = scratch.empty((images, *shape, channels), dtype)
        self.from_corner = self.array[:, top:, left:]
        """The array without the border above and to the left."""
        self.inside = self.from_corner[:, :height, :width]
        """The images."""
        borders = (
            self.array[:, :top],
            self.array[:, top + height :],
            self.array[:, top : top + height, :left],
            self.array[:, top : top + height, left + width :],
        )
        self._borders = [border for border in borders if border.size]

    def clear(self) -> None:
        """Write zeros into the borders."""
        for border in self._borders:
            border.fill(0)

    def fill(self, images: Array) -> None:
        """Copy images into the inside."""
        np.copyto(self.inside[: len(images)], images)

    def cells(self, images: int) -> Array:
        """Return all cells of so many images, (cells, channels)."""
        return self.array[:images].reshape(-1, self.array.shape[-1])

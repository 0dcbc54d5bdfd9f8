"""The windows of a convolution as a matrix, with a row for each place, and the way back: windows added up in images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nn.arrays import Array, Scratch
from nn.operation.convolution.problem import Padded
from nn.operation.convolution.window import Window

NARROW_PATCH = 32
"""Windows with rows of fewer numbers are copied cell by cell of the kernel, because short copies are slow."""

PLACES_FIRST = (0, 1, 2, 3, 4, 5, 6)
TAPS_FIRST = (0, 4, 5, 6, 1, 2, 3)
"""Orders in memory of (group, image, row, column, row of the kernel, column of the kernel, channel)."""


class Patches:
    """Copies of the windows of up to `images` images, (groups, positions, taps), taps being kh * kw * channels / groups."""

    def __init__(
        self, images: int, rows: Window, columns: Window, channels: int, groups: int, scratch: Scratch, dtype: np.dtype[Any]
    ) -> None:
        part = channels // groups
        self._groups, self.taps = groups, rows.size * columns.size * part
        self._padded = Padded(
            images,
            (rows.length + rows.before + rows.after, columns.length + columns.before + columns.after),
            (rows.length, columns.length),
            (rows.before, columns.before),
            channels,
            scratch,
            dtype,
        )
        image, row, cell, channel = self._padded.array.strides
        shape = (groups, images, rows.positions, columns.positions, rows.size, columns.size, part)
        apart = (rows.dilation * row, columns.dilation * cell)
        strides = (part * channel, image, rows.stride * row, columns.stride * cell, *apart, channel)
        # A view in which windows overlap: it is read as a whole, and written for one cell of the kernel at a time only.
        self._windows = as_strided(self._padded.array, shape, strides)
        self._narrow = columns.size * part < NARROW_PATCH
        order = TAPS_FIRST if self._narrow else PLACES_FIRST
        # Stored in one of the two orders, seen in the order of the windows' axes, so that `take` is one copy.
        self._copied = scratch.empty(tuple(shape[axis] for axis in order), dtype).transpose(np.argsort(order))

    def clear(self) -> None:
        """Prepare the padding: before `take` in every call, and after `give`."""
        self._padded.clear()

    def take(self, images: Array) -> Array:
        """Return the windows of some images."""
        self._padded.fill(images)
        np.copyto(self._copied[:, : len(images)], self._windows[:, : len(images)])
        return self.matrix(len(images))

    def matrix(self, images: int) -> Array:
        """Return the matrix of the windows of so many images, to read or to write."""
        copied = self._copied[:, :images]
        if self._narrow:
            return copied.transpose(TAPS_FIRST).reshape(self._groups, self.taps, -1).swapaxes(1, 2)
        return copied.reshape(self._groups, -1, self.taps)

    def give(self, target: Array) -> None:
        """Add up the windows in the matrix where they lie in the images, and write these."""
        images = len(target)
        self._padded.array[:images].fill(0)
        for row in range(self._windows.shape[4]):
            for cell in range(self._windows.shape[5]):
                place = self._windows[:, :images, :, :, row, cell]
                # No two windows have the same cell at the same tap, so in this part of the view nothing overlaps.
                np.add(place, self._copied[:, :images, :, :, row, cell], out=place)
        np.copyto(target, self._padded.inside[:images])

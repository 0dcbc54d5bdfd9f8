"""A convolution as a problem, apart from its solution, and parts that all ways to compute it share: blocks of images, borders
of zeros, and the steps behind the product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from nn.arrays import Array, Scratch
from nn.operation.broadcasting import LONG, LongColumns
from nn.operation.convolution.window import Window


class Problem(NamedTuple):
    """The shapes of a convolution: x (images, height, width, channels) with a kernel (kh, kw, channels / groups, filters)."""

    images: int
    rows: Window
    columns: Window
    channels: int
    filters: int
    groups: int
    biased: bool
    rectified: bool
    dtype: np.dtype[Any]

    @property
    def output(self) -> tuple[int, int, int, int]:
        """The shape of the output."""
        return (self.images, self.rows.positions, self.columns.positions, self.filters)


class Method(Protocol):
    """A way to compute it. The memory that it needs is allocated when it is made."""

    def forward(self, x: Array, kernel: Array, bias: Array | None, out: Array) -> None:
        """Write the convolution, plus bias, rectified if the problem says so."""

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
        """Write the gradients that are wanted."""


class Blocks:
    """Slices of `images` images, as long as `limit` allows but not empty; the last one may be shorter.

    Fewer images never make longer slices: work space for a part of a batch is enough for a smaller part.
    """

    def __init__(self, images: int, limit: int) -> None:
        # The limit is 0 where one image is larger than a block should be.
        self.largest = max(1, min(images, limit))
        self._slices = [slice(start, min(start + self.largest, images)) for start in range(0, images, self.largest)]
        self.sizes = {part.stop - part.start for part in self._slices}
        """The lengths that occur."""

    def __iter__(self) -> Iterator[slice]:
        return iter(self._slices)


class Padded:
    """Room for images (height, width, channels) from (`top`, `left`) on in an array (images, *shape, channels).

    The array is work space, so its user calls `clear` at the beginning of a call.
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
        # The corners belong to the bands above and below, so that no cell is cleared twice.
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

    def fill(self, images: Array, beside: int = 1) -> None:
        """Copy images into the inside, where so many of them lie beside each other in place of one with more channels."""
        target = self.split(len(images), beside)
        np.copyto(target, images.reshape(target.shape))

    def split(self, images: int, beside: int) -> Array:
        """Return the inside of so many images; where several lie beside each other, (-1, beside, height, width, channels)."""
        inside = self.inside[: images // beside]
        return inside if beside == 1 else side_by_side(inside, beside)

    def cells(self, images: int) -> Array:
        """Return all cells of so many images, (cells, channels)."""
        return self.array[:images].reshape(-1, self.array.shape[-1])


class Epilogue:
    """Last step of a convolution: adds the bias and rectifies blocks of the output, and takes both back from its gradient.

    `images` is the largest number of images in a block, `cells` the largest number of rows that `add_bias_gradient` gets.
    """

    def __init__(self, problem: Problem, images: int, cells: int, scratch: Scratch) -> None:
        # The bias is repeated for each place of a row of the output, so that inner loops are long.
        line = problem.columns.positions * problem.filters
        self._bias = scratch.empty((line,), problem.dtype) if problem.biased else None
        self._ones = np.ones((1, min(cells, LONG)), problem.dtype) if problem.biased else None
        self._sum = scratch.empty((1, problem.filters), problem.dtype) if problem.biased else None
        long = problem.biased and cells > LONG
        self._long = LongColumns(1, cells, problem.filters, problem.dtype, scratch) if long else None
        # np.maximum is three times faster with an array of zeros than with the number
        self._zero = np.zeros(line, problem.dtype) if problem.rectified else None
        block = (images, *problem.output[1:])
        self._positive = scratch.empty(block, np.dtype(bool)) if problem.rectified else None

    def begin(self, bias: Array | None) -> None:
        """Take the bias of this call."""
        if self._bias is not None and bias is not None:
            np.copyto(self._bias.reshape(-1, len(bias)), bias)

    def finish(self, value: Array, out: Array) -> None:
        """Write max(value + bias, 0), or the steps of it that there are, into `out`, which may be the same memory."""
        source, target = _lines(value), _lines(out)
        if self._bias is not None:
            np.add(source, self._bias, out=target)
        # The same array needs no copy; `Winograd` gives another one where tiles have been cut off.
        elif value is not out:
            np.copyto(target, source)
        if self._zero is not None:
            np.maximum(target, self._zero, out=target)

    def start(self, gradient: Array, output: Array, target: Array) -> None:
        """Write the gradient before the rectifier into `target`."""
        if self._positive is None:
            np.copyto(target, gradient.reshape(target.shape))
            return
        positive = self._positive[: len(output)]
        # The output is positive just where the sum before the rectifier was, so that sum is not kept.
        np.greater(output, 0, out=positive)
        np.multiply(gradient.reshape(target.shape), positive.reshape(target.shape), out=target)

    def gradients(
        self, blocks: Blocks, output: Array, gradient: Array, memory: Array, for_bias: Array | None
    ) -> Iterator[tuple[slice, Array]]:
        """Yield each block with its gradient before the rectifier, of which that of the bias has been taken.

        Args:
            blocks: of the images.
            output: of the convolution.
            gradient: of this output.
            memory: room for the gradient of one block.
            for_bias: where the gradient of the bias is written; None where it is not wanted.
        """
        for block in blocks:
            incoming = memory[: block.stop - block.start]
            self.start(gradient[block], output[block], incoming)
            if for_bias is not None:
                self.add_bias_gradient(incoming.reshape(-1, incoming.shape[-1]), block.start == 0, for_bias)
            yield block, incoming

    def add_bias_gradient(self, rows: Array, first: bool, total: Array) -> None:
        """Add the sum over rows (cells, filters) to the gradient of the bias, which the first block overwrites."""
        if self._ones is None or self._sum is None:
            return
        if self._long is not None and len(rows) > LONG:
            self._long(rows[None], self._sum)
        else:
            np.matmul(self._ones[:, : len(rows)], rows, out=self._sum)
        if first:
            np.copyto(total, self._sum[0])
        else:
            np.add(total, self._sum[0], out=total)


def side_by_side(images: Array, beside: int) -> Array:
    """Return images (n, height, width, beside * channels) as (n, beside, height, width, channels)."""
    return images.reshape(*images.shape[:3], beside, -1).transpose(0, 3, 1, 2, 4)


def _lines(images: Array) -> Array:
    """Return a view (images, height, width * channels), so that inner loops are long."""
    return images.reshape(*images.shape[:2], math.prod(images.shape[2:]))

"""Convolution with dilations as one without, of images of every d-th pixel."""

from __future__ import annotations

import numpy as np

from nn.arrays import Array, Scratch, Shape
from nn.operation.convolution.problem import Problem
from nn.operation.convolution.window import Window
from nn.operation.convolution.winograd import Winograd


class Phases:
    """Cells of a kernel that are d pixels apart see every d-th pixel: an image is d * d images without dilation.

    Output p reads pixels p, p + d, ... of the padded image. So outputs with the same p mod d along both axes are the plain
    convolution of the pixels with this remainder, which `Winograd` computes with a fraction of the multiplications.
    """

    def __init__(self, problem: Problem, scratch: Scratch) -> None:
        rows, columns = problem.rows, problem.columns
        plain, apart = _plain(problem), (rows.dilation, columns.dilation)
        self._winograd = Winograd(plain, scratch)
        inside, corner = (rows.length, columns.length), (rows.before, columns.before)
        parts = (*apart, problem.images)
        x = scratch.empty((*parts, plain.rows.length, plain.columns.length, problem.channels), problem.dtype)
        self._x = _Parts(x, inside, corner)
        # Forward writes it and backward reads it, where the derivative of the rectifier follows from it.
        self._output, self._gradient = (
            _Parts(scratch.empty((*parts, *plain.output[1:]), problem.dtype), problem.output[1:3], (0, 0)) for _ in range(2)
        )
        self._rectified = problem.rectified

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Return whether the kernel has dilations, moves by 1, and is one for `Winograd` without them."""
        windows = (problem.rows, problem.columns)
        if all(window.dilation == 1 for window in windows) or any(window.stride > 1 for window in windows):
            return False
        return Winograd.suits(_plain(problem))

    def forward(self, x: Array, kernel: Array, bias: Array | None, out: Array) -> None:
        """Write the convolution."""
        self._winograd.forward(self._x.take(x), kernel, bias, self._output.images)
        self._output.give(out)

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
        self._winograd.backward(
            # of the pixels only that of the kernel depends on; of each block they are read before their gradient is written
            self._x.images if for_kernel is None else self._x.take(x),
            kernel,
            self._output.take(output) if self._rectified else self._output.images,
            self._gradient.take(gradient),
            None if for_x is None else self._x.images,
            for_kernel,
            for_bias,
        )
        if for_x is not None:
            self._x.give(for_x)


def _plain(problem: Problem) -> Problem:
    """Return the problem of the images of every d-th pixel, which hold their padding."""
    rows, columns = (
        # Room for the phase with the most outputs; another one may have a row or column less, whose cells stay 0.
        Window(-(-each.positions // each.dilation) + each.size - 1, each.size, 1, 0, 0)
        for each in (problem.rows, problem.columns)
    )
    return problem._replace(
        images=problem.images * problem.rows.dilation * problem.columns.dilation, rows=rows, columns=columns
    )


class _Parts:
    """Images cut into those of every d-th pixel, with zeros around where these have more room.

    Args:
        parts: memory, (d of the rows, d of the columns, images, rows, columns, channels).
        inside: rows and columns of the whole images.
        corner: rows of padding above them, and columns to the left.
    """

    def __init__(self, parts: Array, inside: Shape, corner: Shape) -> None:
        self.images = parts.reshape(-1, *parts.shape[3:])
        """All parts as images."""
        axes = [
            [_places(phase, apart, length, before) for phase in range(apart)]
            for apart, length, before in zip(parts.shape[:2], inside, corner, strict=True)
        ]
        self._places = [
            (parts[row, column, :, down, across], whole_down, whole_across)
            for row, (down, whole_down) in enumerate(axes[0])
            for column, (across, whole_across) in enumerate(axes[1])
        ]
        # Without padding, and with phases of equal size, each cell is overwritten and none has to be cleared.
        self._fills = sum(part.size for part, _, _ in self._places) == parts.size

    def take(self, images: Array) -> Array:
        """Cut some images, and return all parts."""
        if not self._fills:
            self.images.fill(0)
        for part, down, across in self._places:
            np.copyto(part, images[:, down, across])
        return self.images

    def give(self, images: Array) -> None:
        """Put the parts together."""
        for part, down, across in self._places:
            np.copyto(images[:, down, across], part)


def _places(phase: int, apart: int, length: int, before: int) -> tuple[slice, slice]:
    """Return where the pixels of an axis that belong to a phase lie in their part, and in the axis."""
    first = (phase - before) % apart
    start = (first + before) // apart
    return slice(start, start + len(range(first, length, apart))), slice(first, None, apart)

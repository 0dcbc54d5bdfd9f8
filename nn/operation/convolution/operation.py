"""The convolution of images or sequences with a kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import BATCH, Array, Shape
from nn.operation.convolution.banded import Banded
from nn.operation.convolution.depthwise import Depthwise
from nn.operation.convolution.im2col import Im2Col
from nn.operation.convolution.problem import Method, Problem
from nn.operation.convolution.window import Padding, Window, place
from nn.operation.convolution.winograd import Winograd
from nn.operation.operation import Operation, batch_leads


class Convolution(Operation):
    """y[n, i, j, f] = sum over k, l, c of x[n, i s + k d - p, j s + l d - p, c] w[k, l, c, f], plus b[f]; rectified or not.

    Inputs are x (batch, height, width, channels), a kernel (kh, kw, channels / groups, filters) and, if there is one, a bias
    (filters,); the output is (batch, height', width', filters). Sequences (batch, time, channels) take a kernel (k, channels /
    groups, filters). Filters and channels are cut into `groups`; each group of filters sees its group of channels.

    Args:
        strides: step of the window along each axis but batch and channels.
        padding: 'valid', 'same', or a number of zeros on every side.
        groups: number of groups.
        dilations: cells of x from one cell of the kernel to the next, along each axis; default: 1.

    It adds the bias while the numbers are in the cache. Kernels of one channel and one filter are computed by `Depthwise`, or
    by `Banded` where they move by 1 over short rows and the BLAS multiplies small matrices fast; those of 2 to 5 cells each way
    that move by 1 over at least 16 channels, to at least 16 filters, by `Winograd`, and all else by `Im2Col`: the shapes and
    the kernels of the BLAS decide, not the data.
    """

    multiplies: ClassVar[bool] = True

    rectified: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float] | None] = (-math.inf, math.inf)

    def __init__(
        self, strides: Sequence[int], padding: Padding = "valid", groups: int = 1, dilations: Sequence[int] | None = None
    ) -> None:
        self.strides, self.padding, self.groups = tuple(strides), padding, groups
        self.dilations = (1,) * len(self.strides) if dilations is None else tuple(dilations)

    def infer(self, *shapes: Shape) -> Shape:
        x, kernel = shapes[:2]
        owner = type(self).__name__
        if len(x) != len(self.strides) + 2 or len(kernel) != len(x) or BATCH in x[1:]:
            axes = "height, width" if len(self.strides) == 2 else "time"
            raise ValueError(f"{owner}: expected inputs of shape (batch, {axes}, channels), all but the batch known, got {x}")
        if x[-1] != kernel[-2] * self.groups:
            raise ValueError(
                f"{owner}: axis {len(x) - 1} of the inputs must have {kernel[-2] * self.groups} channels for a kernel of shape "
                f"{kernel} and {self.groups} groups, got {x[-1]} in shape {x}"
            )
        if kernel[-1] % self.groups:
            raise ValueError(f"{owner}: 'groups' must divide the {kernel[-1]} filters of the kernel, got {self.groups}")
        if len(shapes) > 2 and shapes[2] != kernel[-1:]:
            raise ValueError(f"{owner}: a bias for {kernel[-1]} filters must have shape {kernel[-1:]}, got {shapes[2]}")
        return (x[0], *(window.positions for window in self._place(x, kernel)), kernel[-1])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Return whether the batch leads x and is no axis of a variable: each image is convolved alone."""
        return batch_leads(shapes[0]) and all(BATCH not in shape for shape in shapes[1:])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        # A sequence is an image of width 1.
        rows, columns = (*self._place(*shapes[:2]), Window(1, 1, 1, 0, 0))[:2]
        problem = Problem(
            shapes[0][0], rows, columns, shapes[0][-1], output[-1], self.groups, len(shapes) > 2, self.rectified, dtype
        )
        kind = next((each for each in (Banded, Depthwise, Winograd) if each.suits(problem)), Im2Col)
        self._lies = kind is Depthwise and len(shapes[0]) == 3
        if self._lies:
            # It works along rows, so to it a sequence is an image of height 1.
            problem = problem._replace(rows=columns, columns=rows)
        self._method: Method = kind(problem, self.scratch)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        x, kernel, *bias = inputs
        self._method.forward(self._image(x), self._kernel(kernel), bias[0] if bias else None, self._image(out))

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        for_x, for_kernel = wanted[:2]
        self._method.backward(
            self._image(inputs[0]),
            self._kernel(inputs[1]),
            self._image(output),
            self._image(gradient),
            None if for_x is None else self._image(for_x),
            None if for_kernel is None else self._kernel(for_kernel),
            wanted[2] if len(wanted) > 2 else None,
        )

    def _image(self, array: Array) -> Array:
        return as_image(array, array.ndim, 1 if self._lies else 2)

    def _kernel(self, array: Array) -> Array:
        return as_image(array, array.ndim, 0 if self._lies else 1)

    def _place(self, x: Shape, kernel: Shape) -> list[Window]:
        return place(type(self).__name__, x[1:-1], kernel[:-2], self.strides, self.padding, self.dilations)


class RectifiedConvolution(Convolution):
    """max(y, 0) for the y of `Convolution`, in one operation that rectifies while the numbers are in the cache."""

    reads_output: ClassVar[bool] = True
    rectified: ClassVar[bool] = True
    bounds: ClassVar[tuple[float, float] | None] = (0, math.inf)


def as_image(array: Array, axes: int, width: int = 2) -> Array:
    """Return an array of a convolution of sequences, which has three axes, with one more of length 1 at place `width`."""
    # A view, so that what is written to it is written to the sequence.
    return np.expand_dims(array, width) if axes == 3 else array

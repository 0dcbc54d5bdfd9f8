"""The transposed convolution: a convolution's map from gradients of its output to gradients of its input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import BATCH, Array, Shape
from nn.operation.convolution.im2col import Im2Col
from nn.operation.convolution.operation import as_image
from nn.operation.convolution.problem import Problem
from nn.operation.convolution.window import Padding, Window
from nn.operation.operation import Operation, batch_leads


class TransposedConvolution(Operation):
    """y[n, i s + k - p, j s + l - p, f] = sum of x[n, i, j, c] w[k, l, f, c] over all i, j, k, l and c that lead there.

    Inputs are x (batch, height, width, channels) and a kernel (kh, kw, filters, channels); the output is (batch, height',
    width', filters). Sequences (batch, time, channels) take a kernel (k, filters, channels). It is the way back of the
    convolution with this kernel, stride and padding: its forward is the gradient of that one's input, and its backward is that
    one's forward.

    Args:
        strides: step from one cell of x to the next in y, along each axis but batch and channels.
        padding: 'valid' for all cells that are reached, 'same' for stride times as many as x has, or a number of cells to cut
            off on every side.
        extra: cells added behind, along each axis, where `padding` is a number; less than the stride.
    """

    multiplies: ClassVar[bool] = True
    bounds: ClassVar[tuple[float, float] | None] = (-math.inf, math.inf)

    def __init__(self, strides: Sequence[int], padding: Padding = "valid", extra: Sequence[int] | None = None) -> None:
        self.strides, self.padding = tuple(strides), padding
        self.extra = (0,) * len(self.strides) if extra is None else tuple(extra)

    def infer(self, *shapes: Shape) -> Shape:
        x, kernel = shapes
        owner = type(self).__name__
        if len(x) != len(self.strides) + 2 or len(kernel) != len(x) or BATCH in x[1:]:
            axes = "height, width" if len(self.strides) == 2 else "time"
            raise ValueError(f"{owner}: expected inputs of shape (batch, {axes}, channels), all but the batch known, got {x}")
        if x[-1] != kernel[-1]:
            raise ValueError(
                f"{owner}: axis {len(x) - 1} of the inputs must have {kernel[-1]} channels for a kernel of shape {kernel}, "
                f"got {x[-1]} in shape {x}"
            )
        return (x[0], *(window.length for window in self._place(x, kernel)), kernel[-2])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Return whether the batch leads x and is no axis of the kernel."""
        return batch_leads(shapes[0]) and BATCH not in shapes[1]

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        rows, columns = (*self._place(*shapes), Window(1, 1, 1, 0, 0))[:2]
        # The convolution that is reversed has y for its input and x for its output.
        problem = Problem(shapes[0][0], rows, columns, output[-1], shapes[0][-1], 1, False, False, dtype)
        self._method = Im2Col(problem, self.scratch)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        x, kernel = as_image(inputs[0], inputs[0].ndim), as_image(inputs[1], inputs[0].ndim, 1)
        self._method.reverse(x, kernel, as_image(out, inputs[0].ndim))

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        axes = inputs[0].ndim
        x, kernel, incoming = as_image(inputs[0], axes), as_image(inputs[1], axes, 1), as_image(gradient, axes)
        for_x, for_kernel = wanted
        self._method.reverse_gradients(
            incoming,
            kernel,
            x,
            None if for_kernel is None else as_image(for_kernel, axes, 1),
            None if for_x is None else as_image(for_x, axes),
        )

    def _place(self, x: Shape, kernel: Shape) -> list[Window]:
        """Return the windows of the convolution that this one reverses: they move over the output."""
        found = []
        each = zip(x[1:-1], kernel[:-2], self.strides, self.extra, strict=True)
        for axis, (count, size, stride, extra) in enumerate(each, start=1):
            whole = (count - 1) * stride + size
            before = after = 0
            if isinstance(self.padding, int):
                before = after = self.padding
                length = whole - 2 * self.padding + extra
            elif self.padding == "same":
                length = count * stride
                before = max(whole - length, 0) // 2
                after = max(whole - length, 0) - before
            else:
                # As Keras has it: with a stride beyond the kernel's size the cells behind the last kernel stay, as zeros.
                length = max(whole, count * stride)
            if length < 1:
                raise ValueError(
                    f"{type(self).__name__}: 'padding' must leave cells of axis {axis}, got {self.padding} for {whole} of them"
                )
            found.append(Window(length, size, stride, before, after))
        return found

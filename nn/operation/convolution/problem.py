"""What a convolution computes, apart from how."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from nn.arrays import Array
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
    """A way to compute it. What it needs is allocated when it is made."""

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

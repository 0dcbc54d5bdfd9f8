"""Kernels as Winograd's algorithm needs them, and back."""

from typing import Any

import numpy as np

from nn.arrays import Array
from nn.operation.convolution.tiles import FREQUENCIES, SIZE
from nn.scratch import Scratch


class Filters:
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
        np.matmul(self._across_back, gradient.reshape(self._all.shape), out=self._half)
        np.matmul(self._down_back, self._half.reshape(SIZE, -1), out=out.reshape(len(out), -1))

"""Rectifiers with slopes that are trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.broadcasting import Summation
from nn.operation.operation import MaskOf, Operation, batch_leads

BLOCK = 32768
"""Elements of the samples in hand at a time: three arrays of this size fit into a core's second-level cache."""


class ParametricRectify(Operation):
    """y = x for x > 0, alpha x otherwise (He, Zhang, Ren and Sun, 2015).

    Inputs: x (batch, ...), alpha as a sample of x, with length 1 along axes that share slopes. The gradient of x is 0 at 0.
    """

    mask_of: ClassVar[MaskOf] = "first"
    in_place: ClassVar[bool] = True

    def infer(self, *shapes: Shape) -> Shape:
        x, alpha = shapes
        if len(alpha) != len(x) - 1 or any(given not in (1, length) for given, length in zip(alpha, x[1:], strict=True)):
            raise ValueError(f"ParametricRectify: slopes of shape {alpha} do not fit samples of shape {x[1:]}")
        return x

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        batch, *sample = output
        size = math.prod(sample)
        some = min(batch, max(1, self.block_factor * BLOCK // size))
        self._blocks = [slice(start, min(start + some, batch)) for start in range(0, batch, some)]
        self._shape, self._sample = (batch, size), tuple(sample)
        self._work, self._other = self.scratch.empty((2, some, size), dtype)
        self._chosen = self.scratch.empty((some, size), np.dtype(bool))
        # Slopes repeated for a sample: NumPy combines rows of that length several times as fast as one number of each channel.
        self._slopes, self._total, self._part = self.scratch.empty((3, size), dtype)
        # The same for the bound of both halves: a comparison with one number takes half as long again.
        self._zeros = np.zeros(size, dtype)
        self._ones = np.ones(some, dtype)
        shared = [axis for axis, (given, length) in enumerate(zip(shapes[1], sample, strict=True)) if given != length]
        self._sum = Summation(self._sample, shared, dtype, self.scratch)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        self._repeat(inputs[1])
        x, output = inputs[0].reshape(self._shape), out.reshape(self._shape)
        for block in self._blocks:
            work, result = self._work[: block.stop - block.start], output[block]
            np.minimum(x[block], self._zeros, out=work)
            np.multiply(work, self._slopes, out=work)
            # The last look at this block of x, whose memory the output may be.
            np.maximum(x[block], self._zeros, out=result)
            np.add(result, work, out=result)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write the gradients: that of an alpha is sum g min(x, 0), over the samples and the places that share it."""
        x, gradients = inputs[0].reshape(self._shape), gradient.reshape(self._shape)
        for_x, for_alpha = wanted
        self._repeat(inputs[1])
        self._total.fill(0)
        for block in self._blocks:
            count = block.stop - block.start
            part, work, other, chosen = gradients[block], self._work[:count], self._other[:count], self._chosen[:count]
            if for_alpha is not None:
                np.minimum(x[block], self._zeros, out=work)
                np.multiply(work, part, out=work)
                np.matmul(self._ones[:count], work, out=self._part)
                np.add(self._total, self._part, out=self._total)
            if for_x is not None:
                target = for_x.reshape(self._shape)[block]
                # Masks as numbers, since copies through a mask take fifty times as long where its bits change often.
                np.copyto(work, np.less(x[block], 0, out=chosen))
                np.copyto(other, np.greater(x[block], 0, out=chosen))
                np.multiply(work, part, out=work)
                np.multiply(work, self._slopes, out=work)
                # The last look at this block of the gradient, whose memory the target may be.
                np.multiply(other, part, out=target)
                np.add(target, work, out=target)
        if for_alpha is not None:
            self._sum(self._total.reshape(self._sample), for_alpha)

    def _repeat(self, alpha: Array) -> None:
        np.copyto(self._slopes.reshape(self._sample), alpha)

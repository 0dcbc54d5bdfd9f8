"""Normalisation of each position over its features."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.batch_axis import batch_leads
from nn.operation.operation import Operation

BLOCK = 32_768
"""Elements of a block: several arrays of this size fit into a core's second-level cache."""


class LayerNormalize(Operation):
    """y = gamma * (x - m) / sqrt(v + epsilon) + beta, with m and v over the last axis (Ba, Kiros and Hinton, 2016).

    Inputs: x (batch, ..., features), gamma and beta (features,). v is the mean square of the differences to m.
    """

    in_place: ClassVar[bool] = True

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon

    def infer(self, *shapes: Shape) -> Shape:
        """Return the shape of x."""
        return shapes[0]

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Whether the batch is the first axis; the features are another."""
        return batch_leads(shapes[0]) and len(shapes[0]) > 1

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Make room for two numbers per position and for blocks of positions."""
        self._shape = (math.prod(output[:-1]), output[-1])
        positions, features = self._shape
        height = min(positions, max(1, BLOCK // features))
        self._blocks = [slice(start, min(start + height, positions)) for start in range(0, positions, height)]
        self._mean, self._scale = np.empty((2, positions, 1), dtype)
        self._average = np.full(features, 1 / features, dtype)
        self._ones = np.ones(height, dtype)
        self._feature = np.empty(features, dtype)
        self._slope = np.empty((height, 1), dtype)
        self._work = self.scratch.empty((height, features), dtype)
        self._gamma = self.scratch.empty((height, features), dtype)
        self._beta = self.scratch.empty((height, features), dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the normalised values."""
        x, output = inputs[0].reshape(self._shape), out.reshape(self._shape)
        # repeated for every position of a block: NumPy is slow at repeating short rows itself
        np.copyto(self._gamma, inputs[1])
        np.copyto(self._beta, inputs[2])
        for block in self._blocks:
            mean, scale, result = self._mean[block], self._scale[block], output[block]
            count = len(result)
            np.matmul(x[block], self._average, out=mean[:, 0])
            np.subtract(x[block], mean, out=result)
            np.square(result, out=self._work[:count])
            np.matmul(self._work[:count], self._average, out=scale[:, 0])
            np.add(scale, self.epsilon, out=scale)
            np.sqrt(scale, out=scale)
            np.divide(1, scale, out=scale)
            np.multiply(result, scale, out=result)
            np.multiply(result, self._gamma[:count], out=result)
            np.add(result, self._beta[:count], out=result)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write the gradients, with c = x - m and s = 1 / sqrt(v + epsilon) of each position.

        Beta's is sum g and gamma's sum s g c, over the positions; that of x is
        s * (g gamma - mean(g gamma) - c s^2 mean(g c gamma)), with means over the features.
        """
        x, gradients = inputs[0].reshape(self._shape), gradient.reshape(self._shape)
        for_x, for_gamma, for_beta = wanted
        target = None if for_x is None else for_x.reshape(self._shape)
        for array in (for_gamma, for_beta):
            if array is not None:
                array.fill(0)
        np.copyto(self._gamma, inputs[1])
        weights = self._feature
        for block in self._blocks:
            part, scale = gradients[block], self._scale[block]
            centred, product = self._work[: len(part)], self._beta[: len(part)]
            np.subtract(x[block], self._mean[block], out=centred)
            np.multiply(part, centred, out=product)
            if for_beta is not None:
                np.matmul(self._ones[: len(part)], part, out=weights)
                np.add(for_beta, weights, out=for_beta)
            if for_gamma is not None:
                np.matmul(scale[:, 0], product, out=weights)
                np.add(for_gamma, weights, out=for_gamma)
            if target is not None:
                np.multiply(inputs[1], self._average, out=weights)
                self._descend(part, centred, product, scale, target[block])

    def _descend(self, gradient: Array, centred: Array, product: Array, scale: Array, target: Array) -> None:
        """Write the gradient of a block of x, given c, g c and s; `target` may be `gradient`."""
        count = len(target)
        slope = self._slope[:count]
        np.matmul(product, self._feature, out=slope[:, 0])
        np.multiply(slope, scale, out=slope)
        np.multiply(slope, scale, out=slope)
        np.multiply(centred, slope, out=centred)
        np.matmul(gradient, self._feature, out=slope[:, 0])
        np.multiply(gradient, self._gamma[:count], out=target)
        np.subtract(target, centred, out=target)
        np.subtract(target, slope, out=target)
        np.multiply(target, scale, out=target)

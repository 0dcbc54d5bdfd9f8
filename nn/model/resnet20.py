"""The residual network of 20 layers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn import arguments
from nn.activation import ReLU, Softmax
from nn.initializer import HeUniform
from nn.layer import Add, BatchNorm, Conv2D, Dense, GlobalAveragePool
from nn.model.model import Model
from nn.value import Value

BLOCKS = 3
"""Residual blocks of each stage: 6 * 3 + 2 layers with weights."""


class ResNet20(Model):
    """Residual learning for CIFAR (He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", 2016, section 4.2).

    A convolution of 3x3; three stages of three blocks with 16, 32 and 64 maps, the second and third stage beginning with
    stride 2; the mean of each map; scores. A block is ReLU(x + BN(conv(ReLU(BN(conv(x)))))), its convolutions are 3x3 without
    bias. `shortcut` says how x gets the shape of the next stage: 'A', the paper's choice for CIFAR, takes every second pixel
    and fills the new maps with zeros, without parameters; 'B' is a 1x1 convolution with batch normalisation.

    Shapes: x (batch, height, width, channels), by default (batch, 32, 32, 3), output (batch, classes), probabilities. With
    three channels and 10 classes it has 269,722 trained parameters with 'A' and 272,474 with 'B', besides 1,376 and 1,568
    moving statistics.

    >>> nn.model.ResNet20(shortcut="B").call(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 10)
    """

    def __init__(
        self,
        classes: int = 10,
        shortcut: str = "A",
        input_shape: Sequence[int | None] | None = (-1, 32, 32, 3),
        *,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        super().__init__(input_shape, seed=seed, dtype=dtype)
        self.classes = arguments.integer(self, "classes", classes, minimum=1)
        if shortcut not in ("A", "B"):
            raise ValueError(f"ResNet20 'shortcut' must be 'A' or 'B', got {shortcut!r}")
        self.shortcut = shortcut

    def call(self, x: Value) -> Value:
        """Return the probabilities of the classes."""
        x = ReLU()(_convolve(x, 16))
        for filters in (16, 32, 64):
            for place in range(BLOCKS):
                x = self._block(x, filters, 2 if filters > 16 and place == 0 else 1)
        x = GlobalAveragePool()(x)
        return Dense(self.classes, activation=Softmax())(x)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments that shape the model."""
        return {"classes": self.classes, "shortcut": self.shortcut}

    def _block(self, x: Value, filters: int, stride: int) -> Value:
        short = x
        if stride > 1:
            short = _thin_out(x, filters, stride) if self.shortcut == "A" else _convolve(x, filters, stride, size=1)
        branch = ReLU()(_convolve(x, filters, stride))
        return ReLU()(Add()([short, _convolve(branch, filters)]))


def _convolve(x: Value, filters: int, stride: int = 1, size: int = 3) -> Value:
    """Return BN(conv(x)), with the constants of the paper's implementation."""
    convolution = Conv2D(filters, size, stride, padding=size // 2, use_bias=False, kernel_initializer=HeUniform())
    return BatchNorm(momentum=0.9, epsilon=1e-5)(convolution(x))


def _thin_out(x: Value, filters: int, stride: int) -> Value:
    """Return every `stride`-th pixel, with maps of zeros behind those that there are."""
    pixels = x[:, ::stride, ::stride]
    return pixels @ np.eye(x.shape[-1], filters)

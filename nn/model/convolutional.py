"""Convolutional networks that everybody knows: LeNet-5, AlexNet, ResNet-20."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from nn import arguments
from nn.activation import ActivationName
from nn.activation.activation import Activation
from nn.activation.rectifiers import ReLU
from nn.activation.sigmoids import Softmax, Tanh
from nn.arrays import DType
from nn.initializer import HeUniform
from nn.layer.convolution import Conv2D
from nn.layer.core import Dense, Flatten
from nn.layer.layer import chosen
from nn.layer.merging import Add
from nn.layer.normalization import BatchNorm
from nn.layer.pooling import AveragePool, GlobalAveragePool, MaxPool
from nn.layer.regularization import Dropout
from nn.model.model import Model
from nn.value.value import Value

SIDE = 32
"""Height and width of the images that LeNet-5 was made for."""


class LeNet5(Model, configured=True):
    """Two convolutions with pooling, three fully connected layers (LeCun, Bottou, Bengio and Haffner, "Gradient-Based Learning
    Applied to Document Recognition", 1998): 6 maps of 5x5, pool, 16 maps of 5x5, pool, 120, 84, classes.

    `activation` is Tanh by default and pooling takes the average, as in the paper; `max_pool` and ReLU make it a network of
    today. As everybody's LeNet-5 it differs from the paper's in three things: pooling has no weights of its own, every map of
    the second convolution sees all six of the first, and the outputs are probabilities.

    Shapes: x (batch, height, width, channels), by default (batch, 28, 28, 1); images smaller than 32x32 are framed with zeros
    up to that, as the paper does with MNIST. Output (batch, classes). With one channel and 10 classes it has 61,706
    parameters.

    Args:
        classes: number of outputs.
        activation: of all layers but the last, an object or its word.
        max_pool: whether pooling takes the greatest number of a window in place of the average.
        input_shape: shape of x, with -1 or None for the batch; None: that of the first samples.
        seed: seed of the first weights.
        dtype: "float32" or "float64".

    Raises ValueError for larger images.

    >>> model = nn.model.LeNet5(activation=nn.activation.ReLU(), max_pool=True)
    >>> model.call(nn.Placeholder([-1, 28, 28, 1])).shape
    (-1, 10)
    """

    def __init__(
        self,
        classes: int = 10,
        activation: Activation | ActivationName | None = None,
        max_pool: bool = False,
        input_shape: Sequence[int | None] | None = (-1, 28, 28, 1),
        *,
        seed: int = 0,
        dtype: DType = "float32",
    ) -> None:
        super().__init__(input_shape, seed=seed, dtype=dtype)
        self.classes = arguments.integer(self, "classes", classes, minimum=1)
        self.activation: Activation = chosen(self, "activation", activation, Tanh())
        self.max_pool = bool(arguments.instance(self, "max_pool", max_pool, bool))

    def call(self, x: Value) -> Value:
        pool = MaxPool if self.max_pool else AveragePool
        x = Conv2D(6, 5, padding=_frame(x), activation=self.activation)(x)
        x = pool(2)(x)
        x = Conv2D(16, 5, activation=self.activation)(x)
        x = pool(2)(x)
        x = Flatten()(x)
        x = Dense(120, activation=self.activation)(x)
        x = Dense(84, activation=self.activation)(x)
        return Dense(self.classes, activation=Softmax())(x)


def _frame(x: Value) -> int:
    if len(x.shape) != 4 or x.shape[1] != x.shape[2] or x.shape[1] > SIDE or x.shape[1] % 2:
        raise ValueError(
            f"LeNet5 takes square images (batch, side, side, channels) with an even side of at most {SIDE}, got {x.shape}"
        )
    # As many zeros on each side: an even side leaves no rest.
    return (SIDE - x.shape[1]) // 2


class AlexNet(Model, configured=True):
    """Five convolutions with rectifiers and three poolings (Krizhevsky, Sutskever and Hinton, "ImageNet Classification with
    Deep Convolutional Neural Networks", 2012), in the version for 32x32 that is compared on CIFAR.

    64 maps of 11x11 with stride 4, pool, 192 of 5x5, pool, 384, 256 and 256 of 3x3, pool, then one layer of scores on the 256
    features that are left (W. Yang's CIFAR models; the paper's two layers of 4,096 units make sense for ImageNet only).
    Dropout in front of the scores, as in the paper, has the rate `dropout`.

    Shapes: x (batch, height, width, channels), by default (batch, 32, 32, 3), output (batch, classes). With three channels and
    10 classes it has 2,472,266 parameters.

    Args:
        classes: number of outputs.
        dropout: share of the features that training sets to 0 in front of the scores.
        input_shape: shape of x, with -1 or None for the batch; None: that of the first samples.
        seed: seed of the first weights and of dropout.
        dtype: "float32" or "float64".

    >>> nn.model.AlexNet(classes=100).call(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 100)
    """

    def __init__(
        self,
        classes: int = 10,
        dropout: float = 0.5,
        input_shape: Sequence[int | None] | None = (-1, 32, 32, 3),
        *,
        seed: int = 0,
        dtype: DType = "float32",
    ) -> None:
        super().__init__(input_shape, seed=seed, dtype=dtype)
        self.classes = arguments.integer(self, "classes", classes, minimum=1)
        self.dropout = arguments.number(self, "dropout", dropout, 0, 1)

    def call(self, x: Value) -> Value:
        x = MaxPool(2)(_convolve(x, 64, 11, stride=4))
        x = MaxPool(2)(_convolve(x, 192, 5))
        x = _convolve(x, 384, 3)
        x = _convolve(x, 256, 3)
        x = MaxPool(2)(_convolve(x, 256, 3))
        x = Flatten()(x)
        # No layer at all with a rate of 0, so that a model without dropout has one name less.
        if self.dropout:
            x = Dropout(self.dropout)(x)
        return Dense(self.classes, activation=Softmax())(x)


def _convolve(x: Value, filters: int, size: int, stride: int = 1) -> Value:
    # As many cells as keep the size, with a stride of 1.
    layer = Conv2D(filters, size, stride, padding=size // 2, activation=ReLU(), kernel_initializer=HeUniform())
    return layer(x)


BLOCKS = 3
"""Residual blocks of each stage: 6 * 3 + 2 layers with weights."""


class ResNet20(Model, configured=True):
    """Residual learning for CIFAR (He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", 2016, section 4.2).

    A convolution of 3x3; three stages of three blocks with 16, 32 and 64 maps, the second and third stage beginning with
    stride 2; the mean of each map; scores. A block is ReLU(x + BN(conv(ReLU(BN(conv(x)))))), its convolutions are 3x3 without
    bias. `shortcut` says how x gets the shape of the next stage: 'A', the paper's choice for CIFAR, takes every second pixel
    and fills the new maps with zeros, without parameters; 'B' is a 1x1 convolution with batch normalisation.

    Shapes: x (batch, height, width, channels), by default (batch, 32, 32, 3), output (batch, classes), probabilities. With
    three channels and 10 classes it has 269,722 trained parameters with 'A' and 272,474 with 'B', besides 1,376 and 1,568
    moving statistics.

    Args:
        classes: number of outputs.
        shortcut: 'A' or 'B', as above.
        input_shape: shape of x, with -1 or None for the batch; None: that of the first samples.
        seed: seed of the first weights.
        dtype: "float32" or "float64".

    >>> nn.model.ResNet20(shortcut="B").call(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 10)
    """

    def __init__(
        self,
        classes: int = 10,
        shortcut: Literal["A", "B"] = "A",
        input_shape: Sequence[int | None] | None = (-1, 32, 32, 3),
        *,
        seed: int = 0,
        dtype: DType = "float32",
    ) -> None:
        super().__init__(input_shape, seed=seed, dtype=dtype)
        self.classes = arguments.integer(self, "classes", classes, minimum=1)
        self.shortcut: Literal["A", "B"] = arguments.one_of(self, "shortcut", shortcut, ("A", "B"))

    def call(self, x: Value) -> Value:
        x = ReLU()(_convolve_and_normalize(x, 16))
        for filters in (16, 32, 64):
            for place in range(BLOCKS):
                # The first block of a stage halves the images.
                x = self._block(x, filters, 2 if filters > 16 and place == 0 else 1)
        x = GlobalAveragePool()(x)
        return Dense(self.classes, activation=Softmax())(x)

    def _block(self, x: Value, filters: int, stride: int) -> Value:
        short = x
        if stride > 1:
            short = (
                _thin_out(x, filters, stride) if self.shortcut == "A" else _convolve_and_normalize(x, filters, stride, size=1)
            )
        branch = ReLU()(_convolve_and_normalize(x, filters, stride))
        return ReLU()(Add()([short, _convolve_and_normalize(branch, filters)]))


def _convolve_and_normalize(x: Value, filters: int, stride: int = 1, size: int = 3) -> Value:
    """Return BN(conv(x)), with the constants of the paper's implementation."""
    # Without a bias, which the normalisation would take out again.
    convolution = Conv2D(filters, size, stride, padding=size // 2, use_bias=False, kernel_initializer=HeUniform())
    return BatchNorm(momentum=0.9, epsilon=1e-5)(convolution(x))


def _thin_out(x: Value, filters: int, stride: int) -> Value:
    """Return every `stride`-th pixel, with maps of zeros behind those that there are."""
    pixels = x[:, ::stride, ::stride]
    # A product with ones on the diagonal copies the maps and adds maps of zeros.
    return pixels @ np.eye(x.shape[-1], filters)

"""Layers over images and sequences: convolution, and pooling, one number for each window or for each channel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from nn import arguments
from nn.activation import ActivationName
from nn.activation.activation import Activation, Linear
from nn.activation.rectifiers import ReLU
from nn.arrays import BATCH, Shape
from nn.initializer import GlorotUniform, Initializer, InitializerName, Zeros
from nn.layer.layer import Layer, chosen, direct
from nn.operation.convolution import window
from nn.operation.convolution.operation import Convolution, RectifiedConvolution
from nn.operation.convolution.window import Padding
from nn.operation.pooling import Pool, PoolAverage, PoolMax
from nn.value.value import Value


class ConvolutionLayer(Layer, ABC, configured=True):
    """activation(convolution of x with a kernel + bias). A subclass names the axes along which the kernel moves."""

    @arguments.also(strides="stride", filters="kernel")
    def __init__(
        self,
        kernel: int,
        kernel_size: int | Sequence[int] = 3,
        stride: int | Sequence[int] = 1,
        padding: Padding = "valid",
        groups: int = 1,
        activation: Activation | ActivationName | None = None,
        use_bias: bool = True,
        kernel_initializer: Initializer | InitializerName | None = None,
        bias_initializer: Initializer | InitializerName | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.filters = arguments.integer(self, "kernel", kernel, minimum=1)
        self.kernel_size = window.lengths(self, "kernel_size", kernel_size, len(self.axes))
        self.stride = window.lengths(self, "stride", stride, len(self.axes))
        self.padding = window.padding(self, padding)
        self.groups = arguments.integer(self, "groups", groups, minimum=1)
        if self.filters % self.groups:
            raise ValueError(f"{type(self).__name__} 'groups' must divide the {self.filters} filters, got {self.groups}")
        self.activation = chosen(self, "activation", activation, Linear())
        self.use_bias = bool(arguments.instance(self, "use_bias", use_bias, bool))
        self.kernel_initializer = chosen(self, "kernel_initializer", kernel_initializer, GlorotUniform())
        self.bias_initializer = chosen(self, "bias_initializer", bias_initializer, Zeros())

    @property
    @abstractmethod
    def axes(self) -> tuple[str, ...]:
        """The names of the axes along which the kernel moves."""

    def build(self, input_shape: Shape) -> None:
        self._check(input_shape)
        channels = input_shape[-1]
        if channels % self.groups:
            raise ValueError(f"'groups' must divide the {channels} channels of the inputs, got {self.groups}")
        shape = (*self.kernel_size, channels // self.groups, self.filters)
        self.kernel = self.add_variable("kernel", shape, self.kernel_initializer)
        if self.use_bias:
            self.bias = self.add_variable("bias", (self.filters,), self.bias_initializer)

    def call(self, x: Value) -> Value:
        """Return activation(convolution + bias); a rectifier is part of the convolution."""
        self._check(x.shape)
        channels = self.kernel.shape[-2] * self.groups
        if x.shape[-1] != channels:
            last = len(x.shape) - 1
            raise ValueError(f"axis {last} of the inputs must have {channels} channels, got {x.shape[-1]} in shape {x.shape}")
        rectified = type(self.activation) is ReLU
        kind = RectifiedConvolution if rectified else Convolution
        operation = kind(self.stride, self.padding, self.groups)
        y = direct(operation, x, self.kernel, *([self.bias] if self.use_bias else []))
        return y if rectified else self.activation(y)

    def argument(self, name: str) -> Any:
        return self.filters if name == "kernel" else super().argument(name)

    def _check(self, shape: Shape) -> None:
        if len(shape) != len(self.axes) + 2 or BATCH in shape[1:]:
            raise ValueError(f"expected inputs of shape (batch, {', '.join(self.axes)}, channels), got {shape}")


class Conv2D(ConvolutionLayer):
    """activation(convolution of images with `kernel` filters + bias).

    Shapes: x (batch, height, width, channels), kernel (kh, kw, channels / groups, filters), bias (filters,), output (batch,
    height', width', filters). `kernel` is the number of filters. `padding`: 'valid' adds nothing; 'same' adds zeros so that
    height' = ceil(height / stride), where they are odd in number one more below and to the right, as TensorFlow does; a number
    adds as many zeros on all four sides, as torch does. `groups` cuts channels and filters into groups that see only each
    other; as many groups as channels make a depthwise convolution.

    >>> layer = nn.layer.Conv2D(64, kernel_size=[3, 3], padding="same", activation=nn.activation.ReLU())
    >>> layer(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 32, 32, 64)
    """

    @property
    def axes(self) -> tuple[str, ...]:
        return ("height", "width")


class Conv1D(ConvolutionLayer):
    """activation(convolution of sequences with `kernel` filters + bias).

    Shapes: x (batch, time, channels), kernel (k, channels / groups, filters), bias (filters,), output (batch, time', filters).
    `kernel` is the number of filters; `padding` and `groups` have the same meaning as for `Conv2D`.

    >>> nn.layer.Conv1D(32, kernel_size=5, padding="same")(nn.Placeholder([-1, 100, 8])).shape
    (-1, 100, 32)
    """

    @property
    def axes(self) -> tuple[str, ...]:
        return ("time",)


class PoolingLayer(Layer, ABC, configured=True):
    """One number for each window and channel, of images (batch, height, width, channels) or sequences (batch, time, channels).

    `size` and `stride` are a number for all axes or one for each. `stride` is that of the windows, which lie side by side if
    it is None. `padding` is 'valid', 'same' (ceil(length / stride) windows, as TensorFlow) or a number of cells on every side;
    the cells that it adds never count.
    """

    @arguments.also(strides="stride", pool_size="size")
    def __init__(
        self,
        size: int | Sequence[int] = 2,
        stride: int | Sequence[int] | None = None,
        padding: Padding = "valid",
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.size = _lengths(self, "size", size)
        self.stride = None if stride is None else _lengths(self, "stride", stride)
        self.padding = window.padding(self, padding)

    def call(self, x: Value) -> Value:
        axes = window.axes_of(self.describe(), x.shape)
        size = window.lengths(self, "size", self.size, axes)
        stride = size if self.stride is None else window.lengths(self, "stride", self.stride, axes)
        return direct(self.pool(size, stride), x)

    @abstractmethod
    def pool(self, size: Sequence[int], strides: Sequence[int]) -> Pool:
        """Return the operation for windows of this size along each axis, `strides` apart."""


def _lengths(owner: object, name: str, value: int | Sequence[int]) -> int | list[int]:
    """Return a length for all axes, or a list with one for each of two axes."""
    found = window.lengths(owner, name, value, 2)
    return found[0] if isinstance(value, int) else list(found)


class MaxPool(PoolingLayer):
    """Pooling that keeps the greatest number of each window. The gradient goes to the first maximum of the window, row by row.

    Shapes: (batch, height, width, channels) to (batch, height', width', channels), or (batch, time, channels) to (batch, time',
    channels). `MaxPool(size, stride=size, padding='valid')`; see `PoolingLayer` for the arguments.

    >>> nn.layer.MaxPool(2)(nn.Placeholder([-1, 28, 28, 16])).shape
    (-1, 14, 14, 16)
    """

    def pool(self, size: Sequence[int], strides: Sequence[int]) -> Pool:
        return PoolMax(size, strides, self.padding)


class AveragePool(PoolingLayer):
    """Mean of those cells of each window that lie in the input: padding, 'same' or a number of cells, does not count.

    Shapes: (batch, height, width, channels) to (batch, height', width', channels), or (batch, time, channels) to (batch, time',
    channels). `AveragePool(size, stride=size, padding='valid')`; see `PoolingLayer` for the arguments.

    >>> nn.layer.AveragePool(3, stride=2, padding="same")(nn.Placeholder([-1, 100, 8])).shape
    (-1, 50, 8)
    """

    def pool(self, size: Sequence[int], strides: Sequence[int]) -> Pool:
        return PoolAverage(size, strides, self.padding)


class GlobalAveragePool(Layer, configured=True):
    """Takes the mean of each channel over all places (Lin et al., Network in network, ICLR 2014).

    Shapes: (batch, height, width, channels) or (batch, time, channels) to (batch, channels).

    >>> nn.layer.GlobalAveragePool()(nn.Placeholder([-1, 7, 7, 64])).shape
    (-1, 64)
    """

    def call(self, x: Value) -> Value:
        if len(x.shape) not in (3, 4):
            expected = "(batch, height, width, channels) or (batch, time, channels)"
            raise ValueError(f"expected inputs of shape {expected}, got {x.shape}")
        return x.mean(axis=tuple(range(1, len(x.shape) - 1)))

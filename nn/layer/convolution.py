"""Convolution of images and sequences."""

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
from nn.layer.layer import Layer, bounds, chosen, direct, penalty
from nn.operation.convolution import window
from nn.operation.convolution.operation import Convolution, RectifiedConvolution
from nn.operation.convolution.window import Padding
from nn.value.value import Constraint, ConstraintName, Regularizer, RegularizerName, Value


class Windowed(Layer, ABC):
    """Layer with a kernel that moves along axes, which a subclass names."""

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Padding
    dilation: tuple[int, ...]

    @property
    @abstractmethod
    def axes(self) -> tuple[str, ...]:
        """The names of the axes along which the kernel moves."""

    def _settle(
        self, kernel_size: int | Sequence[int], stride: int | Sequence[int], padding: Padding, dilation: int | Sequence[int]
    ) -> None:
        axes = len(self.axes)
        self.kernel_size = window.lengths(self, "kernel_size", kernel_size, axes)
        self.stride = window.lengths(self, "stride", stride, axes)
        # Only time has an order, without which 'causal' means nothing.
        self.padding = window.padding(self, padding, causal=axes == 1)
        self.dilation = window.lengths(self, "dilation", dilation, axes)

    def _check(self, shape: Shape) -> None:
        if len(shape) != len(self.axes) + 2 or BATCH in shape[1:]:
            raise ValueError(f"expected inputs of shape (batch, {', '.join(self.axes)}, channels), got {shape}")

    def _check_value(self, x: Value, channels: int) -> None:
        self._check(x.shape)
        if x.shape[-1] != channels:
            last = len(x.shape) - 1
            raise ValueError(f"axis {last} of the inputs must have {channels} channels, got {x.shape[-1]} in shape {x.shape}")


class ConvolutionLayer(Windowed, configured=True):
    """activation(convolution of x with a kernel + bias). A subclass names the axes along which the kernel moves."""

    @arguments.also(strides="stride", filters="kernel", dilation_rate="dilation")
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
        *,
        dilation: int | Sequence[int] = 1,
        kernel_regularizer: Regularizer | RegularizerName | None = None,
        bias_regularizer: Regularizer | RegularizerName | None = None,
        kernel_constraint: Constraint | ConstraintName | None = None,
        bias_constraint: Constraint | ConstraintName | None = None,
    ) -> None:
        """Check the arguments and keep them.

        Args:
            kernel: number of filters, the channels of the output.
            kernel_size: lengths of the kernel along the axes, or one length for all.
            stride: cells from one window to the next along the axes, or one number for all.
            padding: 'valid', 'same', along time also 'causal', or the number of zeros on each side; see the class.
            groups: number of groups of channels and filters that see only each other; a divisor of both.
            activation: function of the output, an object or its word; default: none, that is `Linear`.
            use_bias: whether a bias is added.
            kernel_initializer: of the kernel, an object or its word; default: `GlorotUniform`.
            bias_initializer: of the bias; default: `Zeros`.
            name: name of the layer; default: its class and a number.
            dilation: cells of x from one cell of a kernel to the next along the axes, or one number for all.
            kernel_regularizer: penalty of the kernel, an object or its word, part of the loss; default: none.
            bias_regularizer: that of the bias.
            kernel_constraint: set to which each update of the kernel is brought back, an object or its word; default: none.
            bias_constraint: that of the bias.
        """
        super().__init__(name)
        self.filters = arguments.integer(self, "kernel", kernel, minimum=1)
        self._settle(kernel_size, stride, padding, dilation)
        self.groups = arguments.integer(self, "groups", groups, minimum=1)
        if self.filters % self.groups:
            raise ValueError(f"{type(self).__name__} 'groups' must divide the {self.filters} filters, got {self.groups}")
        self.activation = chosen(self, "activation", activation, Linear())
        self.use_bias = bool(arguments.instance(self, "use_bias", use_bias, bool))
        self.kernel_initializer = chosen(self, "kernel_initializer", kernel_initializer, GlorotUniform())
        self.bias_initializer = chosen(self, "bias_initializer", bias_initializer, Zeros())
        self.kernel_regularizer = penalty(self, "kernel_regularizer", kernel_regularizer)
        self.bias_regularizer = penalty(self, "bias_regularizer", bias_regularizer)
        self.kernel_constraint = bounds(self, "kernel_constraint", kernel_constraint)
        self.bias_constraint = bounds(self, "bias_constraint", bias_constraint)

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
        # Again in each call: a layer may be called on a value of another shape than the first.
        self._check_value(x, self.kernel.shape[-2] * self.groups)
        # Not `isinstance`: a subclass may compute something else.
        rectified = type(self.activation) is ReLU
        kind = RectifiedConvolution if rectified else Convolution
        operation = kind(self.stride, self.padding, self.groups, self.dilation)
        y = direct(operation, x, self.kernel, *([self.bias] if self.use_bias else []))
        return y if rectified else self.activation(y)

    def argument(self, name: str) -> Any:
        # `kernel` counts the filters in the constructor, and is the variable from `build` on.
        return self.filters if name == "kernel" else super().argument(name)


class Conv2D(ConvolutionLayer):
    """activation(convolution of images with `kernel` filters + bias).

    Shapes: x (batch, height, width, channels), kernel (kh, kw, channels / groups, filters), bias (filters,), output (batch,
    height', width', filters). `kernel` is the number of filters. `padding`: 'valid' adds nothing; 'same' adds zeros so that
    height' = ceil(height / stride), where they are odd in number one more below and to the right, as TensorFlow does; a number
    adds as many zeros on all four sides, as torch does. `groups` cuts channels and filters into groups that see only each
    other; as many groups as channels make a depthwise convolution. With `dilation` d the cells of a kernel lie d cells of the
    image apart. Regularisers and constraints are as for `Dense`.

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
    `kernel` is the number of filters; `padding`, 'causal' apart, `groups` and `dilation` have the same meaning as for `Conv2D`.
    'causal' adds zeros in front alone, so that an output depends on no later step.

    >>> nn.layer.Conv1D(32, kernel_size=5, padding="same")(nn.Placeholder([-1, 100, 8])).shape
    (-1, 100, 32)
    """

    @property
    def axes(self) -> tuple[str, ...]:
        return ("time",)

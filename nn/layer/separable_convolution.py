"""Convolution of each channel by itself, and such a convolution with a mixing of the channels behind it."""

from __future__ import annotations

from collections.abc import Sequence

from nn import arguments
from nn.activation import ActivationName
from nn.activation.activation import Activation, Linear
from nn.arrays import Shape
from nn.initializer import GlorotUniform, Initializer, InitializerName, Zeros
from nn.layer.convolution import Windowed
from nn.layer.layer import bounds, chosen, direct, penalty
from nn.operation.convolution.operation import Convolution
from nn.operation.convolution.window import Padding
from nn.value.value import Constraint, ConstraintName, Regularizer, RegularizerName, Value


class _Depthwise(Windowed):
    """Common part of layers that convolve each channel with `depth_multiplier` kernels of its own."""

    depth_multiplier: int

    def _depthwise(self, x: Value, kernel: Value, *bias: Value) -> Value:
        """Return the convolution of x with a kernel (..., channels, depth_multiplier): each channel is a group."""
        *size, channels, several = kernel.shape
        self._check_value(x, channels)
        # As many groups as channels.
        operation = Convolution(self.stride, self.padding, channels, self.dilation)
        # The kernels of a channel are the filters of its group, side by side.
        return direct(operation, x, kernel.reshape(*size, 1, channels * several), *bias)


class DepthwiseConvolutionLayer(_Depthwise, configured=True):
    """activation(convolution of each channel with kernels of its own + bias). A subclass names the axes of the kernel."""

    @arguments.also(
        strides="stride",
        dilation_rate="dilation",
        depthwise_initializer="kernel_initializer",
        depthwise_regularizer="kernel_regularizer",
        depthwise_constraint="kernel_constraint",
    )
    def __init__(
        self,
        kernel_size: int | Sequence[int] = 3,
        stride: int | Sequence[int] = 1,
        padding: Padding = "valid",
        depth_multiplier: int = 1,
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
            kernel_size: lengths of the kernel along the axes, or one length for all.
            stride: cells from one window to the next along the axes, or one number for all.
            padding: 'valid', 'same', along time also 'causal', or the number of zeros on each side; see the class.
            depth_multiplier: kernels of each channel.
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
        self._settle(kernel_size, stride, padding, dilation)
        self.depth_multiplier = arguments.integer(self, "depth_multiplier", depth_multiplier, minimum=1)
        self.activation = chosen(self, "activation", activation, Linear())
        self.use_bias = arguments.flag(self, "use_bias", use_bias)
        self.kernel_initializer = chosen(self, "kernel_initializer", kernel_initializer, GlorotUniform())
        self.bias_initializer = chosen(self, "bias_initializer", bias_initializer, Zeros())
        self.kernel_regularizer = penalty(self, "kernel_regularizer", kernel_regularizer)
        self.bias_regularizer = penalty(self, "bias_regularizer", bias_regularizer)
        self.kernel_constraint = bounds(self, "kernel_constraint", kernel_constraint)
        self.bias_constraint = bounds(self, "bias_constraint", bias_constraint)

    def build(self, input_shape: Shape) -> None:
        self._check(input_shape)
        shape = (*self.kernel_size, input_shape[-1], self.depth_multiplier)
        self.kernel = self.add_variable("kernel", shape, self.kernel_initializer)
        if self.use_bias:
            self.bias = self.add_variable("bias", (input_shape[-1] * self.depth_multiplier,), self.bias_initializer)

    def call(self, x: Value) -> Value:
        return self.activation(self._depthwise(x, self.kernel, *([self.bias] if self.use_bias else [])))


class DepthwiseConv2D(DepthwiseConvolutionLayer):
    """activation(convolution of each channel of images with `depth_multiplier` kernels of its own + bias).

    Shapes: x (batch, height, width, channels), kernel (kh, kw, channels, depth_multiplier), bias (channels *
    depth_multiplier,), output (batch, height', width', channels * depth_multiplier). `padding`, `stride` and `dilation` have
    the same meaning as for `Conv2D`.

    >>> nn.layer.DepthwiseConv2D(3, padding="same")(nn.Placeholder([-1, 32, 32, 16])).shape
    (-1, 32, 32, 16)
    """

    @property
    def axes(self) -> tuple[str, ...]:
        return ("height", "width")


class DepthwiseConv1D(DepthwiseConvolutionLayer):
    """activation(convolution of each channel of sequences with `depth_multiplier` kernels of its own + bias).

    Shapes: x (batch, time, channels), kernel (k, channels, depth_multiplier), bias (channels * depth_multiplier,), output
    (batch, time', channels * depth_multiplier).

    >>> nn.layer.DepthwiseConv1D(5, depth_multiplier=2)(nn.Placeholder([-1, 100, 8])).shape
    (-1, 96, 16)
    """

    @property
    def axes(self) -> tuple[str, ...]:
        return ("time",)


class SeparableConvolutionLayer(_Depthwise, configured=True):
    """activation(depthwise convolution, then one of single cells over all channels, + bias); a subclass names the axes."""

    @arguments.also(strides="stride", filters="kernel", dilation_rate="dilation")
    def __init__(
        self,
        kernel: int,
        kernel_size: int | Sequence[int] = 3,
        stride: int | Sequence[int] = 1,
        padding: Padding = "valid",
        depth_multiplier: int = 1,
        activation: Activation | ActivationName | None = None,
        use_bias: bool = True,
        depthwise_initializer: Initializer | InitializerName | None = None,
        pointwise_initializer: Initializer | InitializerName | None = None,
        bias_initializer: Initializer | InitializerName | None = None,
        name: str | None = None,
        *,
        dilation: int | Sequence[int] = 1,
        depthwise_regularizer: Regularizer | RegularizerName | None = None,
        pointwise_regularizer: Regularizer | RegularizerName | None = None,
        bias_regularizer: Regularizer | RegularizerName | None = None,
        depthwise_constraint: Constraint | ConstraintName | None = None,
        pointwise_constraint: Constraint | ConstraintName | None = None,
        bias_constraint: Constraint | ConstraintName | None = None,
    ) -> None:
        """Check the arguments and keep them.

        Args:
            kernel: number of filters, the channels of the output.
            kernel_size: lengths of the kernel along the axes, or one length for all.
            stride: cells from one window to the next along the axes, or one number for all.
            padding: 'valid', 'same', along time also 'causal', or the number of zeros on each side; see the class.
            depth_multiplier: kernels of each channel.
            activation: function of the output, an object or its word; default: none, that is `Linear`.
            use_bias: whether a bias is added.
            depthwise_initializer: of the kernels of channels, an object or its word; default: `GlorotUniform`.
            pointwise_initializer: of the kernel that mixes channels, as `depthwise_initializer`.
            bias_initializer: of the bias; default: `Zeros`.
            name: name of the layer; default: its class and a number.
            dilation: cells of x from one cell of a kernel to the next along the axes, or one number for all.
            depthwise_regularizer: penalty of the kernels of channels, an object or its word, part of the loss; default: none.
            pointwise_regularizer: that of the kernel that mixes channels.
            bias_regularizer: that of the bias.
            depthwise_constraint: set to which each update of them is brought back, an object or its word; default: none.
            pointwise_constraint: that of the kernel that mixes channels.
            bias_constraint: that of the bias.
        """
        super().__init__(name)
        self.filters = arguments.integer(self, "kernel", kernel, minimum=1)
        self._settle(kernel_size, stride, padding, dilation)
        self.depth_multiplier = arguments.integer(self, "depth_multiplier", depth_multiplier, minimum=1)
        self.activation = chosen(self, "activation", activation, Linear())
        self.use_bias = arguments.flag(self, "use_bias", use_bias)
        self.depthwise_initializer = chosen(self, "depthwise_initializer", depthwise_initializer, GlorotUniform())
        self.pointwise_initializer = chosen(self, "pointwise_initializer", pointwise_initializer, GlorotUniform())
        self.bias_initializer = chosen(self, "bias_initializer", bias_initializer, Zeros())
        self.depthwise_regularizer = penalty(self, "depthwise_regularizer", depthwise_regularizer)
        self.pointwise_regularizer = penalty(self, "pointwise_regularizer", pointwise_regularizer)
        self.bias_regularizer = penalty(self, "bias_regularizer", bias_regularizer)
        self.depthwise_constraint = bounds(self, "depthwise_constraint", depthwise_constraint)
        self.pointwise_constraint = bounds(self, "pointwise_constraint", pointwise_constraint)
        self.bias_constraint = bounds(self, "bias_constraint", bias_constraint)

    def build(self, input_shape: Shape) -> None:
        self._check(input_shape)
        channels, ones = input_shape[-1], (1,) * len(self.axes)
        shape = (*self.kernel_size, channels, self.depth_multiplier)
        self.depthwise_kernel = self.add_variable("depthwise_kernel", shape, self.depthwise_initializer)
        shape = (*ones, channels * self.depth_multiplier, self.filters)
        self.pointwise_kernel = self.add_variable("pointwise_kernel", shape, self.pointwise_initializer)
        # The arguments have Keras's names, which are not those of the variables.
        self.depthwise_kernel.regularizer, self.depthwise_kernel.constraint = (
            self.depthwise_regularizer,
            self.depthwise_constraint,
        )
        self.pointwise_kernel.regularizer, self.pointwise_kernel.constraint = (
            self.pointwise_regularizer,
            self.pointwise_constraint,
        )
        if self.use_bias:
            self.bias = self.add_variable("bias", (self.filters,), self.bias_initializer)

    def call(self, x: Value) -> Value:
        channels = self._depthwise(x, self.depthwise_kernel)
        # A convolution of single cells is a product over the channels.
        y: Value = channels @ self.pointwise_kernel.reshape(*self.pointwise_kernel.shape[-2:])
        return self.activation(y + self.bias if self.use_bias else y)

    def argument(self, name: str) -> object:
        # `kernel` is the constructor's number of filters, by the name that `Conv2D` has for it.
        return self.filters if name == "kernel" else super().argument(name)


class SeparableConv2D(SeparableConvolutionLayer):
    """activation(each channel convolved by itself, then all of them mixed in each place, + bias).

    Chollet, Xception: Deep learning with depthwise separable convolutions, CVPR 2017. Shapes: x (batch, height, width,
    channels), depthwise_kernel (kh, kw, channels, depth_multiplier), pointwise_kernel (1, 1, channels * depth_multiplier,
    filters), bias (filters,), output (batch, height', width', filters). `kernel` is the number of filters; `padding`, `stride`
    and `dilation` have the same meaning as for `Conv2D`, regularisers and constraints of the kernels and the bias as for
    `Dense`.

    >>> nn.layer.SeparableConv2D(64, 3, padding="same", activation="relu")(nn.Placeholder([-1, 32, 32, 16])).shape
    (-1, 32, 32, 64)
    """

    @property
    def axes(self) -> tuple[str, ...]:
        return ("height", "width")


class SeparableConv1D(SeparableConvolutionLayer):
    """activation(each channel of sequences convolved by itself, then all of them mixed in each step, + bias).

    Shapes: x (batch, time, channels), depthwise_kernel (k, channels, depth_multiplier), pointwise_kernel (1, channels *
    depth_multiplier, filters), bias (filters,), output (batch, time', filters).

    >>> nn.layer.SeparableConv1D(16, 5, padding="causal")(nn.Placeholder([-1, 100, 8])).shape
    (-1, 100, 16)
    """

    @property
    def axes(self) -> tuple[str, ...]:
        return ("time",)

"""Transposed convolution of images and sequences, which makes them larger."""

from __future__ import annotations

from collections.abc import Sequence

from nn import arguments
from nn.activation import ActivationName
from nn.activation.activation import Activation, Linear
from nn.arrays import Shape
from nn.initializer import GlorotUniform, Initializer, InitializerName, Zeros
from nn.layer.convolution import Windowed
from nn.layer.layer import bounds, chosen, direct, penalty
from nn.operation.convolution import window
from nn.operation.convolution.transposed import TransposedConvolution
from nn.operation.convolution.window import Padding
from nn.value.value import Constraint, ConstraintName, Regularizer, RegularizerName, Value


class TransposedConvolutionLayer(Windowed, configured=True):
    """activation(transposed convolution of x with a kernel + bias). A subclass names the axes along which the kernel moves."""

    @arguments.also(strides="stride", filters="kernel")
    def __init__(
        self,
        kernel: int,
        kernel_size: int | Sequence[int] = 3,
        stride: int | Sequence[int] = 1,
        padding: Padding = "valid",
        output_padding: int | Sequence[int] | None = None,
        activation: Activation | ActivationName | None = None,
        use_bias: bool = True,
        kernel_initializer: Initializer | InitializerName | None = None,
        bias_initializer: Initializer | InitializerName | None = None,
        name: str | None = None,
        *,
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
            padding: 'valid', 'same', or the number of cells cut off on each side; see the class.
            output_padding: cells added behind, for each axis or for all, below the stride; with a number as `padding` alone.
            activation: function of the output, an object or its word; default: none, that is `Linear`.
            use_bias: whether a bias is added.
            kernel_initializer: of the kernel, an object or its word; default: `GlorotUniform`.
            bias_initializer: of the bias; default: `Zeros`.
            name: name of the layer; default: its class and a number.
            kernel_regularizer: penalty of the kernel, an object or its word, part of the loss; default: none.
            bias_regularizer: that of the bias.
            kernel_constraint: set to which each update of the kernel is brought back, an object or its word; default: none.
            bias_constraint: that of the bias.
        """
        super().__init__(name)
        axes = len(self.axes)
        self.filters = arguments.integer(self, "kernel", kernel, minimum=1)
        self.kernel_size = window.lengths(self, "kernel_size", kernel_size, axes)
        self.stride = window.lengths(self, "stride", stride, axes)
        self.padding = window.padding(self, padding)
        self.output_padding = None if output_padding is None else self._extra(output_padding)
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
        self.kernel = self.add_variable("kernel", (*self.kernel_size, self.filters, input_shape[-1]), self.kernel_initializer)
        if self.use_bias:
            self.bias = self.add_variable("bias", (self.filters,), self.bias_initializer)

    def call(self, x: Value) -> Value:
        self._check(x.shape)
        # The bias is added behind: many cells of the output come of several cells of x, and have it once.
        y: Value = direct(TransposedConvolution(self.stride, self.padding, self.output_padding), x, self.kernel)
        return self.activation(y + self.bias if self.use_bias else y)

    def argument(self, name: str) -> object:
        # `kernel` counts the filters in the constructor, and is the variable from `build` on.
        return self.filters if name == "kernel" else super().argument(name)

    def _extra(self, given: int | Sequence[int]) -> tuple[int, ...]:
        found = tuple(given) if isinstance(given, (list, tuple)) else (given,) * len(self.axes)
        if not isinstance(self.padding, int):
            raise ValueError(
                f"{type(self).__name__} 'output_padding' stands with a number of cells as 'padding' alone, got {given!r} with "
                f"{self.padding!r}"
            )
        if len(found) != len(self.axes):
            raise ValueError(f"{type(self).__name__} 'output_padding' must be {len(self.axes)} integers, got {given!r}")
        cells = tuple(arguments.integer(self, "output_padding", cell, minimum=0) for cell in found)
        # A whole stride more would be the output of one more cell of x.
        if any(cell >= stride for cell, stride in zip(cells, self.stride, strict=True)):
            raise ValueError(
                f"{type(self).__name__} 'output_padding' must be less than the stride {self.stride}, got {given!r}"
            )
        return cells


class Conv2DTranspose(TransposedConvolutionLayer):
    """activation(transposed convolution of images with `kernel` filters + bias), as in decoders and generators.

    Each cell of x adds the kernel, times its channels, to a window of the output; windows of neighbours lie `stride` cells
    apart. Shapes: x (batch, height, width, channels), kernel (kh, kw, filters, channels), bias (filters,), output (batch,
    height', width', filters). `kernel` is the number of filters. `padding`: 'same' makes height' = stride * height, 'valid'
    keeps all cells that windows reach, max(kernel, stride) + stride * (height - 1), as Keras does; a number cuts as many off on
    all four sides, and `output_padding`, one number or one for each axis, adds cells below and to the right, as torch does.
    Regularisers and constraints are as for `Dense`.

    >>> nn.layer.Conv2DTranspose(32, 3, stride=2, padding="same")(nn.Placeholder([-1, 7, 7, 64])).shape
    (-1, 14, 14, 32)
    """

    @property
    def axes(self) -> tuple[str, ...]:
        return ("height", "width")


class Conv1DTranspose(TransposedConvolutionLayer):
    """activation(transposed convolution of sequences with `kernel` filters + bias).

    Shapes: x (batch, time, channels), kernel (k, filters, channels), bias (filters,), output (batch, time', filters). `kernel`
    is the number of filters; `padding` and `output_padding` have the same meaning as for `Conv2DTranspose`.

    >>> nn.layer.Conv1DTranspose(8, 4, stride=2, padding="same")(nn.Placeholder([-1, 50, 16])).shape
    (-1, 100, 8)
    """

    @property
    def axes(self) -> tuple[str, ...]:
        return ("time",)

"""Convolution over sequences."""

from collections.abc import Sequence
from typing import ClassVar

from nn.activation import Activation
from nn.initializer import Initializer
from nn.layer.convolution import ConvolutionLayer
from nn.operation.convolution.window import Padding


class Conv1D(ConvolutionLayer):
    """activation(convolution of sequences with `kernel` filters + bias).

    Shapes: x (batch, time, channels), kernel (k, channels / groups, filters), bias (filters,), output (batch, time', filters).
    `kernel` is the number of filters; `padding` and `groups` mean what they mean for `Conv2D`.

    >>> Conv1D(32, kernel_size=5, padding="same")     # doctest: +SKIP
    """

    axes: ClassVar[int] = 1
    expected: ClassVar[str] = "(batch, time, channels)"

    def __init__(
        self,
        kernel: int,
        kernel_size: int | Sequence[int] = 3,
        stride: int | Sequence[int] = 1,
        padding: Padding = "valid",
        groups: int = 1,
        activation: Activation | None = None,
        use_bias: bool = True,
        kernel_initializer: Initializer | None = None,
        bias_initializer: Initializer | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel, kernel_size, stride, padding, groups, activation, use_bias, kernel_initializer, bias_initializer, name
        )

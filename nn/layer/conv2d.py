"""Convolution over images."""

from collections.abc import Sequence
from typing import ClassVar

from nn.activation import Activation
from nn.initializer import Initializer
from nn.layer.convolution import ConvolutionLayer
from nn.operation.convolution.window import Padding


class Conv2D(ConvolutionLayer):
    """activation(convolution of images with `kernel` filters + bias).

    Shapes: x (batch, height, width, channels), kernel (kh, kw, channels / groups, filters), bias (filters,), output (batch,
    height', width', filters). `kernel` is the number of filters. `padding`: 'valid' adds nothing; 'same' adds zeros so that
    height' = ceil(height / stride), where they are odd in number one more below and to the right, as TensorFlow does; a number
    adds as many zeros on all four sides, as torch does. `groups` cuts channels and filters into groups that see only each
    other; as many groups as channels make a depthwise convolution.

    >>> Conv2D(64, kernel_size=[3, 3], padding="same", activation=nn.activation.ReLU())     # doctest: +SKIP
    """

    axes: ClassVar[int] = 2
    expected: ClassVar[str] = "(batch, height, width, channels)"

    def __init__(
        self,
        kernel: int,
        kernel_size: int | Sequence[int] = (3, 3),
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

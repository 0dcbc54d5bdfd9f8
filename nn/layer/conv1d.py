"""Convolution over sequences."""

from nn.layer.convolution import ConvolutionLayer


class Conv1D(ConvolutionLayer):
    """activation(convolution of sequences with `kernel` filters + bias).

    Shapes: x (batch, time, channels), kernel (k, channels / groups, filters), bias (filters,), output (batch, time', filters).
    `kernel` is the number of filters; `padding` and `groups` mean what they mean for `Conv2D`.

    >>> nn.layer.Conv1D(32, kernel_size=5, padding="same")(nn.Placeholder([-1, 100, 8])).shape
    (-1, 100, 32)
    """

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes along which the kernel moves."""
        return ("time",)

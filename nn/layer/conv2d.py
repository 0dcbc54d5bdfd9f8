"""Convolution over images."""

from nn.layer.convolution import ConvolutionLayer


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
        """The names of the axes along which the kernel moves."""
        return ("height", "width")

"""Convolution and pooling of images and sequences."""

from collections.abc import Sequence

from nn import arguments
from nn.operation.convolution import Convolution, spatial
from nn.operation.convolution.window import Padding
from nn.operation.pool import Pool
from nn.operation.pool_average import PoolAverage
from nn.operation.pool_max import PoolMax
from nn.value import Node, Operand, as_value


def convolution(
    x: Operand,
    kernel: Operand,
    bias: Operand | None = None,
    stride: int | Sequence[int] = 1,
    padding: Padding = "valid",
    groups: int = 1,
) -> Node:
    """Return the convolution of images or sequences with a kernel, plus a bias for each filter, as `Conv2D` and `Conv1D` do.

    Shapes: x (batch, height, width, channels), kernel (kh, kw, channels / groups, filters), bias (filters,), output (batch,
    height', width', filters); or (batch, time, channels), (k, channels / groups, filters), (filters,), (batch, time', filters).
    `padding` is 'valid', 'same' or a number of zeros on every side, `stride` a number or one for each axis. Raises TypeError
    or ValueError for arguments and shapes that do not fit.

    >>> image, kernel = nn.Placeholder([-1, 28, 28, 1]), nn.Variable([3, 3, 1, 8])
    >>> nn.function.convolution(image, kernel, padding="same", stride=2).shape
    (-1, 14, 14, 8)
    """
    value = as_value(x)
    axes = spatial.axes_of("convolution", value.shape)
    strides = spatial.lengths("convolution", "stride", stride, axes)
    groups = arguments.integer("convolution", "groups", groups, minimum=1)
    operation = Convolution(strides, spatial.padding("convolution", padding), groups)
    return value.apply(operation, *(as_value(given) for given in (kernel, bias) if given is not None))


def max_pool(
    x: Operand, size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: Padding = "valid"
) -> Node:
    """Return the greatest number of each window of images or sequences, as `MaxPool` does; its first place gets the gradient.

    Shapes: (batch, height, width, channels) to (batch, height', width', channels), or (batch, time, channels) to (batch, time',
    channels). `stride` is that of the windows, by default their size; cells of the padding do not count. Raises TypeError or
    ValueError for arguments and shapes that do not fit.

    >>> nn.function.max_pool(nn.Placeholder([-1, 28, 28, 8])).shape
    (-1, 14, 14, 8)
    """
    return _pool("max_pool", PoolMax, x, size, stride, padding)


def average_pool(
    x: Operand, size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: Padding = "valid"
) -> Node:
    """Return the mean of each window of images or sequences, as `AveragePool` does; arguments and shapes as in `max_pool`.

    >>> nn.function.average_pool(nn.Placeholder([-1, 100, 8]), 5, stride=2).shape
    (-1, 48, 8)
    """
    return _pool("average_pool", PoolAverage, x, size, stride, padding)


def _pool(
    name: str,
    kind: type[Pool],
    x: Operand,
    size: int | Sequence[int],
    stride: int | Sequence[int] | None,
    padding: Padding,
) -> Node:
    value = as_value(x)
    axes = spatial.axes_of(name, value.shape)
    sizes = spatial.lengths(name, "size", size, axes)
    strides = sizes if stride is None else spatial.lengths(name, "stride", stride, axes)
    return value.apply(kind(sizes, strides, spatial.padding(name, padding)))

"""Pooling of images and sequences: one number for each window, or for each channel."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from nn import arguments
from nn.function import maximum, where
from nn.layer.layer import Layer, direct
from nn.operation.convolution import window
from nn.operation.convolution.window import Padding
from nn.operation.index import Entry
from nn.operation.pooling import Pool, PoolAverage, PoolMax
from nn.value.value import Value


class PoolingLayer(Layer, ABC, configured=True):
    """One number for each window and channel, of images (batch, height, width, channels) or sequences (batch, time, channels).

    Args:
        size: cells of a window, a number for all axes or one for each.
        stride: cells from one window to the next, alike; None for windows that lie side by side.
        padding: 'valid', 'same' (ceil(length / stride) windows, as TensorFlow) or a number of cells on every side; the cells
            that it adds never count.
        name: as of `Layer`.
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
        # Settled here and not in the constructor, since it has one entry for each axis of the inputs.
        stride = size if self.stride is None else window.lengths(self, "stride", self.stride, axes)
        return direct(self.pool(size, stride), x)

    @abstractmethod
    def pool(self, size: Sequence[int], strides: Sequence[int]) -> Pool:
        """Return the operation for windows of one size.

        Args:
            size: cells of a window along each axis.
            strides: cells from one window to the next.
        """


def _lengths(owner: object, name: str, value: int | Sequence[int]) -> int | list[int]:
    """Return a length for all axes, or a list with one for each."""
    # As for images, because the rank of the inputs is not known yet; a list of one length is for sequences.
    found = window.lengths(owner, name, value, 1 if isinstance(value, (list, tuple)) and len(value) == 1 else 2)
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

    Steps that the mask of the input leaves out do not count; of a sequence without any other the mean is 0.

    Shapes: (batch, height, width, channels) or (batch, time, channels) to (batch, channels).

    Args:
        keepdims: whether the axes of the places stay, with length 1.
        name: name of the layer; default: its class and a number.

    >>> nn.layer.GlobalAveragePool()(nn.Placeholder([-1, 7, 7, 64])).shape
    (-1, 64)
    """

    def __init__(self, keepdims: bool = False, name: str | None = None) -> None:
        super().__init__(name)
        self.keepdims = arguments.flag(self, "keepdims", keepdims)

    def call(self, x: Value) -> Value:
        places = _places(x)
        if x.mask is None:
            return x.mean(places, self.keepdims)
        steps = _mask_beside(x)
        # Axes behind the steps, such as the rows of images in time, count whole.
        among = math.prod(x.shape[2:-1])
        # A sequence of padding alone is divided by 1, which leaves its sum of 0.
        count = maximum(steps.sum(places, keepdims=True), 1) * float(among)
        first: tuple[Entry, ...] = (slice(None), *(0 for _ in places))
        return (x * steps).sum(places, self.keepdims) / (count if self.keepdims else count[first])


class GlobalMaxPool(Layer, configured=True):
    """Takes the greatest number of each channel over all places; equal ones share its gradient.

    Steps that the mask of the input leaves out do not count; of a sequence without any other the greatest is 0.

    Shapes: (batch, height, width, channels) or (batch, time, channels) to (batch, channels).

    Args:
        keepdims: whether the axes of the places stay, with length 1.
        name: name of the layer; default: its class and a number.

    >>> nn.layer.GlobalMaxPool()(nn.Placeholder([-1, 100, 64])).shape
    (-1, 64)
    """

    def __init__(self, keepdims: bool = False, name: str | None = None) -> None:
        super().__init__(name)
        self.keepdims = arguments.flag(self, "keepdims", keepdims)

    def call(self, x: Value) -> Value:
        places = _places(x)
        if x.mask is None:
            return x.max(places, self.keepdims)
        steps = _mask_beside(x)
        # Not x * steps, as for the mean: the 0 of a masked step would be the greatest of negative numbers.
        found, some = (value.max(places, self.keepdims) for value in (where(steps, x, _LOWEST), steps))
        # 0 for a sequence of padding alone, of which the least number would be left.
        return found * some


#: Less than what layers give, also in float32, and still finite.
_LOWEST = -1e30


def _mask_beside(x: Value) -> Value:
    """Return the mask of sequences with axes of length 1 for those that it lacks."""
    mask = x.mask
    if mask is None:
        raise ValueError("expected inputs with a mask, got none")
    key: tuple[Entry, ...] = (slice(None), slice(None), *(None for _ in x.shape[2:]))
    return mask[key]


def _places(x: Value) -> tuple[int, ...]:
    """Return the axes between batch and channels."""
    if len(x.shape) not in (3, 4):
        expected = "(batch, height, width, channels) or (batch, time, channels)"
        raise ValueError(f"expected inputs of shape {expected}, got {x.shape}")
    return tuple(range(1, len(x.shape) - 1))

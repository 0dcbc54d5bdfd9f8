"""What the pooling layers have in common."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from nn import arguments
from nn.layer.direct import direct
from nn.layer.layer import Layer
from nn.operation.convolution import spatial
from nn.operation.convolution.window import Padding
from nn.operation.pool import Pool
from nn.value import Value


class PoolingLayer(Layer, ABC):
    """One number for each window and channel, of images (batch, height, width, channels) or sequences (batch, time, channels).

    `size` and `stride` are a number for all axes or one for each. `stride` is that of the windows, which lie side by side if
    it is None. `padding` is 'valid', 'same' (ceil(length / stride) windows, as TensorFlow) or a number of cells on every side;
    what it adds never counts.
    """

    @arguments.also(strides="stride")
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
        self.padding = spatial.padding(self, padding)

    def call(self, x: Value) -> Value:
        """Return the pooled images or sequences."""
        axes = spatial.axes_of(self.describe(), x.shape)
        size = spatial.lengths(self, "size", self.size, axes)
        stride = size if self.stride is None else spatial.lengths(self, "stride", self.stride, axes)
        return direct(self.pool(size, stride), x)

    @abstractmethod
    def pool(self, size: Sequence[int], strides: Sequence[int]) -> Pool:
        """Return the operation for windows of this size along each axis."""

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "size": self.size,
            "stride": self.stride,
            "padding": self.padding,
            "name": self.given_name or None,
        }


def _lengths(owner: object, name: str, value: int | Sequence[int]) -> int | list[int]:
    """Return a length for all axes, or a list with one for each of two axes."""
    found = spatial.lengths(owner, name, value, 2)
    return found[0] if isinstance(value, int) else list(found)

"""The greatest number of each window."""

from collections.abc import Sequence

from nn.layer.pooling import PoolingLayer
from nn.operation.pool import Pool
from nn.operation.pool_max import PoolMax


class MaxPool(PoolingLayer):
    """Keeps the greatest number of each window. The gradient goes to the first maximum of the window, row by row.

    Shapes: (batch, height, width, channels) to (batch, height', width', channels), or (batch, time, channels) to (batch, time',
    channels). `MaxPool(size, stride=size, padding='valid')`; see `PoolingLayer` for the arguments.

    >>> nn.layer.MaxPool(2)(nn.Placeholder([-1, 28, 28, 16])).shape
    (-1, 14, 14, 16)
    """

    def pool(self, size: Sequence[int], strides: Sequence[int]) -> Pool:
        """Return the operation."""
        return PoolMax(size, strides, self.padding)

"""The mean of each window."""

from collections.abc import Sequence

from nn.layer.pooling import PoolingLayer
from nn.operation.pool import Pool
from nn.operation.pool_average import PoolAverage


class AveragePool(PoolingLayer):
    """Takes the mean of those cells of each window that lie in the input: padding does not count, whoever asked for it.

    Shapes: (batch, height, width, channels) to (batch, height', width', channels), or (batch, time, channels) to (batch, time',
    channels). `AveragePool(size, stride=size, padding='valid')`; see `PoolingLayer` for the arguments.

    >>> nn.layer.AveragePool(3, stride=2, padding="same")(nn.Placeholder([-1, 100, 8])).shape
    (-1, 50, 8)
    """

    def pool(self, size: Sequence[int], strides: Sequence[int]) -> Pool:
        """Return the operation."""
        return PoolAverage(size, strides, self.padding)

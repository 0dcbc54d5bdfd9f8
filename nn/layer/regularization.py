"""Layers that regularize training by random numbers: dropout and noise."""

from __future__ import annotations

from nn import arguments
from nn.layer.layer import Layer
from nn.operation.noise import DropoutOperation, GaussianDropoutOperation, GaussianNoiseOperation
from nn.value.value import Value


class Dropout(Layer, configured=True):
    """Dropout: in training, a share `rate` of the elements becomes 0 and the others are divided by 1 - rate: the mean stays.

    In `evaluate` and `predict` it is the identity. The mask is keyed by seed, epoch, batch, block and the place of the layer,
    so a run can be repeated bit for bit. (Srivastava et al., "Dropout", 2014)

    Args:
        rate: share of the elements, from 0 to below 1; `drop_out_rate` is its older name.
        name: name of the layer; default: its class and a number.

    >>> nn.layer.Dropout(0.5)(nn.Placeholder([-1, 128])).shape
    (-1, 128)
    """

    @arguments.also(drop_out_rate="rate")
    def __init__(self, rate: float = 0.5, name: str | None = None) -> None:
        super().__init__(name)
        self.rate = arguments.number(self, "rate", rate, 0, 1)

    def call(self, x: Value) -> Value:
        return x.apply(DropoutOperation(self.rate))


class SpatialDropout(Layer, configured=True):
    """Dropout of whole channels: in training a share `rate` of the channels of each sample becomes 0 in all places.

    The others are divided by 1 - rate. Neighbours in a channel are much alike, so that `Dropout` would take little away
    (Tompson et al., Efficient object localization using convolutional networks, CVPR 2015). Shapes: (batch, time, channels) or
    (batch, height, width, channels), output as x. Keys are those of `Dropout`.

    Args:
        rate: share of the channels, from 0 to below 1.
        name: name of the layer; default: its class and a number.

    Raises ValueError for inputs of another rank.

    >>> nn.layer.SpatialDropout(0.2)(nn.Placeholder([-1, 20, 64])).shape
    (-1, 20, 64)
    """

    def __init__(self, rate: float = 0.5, name: str | None = None) -> None:
        super().__init__(name)
        self.rate = arguments.number(self, "rate", rate, 0, 1)

    def call(self, x: Value) -> Value:
        if len(x.shape) not in (3, 4):
            expected = "(batch, time, channels) or (batch, height, width, channels)"
            raise ValueError(f"expected inputs of shape {expected}, got {x.shape}")
        return x.apply(DropoutOperation(self.rate, by_channel=True))


class GaussianDropout(Layer, configured=True):
    """Each element times a normal number of mean 1 and variance rate / (1 - rate) in training; the identity otherwise.

    Mean and variance are those of `Dropout` (Srivastava et al., 2014, section 10). Keys are those of `Dropout`.

    Args:
        rate: the share that `Dropout` would drop, from 0 to below 1.
        name: name of the layer; default: its class and a number.

    >>> nn.layer.GaussianDropout(0.2)(nn.Placeholder([-1, 64])).shape
    (-1, 64)
    """

    def __init__(self, rate: float = 0.5, name: str | None = None) -> None:
        super().__init__(name)
        self.rate = arguments.number(self, "rate", rate, 0, 1)

    def call(self, x: Value) -> Value:
        return x.apply(GaussianDropoutOperation(self.rate))


class GaussianNoise(Layer, configured=True):
    """Each element plus a normal number of mean 0 in training; the identity otherwise. Keys are those of `Dropout`.

    Args:
        stddev: standard deviation of the noise, at least 0.
        name: name of the layer; default: its class and a number.

    >>> nn.layer.GaussianNoise(0.1)(nn.Placeholder([-1, 64])).shape
    (-1, 64)
    """

    def __init__(self, stddev: float, name: str | None = None) -> None:
        super().__init__(name)
        self.stddev = arguments.number(self, "stddev", stddev, 0)

    def call(self, x: Value) -> Value:
        return x.apply(GaussianNoiseOperation(self.stddev))

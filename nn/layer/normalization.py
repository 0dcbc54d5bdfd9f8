"""Normalization layers: over the samples of a batch, the features of a position, or groups of the channels of a sample."""

from __future__ import annotations

from numbers import Integral

from nn import arguments
from nn.arrays import BATCH, LENGTH, Shape
from nn.initializer import Constant, Zeros
from nn.layer.layer import Layer
from nn.operation.normalization import BatchNormalize, GroupNormalize, LayerNormalize, RMSNormalize
from nn.value.value import Value


class BatchNorm(Layer, configured=True):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta, per feature (Ioffe and Szegedy, "Batch Normalization", 2015).

    Shapes: x (batch, ..., features), gamma, beta, moving_mean and moving_variance (features,), output as x. In training mean
    and variance are those of the block over all axes but the last, and the moving ones go (1 - momentum) of the way towards
    them after each batch; in `evaluate` and `predict` the moving ones are used. As in Keras the variance divides by the number
    of values n, also for the moving one (torch moves towards n / (n - 1) times that).

    The moving statistics begin at 0 and 1, and after t batches still hold momentum^t of that: with 0.99 it takes 460 batches
    until 1 % is left. Before, `evaluate` may be far worse than training; in short trainings choose a `momentum` of 0.9 (44
    batches) or less.

    Frozen (`trainable = False`), it normalises by the moving statistics in training, too, and leaves them as they are, as in
    Keras; with `freeze_statistics=False` only gamma and beta stand still.

    Of sequences with a mask only the steps that it leaves count for mean and variance.

    Used several times in one model, it normalises each use by its own mean and variance, and the moving ones go towards the
    mean of these.

    Args:
        momentum: share that a moving statistic keeps at each batch, from 0 (the last batch alone) to below 1.
        epsilon: added to the variance, above 0, so that a constant feature is not divided by 0.
        name: name of the layer; default: its class and a number.
        freeze_statistics: whether a frozen layer also leaves its moving statistics as they are.

    Raises ValueError for inputs without a feature axis or with another number of features.

    >>> layer = nn.layer.BatchNorm(momentum=0.9)
    >>> layer(nn.Placeholder([-1, 8, 8, 16])).shape, [variable.shape for variable in layer.variables]
    ((-1, 8, 8, 16), [(16,), (16,), (16,), (16,)])
    """

    def __init__(
        self, momentum: float = 0.99, epsilon: float = 1e-3, name: str | None = None, *, freeze_statistics: bool = True
    ) -> None:
        super().__init__(name)
        self.momentum = arguments.number(self, "momentum", momentum, 0, 1)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)
        self.freeze_statistics: bool = arguments.instance(self, "freeze_statistics", freeze_statistics, bool)

    def build(self, input_shape: Shape) -> None:
        if len(input_shape) < 2 or input_shape[-1] in (BATCH, LENGTH):
            raise ValueError(f"expected inputs of shape (batch, ..., features), got {input_shape}")
        features = input_shape[-1:]
        self.gamma = self.add_variable("gamma", features, Constant(1.0))
        self.beta = self.add_variable("beta", features, Zeros())
        self.moving_mean = self.add_buffer("moving_mean", features)
        # 1 and not 0, or an untrained layer would predict x / sqrt(epsilon)
        self.moving_variance = self.add_buffer("moving_variance", features, Constant(1.0))

    def call(self, x: Value) -> Value:
        if x.shape[-1:] != self.gamma.shape:
            raise ValueError(f"expected inputs with {self.gamma.shape[0]} features on the last axis, got shape {x.shape}")
        operation = BatchNormalize(self.momentum, self.epsilon, self.freeze_statistics)
        masks = [] if x.mask is None else [x.mask]
        return x.apply(operation, self.gamma, self.beta, self.moving_mean, self.moving_variance, *masks)


class LayerNorm(Layer, configured=True):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta, with mean and variance over the last axis of each position.

    Shapes: x (batch, ..., features), gamma and beta (features,), output as x. Samples do not mix, and training and prediction
    compute the same (Ba, Kiros and Hinton, "Layer Normalization", 2016).

    Args:
        epsilon: added to the variance, above 0, so that a position of equal values is not divided by 0.
        name: name of the layer; default: its class and a number.

    Raises ValueError for inputs without a feature axis or with another number of features.

    >>> nn.layer.LayerNorm()(nn.Placeholder([-1, 20, 64])).shape
    (-1, 20, 64)
    """

    def __init__(self, epsilon: float = 1e-3, name: str | None = None) -> None:
        super().__init__(name)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)

    def build(self, input_shape: Shape) -> None:
        if len(input_shape) < 2 or input_shape[-1] in (BATCH, LENGTH):
            raise ValueError(f"expected inputs of shape (batch, ..., features), got {input_shape}")
        self.gamma = self.add_variable("gamma", input_shape[-1:], Constant(1.0))
        self.beta = self.add_variable("beta", input_shape[-1:], Zeros())

    def call(self, x: Value) -> Value:
        if x.shape[-1:] != self.gamma.shape:
            raise ValueError(f"expected inputs with {self.gamma.shape[0]} features on the last axis, got shape {x.shape}")
        return x.apply(LayerNormalize(self.epsilon), self.gamma, self.beta)


class RMSNorm(Layer, configured=True):
    """scale * x / sqrt(mean(x^2) + epsilon), with the mean over the last axis of each position: `LayerNorm` without its mean.

    Shapes: x (batch, ..., features), scale (features,), output as x (Zhang and Sennrich, "Root mean square layer
    normalization", 2019).

    Args:
        epsilon: added to the mean square, above 0, so that a position of zeros is not divided by 0.
        name: name of the layer; default: its class and a number.

    Raises ValueError for inputs without a feature axis or with another number of features.

    >>> nn.layer.RMSNorm()(nn.Placeholder([-1, 20, 64])).shape
    (-1, 20, 64)
    """

    # Keras's default, as 1e-3 is for the other three.
    def __init__(self, epsilon: float = 1e-6, name: str | None = None) -> None:
        super().__init__(name)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)

    def build(self, input_shape: Shape) -> None:
        if len(input_shape) < 2 or input_shape[-1] in (BATCH, LENGTH):
            raise ValueError(f"expected inputs of shape (batch, ..., features), got {input_shape}")
        self.scale = self.add_variable("scale", input_shape[-1:], Constant(1.0))

    def call(self, x: Value) -> Value:
        if x.shape[-1:] != self.scale.shape:
            raise ValueError(f"expected inputs with {self.scale.shape[0]} features on the last axis, got shape {x.shape}")
        return x.apply(RMSNormalize(self.epsilon), self.scale)


class GroupNorm(Layer, configured=True):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta, with mean and variance over groups of channels of each sample.

    Shapes: x (batch, ..., channels), gamma and beta (channels,), output as x. Statistics are those of all places and of the
    channels of a group; samples do not mix, and training and prediction compute the same (Wu and He, "Group Normalization",
    2018). One group for each channel is instance normalization.

    Args:
        groups: number of groups, which divides the channels; -1: one for each channel.
        epsilon: added to the variance, above 0, so that equal values are not divided by 0.
        name: name of the layer; default: its class and a number.

    Raises ValueError for inputs without a channel axis, with another number of channels, or one that the groups do not divide.

    >>> nn.layer.GroupNorm(8)(nn.Placeholder([-1, 8, 8, 16])).shape
    (-1, 8, 8, 16)
    """

    def __init__(self, groups: int = 32, epsilon: float = 1e-3, name: str | None = None) -> None:
        super().__init__(name)
        # Kept as -1: the number of channels is not known yet, and a file should say what was asked for.
        each = isinstance(groups, Integral) and groups == -1
        self.groups = -1 if each else arguments.integer(self, "groups", groups, minimum=1)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)

    def build(self, input_shape: Shape) -> None:
        if len(input_shape) < 2 or BATCH in input_shape[1:]:
            raise ValueError(f"expected inputs of shape (batch, ..., channels), all but the batch known, got {input_shape}")
        if self.groups != -1 and input_shape[-1] % self.groups:
            raise ValueError(f"'groups' must divide the {input_shape[-1]} channels of the inputs, got {self.groups}")
        self.gamma = self.add_variable("gamma", input_shape[-1:], Constant(1.0))
        self.beta = self.add_variable("beta", input_shape[-1:], Zeros())

    def call(self, x: Value) -> Value:
        channels = self.gamma.shape[0]
        if x.shape[-1] != channels:
            raise ValueError(f"expected inputs with {channels} channels on the last axis, got shape {x.shape}")
        return x.apply(GroupNormalize(channels if self.groups == -1 else self.groups, self.epsilon), self.gamma, self.beta)

"""Initialisers: how the first values of a variable are drawn.

An initialiser is called with the shape and a generator keyed by the model's seed and the variable's place, so that equal
models with equal seeds start equal. Kernels have shape (..., fan in, fan out); leading axes (a receptive field) count
towards both fans.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeAlias

import numpy as np

from nn import arguments
from nn.arguments import Configurable
from nn.arrays import Array, Shape
from nn.lazy import unknown

__all__ = [
    "Constant", "GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "Identity", "Initializer", "LecunNormal",
    "LecunUniform", "Normal", "Ones", "Orthogonal", "TruncatedNormal", "Uniform", "VarianceScaling", "Zeros", "fans",
]  # fmt: skip

InitializerName: TypeAlias = Literal[
    "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "identity", "lecun_normal", "lecun_uniform", "normal",
    "ones", "orthogonal", "random_normal", "random_uniform", "truncated_normal", "uniform", "variance_scaling", "zeros",
]  # fmt: skip
WORDS: Final[Mapping[str, str]] = MappingProxyType({
    "glorot_normal": "GlorotNormal", "glorot_uniform": "GlorotUniform", "he_normal": "HeNormal", "he_uniform": "HeUniform",
    "identity": "Identity", "lecun_normal": "LecunNormal", "lecun_uniform": "LecunUniform", "normal": "Normal",
    "ones": "Ones", "orthogonal": "Orthogonal", "random_normal": "Normal", "random_uniform": "Uniform",
    "truncated_normal": "TruncatedNormal", "uniform": "Uniform", "variance_scaling": "VarianceScaling", "zeros": "Zeros",
})  # fmt: skip
"""Words of InitializerName with the names of their classes, see `nn.names`."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise unknown(__name__, name)


class Initializer(Configurable, ABC):
    """Base of initialisers, which draw the first values of a variable.

    >>> class Normal(nn.initializer.Initializer):
    ...     def __call__(self, shape, generator):
    ...         return 0.01 * generator.standard_normal(shape)
    >>> layer = nn.layer.Dense(10, kernel_initializer=Normal())
    """

    @abstractmethod
    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        """Return an array of the given shape, drawn from `generator` only."""


class Constant(Initializer, configured=True):
    """Every element is `value`.

    >>> nn.initializer.Constant(0.5)((2,), nn.random.keyed(0, "example")).tolist()
    [0.5, 0.5]
    """

    def __init__(self, value: float = 0.0) -> None:
        self.value = arguments.number(self, "value", value)

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        return np.full(shape, self.value)


class Zeros(Initializer):
    """Every element is 0, the usual start of a bias.

    >>> nn.initializer.Zeros()((2,), nn.random.keyed(0, "example")).tolist()
    [0.0, 0.0]
    """

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        return np.zeros(shape)


class Ones(Initializer):
    """Every element is 1.

    >>> nn.initializer.Ones()((2,), nn.random.keyed(0, "example")).tolist()
    [1.0, 1.0]
    """

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        return np.ones(shape)


class Identity(Initializer, configured=True):
    """A matrix with `gain` on the diagonal and 0 elsewhere. Other shapes are refused with ValueError.

    >>> nn.initializer.Identity(2)((2, 2), nn.random.keyed(0, "example")).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = arguments.number(self, "gain", gain)

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        if len(shape) != 2:
            raise ValueError(f"Identity needs a shape of two axes, got {shape}")
        return self.gain * np.eye(*shape)


class Normal(Initializer, configured=True):
    """Normal with mean `mean` and standard deviation `std`.

    Args:
        mean: of the values.
        std: their standard deviation, at least 0.

    >>> drawn = nn.initializer.Normal(std=0.1)((10_000,), nn.random.keyed(0, "example"))
    >>> round(float(drawn.std()), 2)
    0.1
    """

    @arguments.also(stddev="std")
    def __init__(self, mean: float = 0.0, std: float = 0.05) -> None:
        self.mean = arguments.number(self, "mean", mean)
        self.std = arguments.number(self, "std", std, 0)

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        return self.mean + self.std * generator.standard_normal(shape)


class Uniform(Initializer, configured=True):
    """Uniform in [low, high), the usual start of an embedding.

    Args:
        low: the least value.
        high: bound above all values.

    >>> drawn = nn.initializer.Uniform(-1, 1)((100,), nn.random.keyed(0, "example"))
    >>> bool(drawn.min() >= -1 and drawn.max() < 1)
    True
    """

    @arguments.also(minval="low", maxval="high")
    def __init__(self, low: float = -0.05, high: float = 0.05) -> None:
        self.low = arguments.number(self, "low", low)
        self.high = arguments.number(self, "high", high, self.low)

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        return generator.uniform(self.low, self.high, shape)


class GlorotUniform(Initializer):
    """Uniform in [-a, a] with a = sqrt(6 / (fan in + fan out)) (Glorot and Bengio, 2010): for tanh and sigmoid.

    >>> drawn = nn.initializer.GlorotUniform()((20, 4), nn.random.keyed(0, "example"))
    >>> bool(abs(drawn).max() <= 0.5)
    True
    """

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        bound = math.sqrt(6 / sum(fans(shape)))
        return generator.uniform(-bound, bound, shape)


class HeUniform(Initializer):
    """Uniform in [-a, a] with a = sqrt(6 / fan in) (He et al., 2015): for rectifiers.

    >>> drawn = nn.initializer.HeUniform()((24, 4), nn.random.keyed(0, "example"))
    >>> bool(abs(drawn).max() <= 0.5)
    True
    """

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        bound = math.sqrt(6 / fans(shape)[0])
        return generator.uniform(-bound, bound, shape)


class LecunUniform(Initializer):
    """Uniform in [-a, a] with a = sqrt(3 / fan in) (LeCun et al., 1998).

    >>> drawn = nn.initializer.LecunUniform()((12, 4), nn.random.keyed(0, "example"))
    >>> bool(abs(drawn).max() <= 0.5)
    True
    """

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        bound = math.sqrt(3 / fans(shape)[0])
        return generator.uniform(-bound, bound, shape)


class VarianceScaling(Initializer, configured=True):
    """Draws of mean 0 and variance scale / n, with n the fan in, the fan out, or their mean: the general form of the others.

    Args:
        scale: above 0.
        mode: meaning of n: 'fan_in', 'fan_out' or 'fan_avg'.
        distribution: 'truncated_normal', cut off at two spreads, 'untruncated_normal' or 'uniform'.

    Raises TypeError or ValueError for other arguments.

    >>> drawn = nn.initializer.VarianceScaling(2, "fan_out", "uniform")((200, 200), nn.random.keyed(0, "example"))
    >>> round(float(drawn.std() * 100**0.5), 1)
    1.0
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: Literal["fan_in", "fan_out", "fan_avg"] = "fan_in",
        distribution: Literal["truncated_normal", "untruncated_normal", "uniform"] = "truncated_normal",
    ) -> None:
        self.scale = arguments.number(self, "scale", scale, 0, open_low=True)
        self.mode = arguments.one_of(self, "mode", mode, ("fan_in", "fan_out", "fan_avg"))
        known: tuple[Literal["truncated_normal", "untruncated_normal", "uniform"], ...]
        known = ("truncated_normal", "untruncated_normal", "uniform")
        self.distribution = arguments.one_of(self, "distribution", distribution, known)

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        fan_in, fan_out = fans(shape)
        count = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        spread = math.sqrt(self.scale / count)
        if self.distribution == "uniform":
            # Numbers that are uniform in [-a, a] have the spread a / sqrt(3).
            return generator.uniform(-math.sqrt(3) * spread, math.sqrt(3) * spread, shape)
        if self.distribution == "untruncated_normal":
            return spread * generator.standard_normal(shape)
        # Cutting off makes the spread smaller; the division brings it back.
        return spread / _SPREAD_WITHIN_TWO * _within_two(shape, generator)


class TruncatedNormal(Initializer, configured=True):
    """Normal with this mean and spread, drawn again where it is more than two spreads away from the mean.

    Args:
        mean: of the values.
        std: standard deviation before the far values are drawn again, above 0.

    >>> drawn = nn.initializer.TruncatedNormal(std=0.1)((100,), nn.random.keyed(0, "example"))
    >>> bool(abs(drawn).max() <= 0.2)
    True
    """

    @arguments.also(stddev="std")
    def __init__(self, mean: float = 0.0, std: float = 0.05) -> None:
        self.mean = arguments.number(self, "mean", mean)
        self.std = arguments.number(self, "std", std, 0, open_low=True)

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        return self.mean + self.std * _within_two(shape, generator)


class _ScaledNormal(Initializer):
    """Truncated normal with elements that have, after the truncation, the spread sqrt(1 / fan)."""

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        # a standard normal that is cut off at 2 has a smaller spread than 1
        return _within_two(shape, generator) * (math.sqrt(1 / self.fan(*fans(shape))) / _SPREAD_WITHIN_TWO)

    @abstractmethod
    def fan(self, fan_in: int, fan_out: int) -> float:
        """Return the inverse of the variance.

        Args:
            fan_in: inputs of an element of the output.
            fan_out: uses of an input.
        """


class GlorotNormal(_ScaledNormal):
    """Truncated normal with variance 2 / (fan in + fan out) (Glorot and Bengio, 2010): for tanh and sigmoid.

    >>> drawn = nn.initializer.GlorotNormal()((200, 200), nn.random.keyed(0, "example"))
    >>> round(float(drawn.std() * 200**0.5), 1)
    1.0
    """

    def fan(self, fan_in: int, fan_out: int) -> float:
        return (fan_in + fan_out) / 2


class HeNormal(_ScaledNormal):
    """Truncated normal with variance 2 / fan in (He et al., 2015): for rectifiers.

    >>> drawn = nn.initializer.HeNormal()((200, 200), nn.random.keyed(0, "example"))
    >>> round(float(drawn.std() * 100**0.5), 1)
    1.0
    """

    def fan(self, fan_in: int, fan_out: int) -> float:
        return fan_in / 2


class LecunNormal(_ScaledNormal):
    """Truncated normal with variance 1 / fan in (LeCun et al., 1998), if the activation of the layer keeps mean and variance.

    >>> drawn = nn.initializer.LecunNormal()((200, 200), nn.random.keyed(0, "example"))
    >>> round(float(drawn.std() * 200**0.5), 1)
    1.0
    """

    def fan(self, fan_in: int, fan_out: int) -> float:
        return fan_in


# Standard deviation of a standard normal number that is known to lie between -2 and 2.
_SPREAD_WITHIN_TWO = 0.8796256610342398


def _within_two(shape: Shape, generator: np.random.Generator) -> Array:
    """Draw standard normal numbers, each again as long as it is more than 2 away from 0."""
    drawn = generator.standard_normal(shape).reshape(-1)
    far = np.flatnonzero(np.abs(drawn) > 2)
    while far.size:
        drawn[far] = generator.standard_normal(far.size)
        far = far[np.abs(drawn[far]) > 2]
    return drawn.reshape(shape)


class Orthogonal(Initializer, configured=True):
    """A matrix with orthonormal rows or columns, whichever are fewer, times `gain` (Saxe et al., 2014): for recurrent kernels.

    All axes but the last count as rows. A vector is refused with ValueError.

    >>> matrix = nn.initializer.Orthogonal()((3, 3), nn.random.keyed(0, "example"))
    >>> bool(np.allclose(matrix @ matrix.T, np.eye(3)))
    True
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = arguments.number(self, "gain", gain)

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        """Draw a normal matrix and make it orthogonal; the signs are chosen so that every rotation is equally likely."""
        if len(shape) < 2:
            raise ValueError(f"Orthogonal needs a shape of at least two axes, got {shape}")
        rows, columns = math.prod(shape[:-1]), shape[-1]
        # Of the taller form, whose columns QR makes orthonormal.
        q, r = np.linalg.qr(generator.standard_normal((max(rows, columns), min(rows, columns))))
        # QR leaves the signs to the library; with a positive diagonal of r, q is uniform over rotations and reflections
        # (Mezzadri, 2007).
        q *= np.where(np.diag(r) < 0, -self.gain, self.gain)
        return (q if rows >= columns else q.T).reshape(shape)


def fans(shape: Shape) -> tuple[int, int]:
    """Return (fan in, fan out) of a kernel of this shape; a vector has its length as both, a scalar 1."""
    if len(shape) < 2:
        size = math.prod(shape)
        return size, size
    # Each place of the receptive field sees all inputs.
    field = math.prod(shape[:-2])
    return field * shape[-2], field * shape[-1]

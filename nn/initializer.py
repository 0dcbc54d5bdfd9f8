"""Initialisers: how the first values of a variable are drawn.

An initialiser is called with the shape and a generator keyed by the model's seed and the variable's place, so that equal
models with equal seeds start equal. Kernels have shape (..., fan in, fan out); leading axes (a receptive field) count
towards both fans.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import Array, Shape
from nn.configurable import Configurable


class Initializer(Configurable, ABC):
    """Draws the first values of a variable."""

    @abstractmethod
    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        """Return an array of the given shape, drawn from `generator` only."""


class Constant(Initializer):
    """Every element is `value`."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = arguments.number(self, "value", value, -math.inf)

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        """Return the filled array; nothing is drawn."""
        return np.full(shape, self.value)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"value": self.value}


class Zeros(Initializer):
    """Every element is 0, the usual start of a bias."""

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        """Return zeros; nothing is drawn."""
        return np.zeros(shape)


class GlorotUniform(Initializer):
    """Uniform in [-a, a] with a = sqrt(6 / (fan in + fan out)) (Glorot and Bengio, 2010): for tanh and sigmoid."""

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        """Draw from the uniform distribution."""
        bound = math.sqrt(6 / sum(fans(shape)))
        return generator.uniform(-bound, bound, shape)


class HeUniform(Initializer):
    """Uniform in [-a, a] with a = sqrt(6 / fan in) (He et al., 2015): for rectifiers."""

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        """Draw from the uniform distribution."""
        bound = math.sqrt(6 / fans(shape)[0])
        return generator.uniform(-bound, bound, shape)


def fans(shape: Shape) -> tuple[int, int]:
    """Return (fan in, fan out) of a kernel; a vector has its length as both, a scalar 1."""
    if len(shape) < 2:
        size = math.prod(shape)
        return size, size
    field = math.prod(shape[:-2])
    return field * shape[-2], field * shape[-1]

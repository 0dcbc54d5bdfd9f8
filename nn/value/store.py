"""Where the variables of a model live: one vector of values, one of gradients."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.arrays import Array, zeros
from nn.random import keyed
from nn.value.variable import Variable


class VariableStore:
    """Holds all trainable variables in one contiguous vector and their gradients in another, in the order of their ids.

    So a rule updates a whole model in a few array operations and a checkpoint is one write. What is not trained
    (`buffers`) has an array of its own each.
    """

    def __init__(self, variables: Sequence[Variable], buffers: Sequence[Variable], dtype: np.dtype[Any], seed: int) -> None:
        sizes = [math.prod(variable.shape) for variable in variables]
        self.dtype = dtype
        self.values: Array = zeros((sum(sizes),), dtype)
        self.gradients: Array = zeros((sum(sizes),), dtype)
        self.variables = list(variables)
        self.buffers = list(buffers)
        start = 0
        for identity, (variable, size) in enumerate(zip(variables, sizes, strict=True)):
            part = slice(start, start + size)
            variable.bind(identity, self.values[part].reshape(variable.shape), self.gradients[part].reshape(variable.shape))
            start += size
        for variable in buffers:
            variable.bind(-1, zeros(variable.shape, dtype), None)
        self.initialize(seed)

    @property
    def everything(self) -> list[Variable]:
        """All variables, trained and not."""
        return [*self.variables, *self.buffers]

    def initialize(self, seed: int) -> None:
        """Draw the first values, keyed by the seed and the variable's place; gradients become 0."""
        for place, variable in enumerate(self.everything):
            variable.set_value(variable.initializer(variable.shape, keyed(seed, "initialize", place)))
        self.gradients[:] = 0

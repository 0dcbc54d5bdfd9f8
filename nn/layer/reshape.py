"""Reshape."""

import math
from collections.abc import Sequence
from typing import Any

from nn import arguments
from nn.arrays import BATCH
from nn.layer.layer import Layer
from nn.value import Value


class Reshape(Layer):
    """Another shape for each sample: (batch, ...) becomes (batch, *shape). One axis of `shape` may be -1.

    >>> nn.layer.Reshape([28, -1])(nn.Placeholder([-1, 784])).shape
    (-1, 28, 28)
    """

    def __init__(self, shape: Sequence[int], name: str | None = None) -> None:
        super().__init__(name)
        self.shape = arguments.shape(self, "shape", shape, unknown=1)

    def call(self, x: Value) -> Value:
        """Return the reshaped samples."""
        size = math.prod(x.shape[1:])
        known = math.prod(axis for axis in self.shape if axis != BATCH)
        if size % known or (BATCH not in self.shape and size != known):
            raise ValueError(f"samples of shape {x.shape[1:]} do not fit into shape {self.shape}")
        return x.reshape(BATCH, *(size // known if axis == BATCH else axis for axis in self.shape))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"shape": list(self.shape), "name": self.given_name or None}

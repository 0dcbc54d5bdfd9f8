"""Flatten."""

import math
from typing import Any

from nn.arrays import BATCH, Shape
from nn.layer.layer import Layer
from nn.value import Value


class Flatten(Layer):
    """One row per sample: (batch, a, b, ...) becomes (batch, a * b * ...). Costs nothing inside a model.

    >>> nn.layer.Flatten()(nn.Placeholder([-1, 4, 4, 16])).shape
    (-1, 256)
    """

    def build(self, input_shape: Shape) -> None:
        """Check that the length of a row is known."""
        if BATCH in input_shape[1:]:
            raise ValueError(f"expected inputs whose axes after the batch are known, got {input_shape}")

    def call(self, x: Value) -> Value:
        """Return the rows."""
        return x.reshape(BATCH, math.prod(x.shape[1:]))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"name": self.given_name or None}

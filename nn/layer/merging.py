"""Layers of several inputs: their sum, or one beside the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from nn import arguments
from nn.layer.layer import Layer, direct
from nn.operation.broadcasting import broadcast_shape
from nn.operation.shape import Concatenate as ConcatenateOperation
from nn.value.value import Value


class Add(Layer, configured=True):
    """a + b + ..., as in a residual connection: `Add()([x, branch])`. Shapes are equal or broadcast as in NumPy.

    Raises ValueError naming shapes that do not fit together.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Add()([x, nn.layer.Dense(64)(x)]).shape
    (-1, 64)
    """

    several: ClassVar[bool] = True

    def call(self, x: Sequence[Value]) -> Value:
        total = x[0]
        for value in x[1:]:
            broadcast_shape(self.describe(), total.shape, value.shape)
            total = total + value
        return total


class Concatenate(Layer, configured=True):
    """Inputs joined along one axis, by default the features: (batch, a), (batch, b) give (batch, a + b).

    Other axes than `axis` must be equal, and `axis` is not the batch; else ValueError.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Concatenate()([x, nn.layer.Dense(10)(x)]).shape
    (-1, 74)
    """

    several: ClassVar[bool] = True

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(name)
        self.axis = arguments.integer(self, "axis", axis, minimum=-32)

    def call(self, x: Sequence[Value]) -> Value:
        return direct(ConcatenateOperation(self.axis), *x)

"""Layers of several inputs: combined element by element, or one beside the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from nn import arguments
from nn.layer.layer import Layer, direct
from nn.operation.arithmetic import Maximum as MaximumOperation
from nn.operation.arithmetic import Minimum as MinimumOperation
from nn.operation.broadcasting import broadcast_shape
from nn.operation.shape import Concatenate as ConcatenateOperation
from nn.value.value import Value


class _Merging(Layer, ABC):
    """Common part of layers that combine values one after the other; shapes are equal or broadcast as in NumPy."""

    several: ClassVar[bool] = True

    def call(self, x: Sequence[Value]) -> Value:
        total = x[0]
        for value in x[1:]:
            # Checked here, so that the error names the layer and not the operation.
            broadcast_shape(self.describe(), total.shape, value.shape)
            total = self.combine(total, value)
        return total

    @abstractmethod
    def combine(self, a: Value, b: Value) -> Value:
        """Return the result for two values."""


class Add(_Merging):
    """a + b + ..., as in a residual connection. Shapes are equal or broadcast as in NumPy.

    Raises ValueError naming shapes that do not fit together.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Add()([x, nn.layer.Dense(64)(x)]).shape
    (-1, 64)
    """

    def combine(self, a: Value, b: Value) -> Value:
        return a + b


class Multiply(_Merging):
    """a * b * ..., as in a gate. Shapes are equal or broadcast as in NumPy.

    Raises ValueError naming shapes that do not fit together.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Multiply()([x, nn.layer.Dense(64)(x)]).shape
    (-1, 64)
    """

    def combine(self, a: Value, b: Value) -> Value:
        return a * b


class Maximum(_Merging):
    """The greatest of a, b, ... in every place. Shapes are equal or broadcast as in NumPy.

    Raises ValueError naming shapes that do not fit together.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Maximum()([x, nn.layer.Dense(64)(x)]).shape
    (-1, 64)
    """

    def combine(self, a: Value, b: Value) -> Value:
        return a.apply(MaximumOperation(), b)


class Minimum(_Merging):
    """The least of a, b, ... in every place. Shapes are equal or broadcast as in NumPy.

    Raises ValueError naming shapes that do not fit together.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Minimum()([x, nn.layer.Dense(64)(x)]).shape
    (-1, 64)
    """

    def combine(self, a: Value, b: Value) -> Value:
        return a.apply(MinimumOperation(), b)


class Subtract(_Merging):
    """a - b, of two values. Shapes are equal or broadcast as in NumPy.

    Raises ValueError naming shapes that do not fit together, and for another number of values.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Subtract()([x, nn.layer.Dense(64)(x)]).shape
    (-1, 64)
    """

    def call(self, x: Sequence[Value]) -> Value:
        if len(x) != 2:
            raise ValueError(f"expected two values, got {len(x)}")
        return super().call(x)

    def combine(self, a: Value, b: Value) -> Value:
        return a - b


class Average(_Merging):
    """(a + b + ...) / n, of n values. Shapes are equal or broadcast as in NumPy.

    Raises ValueError naming shapes that do not fit together.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Average()([x, nn.layer.Dense(64)(x)]).shape
    (-1, 64)
    """

    def call(self, x: Sequence[Value]) -> Value:
        total = super().call(x)
        # One value is its own mean, and needs no operation.
        return total / len(x) if len(x) > 1 else total

    def combine(self, a: Value, b: Value) -> Value:
        return a + b


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

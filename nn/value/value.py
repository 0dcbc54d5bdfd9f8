"""The values a graph is made of, and the operators that combine them.

`x @ w + b` computes nothing: it builds nodes. A plan (`nn.plan`) computes them for data of a given shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np

from nn.arrays import Array, Shape
from nn.operation import Add, Divide, MatMul, Multiply, Negative, Operation, Power, Reshape, Subtract

if TYPE_CHECKING:
    from nn.layer.layer import Layer

Operand: TypeAlias = Union["Value", float, Array]


class Value:
    """Something that will hold an array when a plan runs: a placeholder, a variable, a constant, or a node."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def apply(self, operation: Operation, *others: Value) -> Node:
        """Return the node that applies `operation` to this value and the others."""
        return Node(operation, (self, *others))

    def reshape(self, *shape: int) -> Node:
        """Return the same elements in another shape; one axis may be -1."""
        return self.apply(Reshape(shape))

    def __add__(self, other: Operand) -> Node:
        return self.apply(Add(), as_value(other))

    def __radd__(self, other: Operand) -> Node:
        return as_value(other).apply(Add(), self)

    def __sub__(self, other: Operand) -> Node:
        return self.apply(Subtract(), as_value(other))

    def __rsub__(self, other: Operand) -> Node:
        return as_value(other).apply(Subtract(), self)

    def __mul__(self, other: Operand) -> Node:
        return self.apply(Multiply(), as_value(other))

    def __rmul__(self, other: Operand) -> Node:
        return as_value(other).apply(Multiply(), self)

    def __truediv__(self, other: Operand) -> Node:
        return self.apply(Divide(), as_value(other))

    def __rtruediv__(self, other: Operand) -> Node:
        return as_value(other).apply(Divide(), self)

    def __pow__(self, other: Operand) -> Node:
        return self.apply(Power(), as_value(other))

    def __rpow__(self, other: Operand) -> Node:
        return as_value(other).apply(Power(), self)

    def __matmul__(self, other: Operand) -> Node:
        return self.apply(MatMul(), as_value(other))

    def __rmatmul__(self, other: Operand) -> Node:
        return as_value(other).apply(MatMul(), self)

    def __neg__(self) -> Node:
        return self.apply(Negative())

    # an array on the left of an operator must not take the value apart element by element
    __array_ufunc__ = None


class Constant(Value):
    """A fixed array. Numbers and arrays in an expression become constants."""

    def __init__(self, array: Array) -> None:
        super().__init__(array.shape)
        self.array = array


class Node(Value):
    """The result of an operation on other values."""

    def __init__(self, operation: Operation, inputs: Sequence[Value]) -> None:
        super().__init__(operation.infer(*(value.shape for value in inputs)))
        self.operation = operation
        self.inputs = tuple(inputs)
        self.layers: tuple[Layer, ...] = ()
        """The layers whose result this is, innermost first."""


def as_value(operand: Operand) -> Value:
    """Return a value for something that stands beside one in an expression; raise TypeError for what cannot."""
    if isinstance(operand, Value):
        return operand
    if isinstance(operand, (Real, np.ndarray)):
        array = np.asarray(operand)
        if array.dtype.kind in "iufb":
            return Constant(array)
    raise TypeError(f"an expression takes values, numbers and numeric arrays, got {type(operand).__name__} {operand!r}")

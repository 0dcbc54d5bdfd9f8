"""Layers that are one operation."""

from nn.operation import Operation
from nn.value import Node, Value


def direct(operation: Operation, x: Value, *others: Value) -> Node:
    """Apply the operation of a layer. An error does not name the operation: the layer's name stands in front of it."""
    try:
        return x.apply(operation, *others)
    except ValueError as error:
        raise ValueError(str(error).removeprefix(f"{type(operation).__name__}: ")) from error

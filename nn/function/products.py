"""Sums of products over several axes."""

from collections.abc import Sequence

from nn.arrays import BATCH
from nn.operation import TensorDot
from nn.value import Node, Operand, Value, as_value


def tensordot(a: Operand, b: Operand, axes: int | Sequence[int | Sequence[int]] = 1) -> Node:
    """Return the sum of products over some axes of a and b; b has no batch axis, and that of a stays.

    `axes` is a number n, for the last n axes of a and the first n of b, or a pair: the axes of a, and those of b in the same
    order, each a list or one number. What is left of a stands before what is left of b. Raises TypeError or ValueError for
    axes that do not exist, are named twice or differ in number, and for lengths that differ.
    """
    first, second = as_value(a), as_value(b)
    if not isinstance(axes, (list, tuple)):
        return first.apply(TensorDot(axes), second)  # type: ignore[arg-type]
    if len(axes) != 2:
        raise ValueError(f"tensordot 'axes' must be a number or a pair, the axes of a and those of b, got {axes!r}")
    left, right = (_named(value, given) for value, given in zip((first, second), axes, strict=True))
    if len(left) != len(right):
        raise ValueError(f"tensordot 'axes' must name equally many axes of a and of b, got {axes!r}")
    first = _ordered(first, [axis for axis in range(len(first.shape)) if axis not in left] + left)
    second = _ordered(second, right + [axis for axis in range(len(second.shape)) if axis not in right])
    return first.apply(TensorDot(len(left)), second)


def _named(value: Value, given: int | Sequence[int]) -> list[int]:
    """Return the axes of a value that are named, counted from the front."""
    rank, found = len(value.shape), []
    for axis in given if isinstance(given, (list, tuple)) else [given]:
        if isinstance(axis, bool) or not isinstance(axis, int):
            raise TypeError(f"tensordot 'axes' must hold integers, got {given!r}")
        if not -rank <= axis < rank or value.shape[axis] == BATCH:
            raise ValueError(f"tensordot 'axes' must name axes of shape {value.shape} other than the batch, got {given!r}")
        found.append(axis % rank)
    if not found or len(set(found)) != len(found):
        raise ValueError(f"tensordot 'axes' must name different axes of shape {value.shape}, got {given!r}")
    return found


def _ordered(value: Value, order: list[int]) -> Value:
    return value if order == sorted(order) else value.transpose(order)

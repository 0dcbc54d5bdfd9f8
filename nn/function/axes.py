"""Functions over axes: reductions, other shapes, and arrays side by side."""

from collections.abc import Sequence

from nn.operation import Concatenate
from nn.value import Node, Operand, Value, as_value
from nn.value.value import Axes


def sum(x: Operand, axis: Axes = None, keepdims: bool = False) -> Node:
    """Return the sum over one, several or all axes."""
    return as_value(x).sum(axis, keepdims)


def mean(x: Operand, axis: Axes = None, keepdims: bool = False) -> Node:
    """Return the mean over one, several or all axes."""
    return as_value(x).mean(axis, keepdims)


def max(x: Operand, axis: Axes = None, keepdims: bool = False) -> Node:
    """Return the greatest element over one, several or all axes; equal ones share its gradient."""
    return as_value(x).max(axis, keepdims)


def min(x: Operand, axis: Axes = None, keepdims: bool = False) -> Node:
    """Return the least element over one, several or all axes; equal ones share its gradient."""
    return as_value(x).min(axis, keepdims)


def reshape(x: Operand, shape: Sequence[int]) -> Node:
    """Return the same elements in another shape; one axis may be -1."""
    return as_value(x).reshape(*shape)


def transpose(x: Operand, axes: Sequence[int] = ()) -> Node:
    """Return the same elements with the axes in this order; without axes, in the reverse order."""
    return as_value(x).transpose(*axes)


def swapaxes(x: Operand, first: int, second: int) -> Node:
    """Return the same elements with two axes exchanged."""
    return as_value(x).swapaxes(first, second)


def concatenate(values: Sequence[Operand], axis: int = -1) -> Node:
    """Return the values joined along an axis, which is not the batch; their other axes are equal."""
    first, *others = _several("concatenate", values)
    return first.apply(Concatenate(axis), *others)


def stack(values: Sequence[Operand], axis: int = -1) -> Node:
    """Return values of equal shape joined along a new axis, which stands at this place of the result."""
    found = _several("stack", values)
    shape = found[0].shape
    rank = len(shape) + 1
    if not -rank <= axis < rank:
        raise ValueError(f"stack: axis {axis} does not exist in a result of {rank} axes")
    place = axis % rank
    for value in found:
        if value.shape != shape:
            raise ValueError(f"stack: values must have equal shapes, got {shape} and {value.shape}")
    return concatenate([value.reshape(*shape[:place], 1, *shape[place:]) for value in found], place)


def _several(name: str, values: Sequence[Operand]) -> list[Value]:
    if not isinstance(values, (list, tuple)) or not values:
        raise TypeError(f"{name}: expected a list of values, got {values!r}")
    return [as_value(value) for value in values]

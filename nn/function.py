"""Functions on the values of a graph, named as in NumPy.

Everything that takes one value is also a method or an operator of it (`x.exp()`, `x.sum(axis=1)`, `x[:, 1:]`, `x > 0`); what
joins several is here only. Numbers and arrays may stand for values.

>>> y = nn.function.where(x > 0, x, nn.function.exp(x) - 1)     # doctest: +SKIP
"""

from collections.abc import Sequence

from nn.operation import Compare, Concatenate, Maximum, Minimum, Square, TensorDot, Where
from nn.value import Node, Operand, Value, as_value
from nn.value.value import Axes


def exp(x: Operand) -> Node:
    """Return e ** x."""
    return as_value(x).exp()


def log(x: Operand) -> Node:
    """Return the natural logarithm of positive x."""
    return as_value(x).log()


def sqrt(x: Operand) -> Node:
    """Return the square root."""
    return as_value(x).sqrt()


def square(x: Operand) -> Node:
    """Return x * x, with one product instead of two in backward."""
    return as_value(x).apply(Square())


def absolute(x: Operand) -> Node:
    """Return |x|; the derivative at 0 is taken as 0."""
    return as_value(x).abs()


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


def maximum(a: Operand, b: Operand) -> Node:
    """Return the greater of two elements in every place; where they are equal the gradient is a's."""
    return as_value(a).apply(Maximum(), as_value(b))


def minimum(a: Operand, b: Operand) -> Node:
    """Return the lesser of two elements in every place; where they are equal the gradient is a's."""
    return as_value(a).apply(Minimum(), as_value(b))


def where(condition: Operand, a: Operand, b: Operand) -> Node:
    """Return a where the condition is not 0, else b. What is not chosen may be infinite or NaN."""
    return as_value(a).apply(Where(), as_value(b), as_value(condition))


def equal(a: Operand, b: Operand) -> Node:
    """Return the mask of equal elements: 1 or 0, without gradient."""
    return as_value(a).apply(Compare("=="), as_value(b))


def not_equal(a: Operand, b: Operand) -> Node:
    """Return the mask of different elements: 1 or 0, without gradient."""
    return as_value(a).apply(Compare("!="), as_value(b))


def tensordot(a: Operand, b: Operand, axes: int = 1) -> Node:
    """Return the sum of products over the last `axes` axes of a and the first of b, which has no batch axis."""
    return as_value(a).apply(TensorDot(axes), as_value(b))


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

"""Functions on the values of a graph, named as in NumPy.

Everything that takes one value is also a method or an operator of it (`x.exp()`, `x.sum(axis=1)`, `x[:, 1:]`, `x > 0`);
functions of several values, and convolution, pooling and lookup, are here only. Numbers, arrays and lists of numbers may
stand for values.

>>> x = nn.Placeholder([-1, 3])
>>> nn.function.where(x > 0, x, nn.function.exp(x) - 1).shape
(-1, 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from nn import arguments
from nn.arrays import BATCH
from nn.lazy import unknown
from nn.operation.arithmetic import Compare, Maximum, Minimum, Where
from nn.operation.convolution import window
from nn.operation.convolution.operation import Convolution
from nn.operation.convolution.window import Padding
from nn.operation.elementwise import Square, StopGradient
from nn.operation.index import Lookup
from nn.operation.matmul import TensorDot
from nn.operation.noise import NormalDraw
from nn.operation.normal import Erf
from nn.operation.pooling import Pool, PoolAverage, PoolMax
from nn.operation.shape import Concatenate
from nn.operation.trigonometric import (
    Arccos,
    Arccosh,
    Arcsin,
    Arcsinh,
    Arctan,
    Arctanh,
    Cos,
    Cosh,
    Sin,
    Sinh,
    Tan,
)
from nn.value.value import Axes, Node, Operand, Value, as_value

__all__ = [
    "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "average_pool", "concatenate", "convolution",
    "cos", "cosh", "equal", "erf", "exp", "log", "lookup", "max", "max_pool", "maximum", "mean", "min", "minimum", "normal",
    "not_equal", "reshape", "sin", "sinh", "sqrt", "square", "stack", "stop_gradient", "sum", "swapaxes", "tan", "tensordot",
    "transpose", "where",
]  # fmt: skip

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise unknown(__name__, name)


def exp(x: Operand) -> Node:
    """Return e ** x."""
    return as_value(x).exp()


def log(x: Operand) -> Node:
    """Return the natural logarithm of positive x."""
    return as_value(x).log()


def sqrt(x: Operand) -> Node:
    """Return the square root of each element of x."""
    return as_value(x).sqrt()


def square(x: Operand) -> Node:
    """Return x * x, with one product instead of two in backward."""
    return as_value(x).apply(Square())


def absolute(x: Operand) -> Node:
    """Return |x|; the derivative at 0 is taken as 0."""
    return as_value(x).abs()


def sin(x: Operand) -> Node:
    """Return the sine of each element of x, an angle in radians."""
    return as_value(x).apply(Sin())


def cos(x: Operand) -> Node:
    """Return the cosine of each element of x, an angle in radians."""
    return as_value(x).apply(Cos())


def tan(x: Operand) -> Node:
    """Return the tangent of each element of x, an angle in radians."""
    return as_value(x).apply(Tan())


def arcsin(x: Operand) -> Node:
    """Return the angle in radians, between -pi / 2 and pi / 2, of which each element of x, from -1 to 1, is the sine."""
    return as_value(x).apply(Arcsin())


def arccos(x: Operand) -> Node:
    """Return the angle in radians, between 0 and pi, of which each element of x, from -1 to 1, is the cosine."""
    return as_value(x).apply(Arccos())


def arctan(x: Operand) -> Node:
    """Return the angle in radians, between -pi / 2 and pi / 2, of which each element of x is the tangent."""
    return as_value(x).apply(Arctan())


def sinh(x: Operand) -> Node:
    """Return the hyperbolic sine of each element of x."""
    return as_value(x).apply(Sinh())


def cosh(x: Operand) -> Node:
    """Return the hyperbolic cosine of each element of x."""
    return as_value(x).apply(Cosh())


def arcsinh(x: Operand) -> Node:
    """Return the number of which each element of x is the hyperbolic sine."""
    return as_value(x).apply(Arcsinh())


def arccosh(x: Operand) -> Node:
    """Return the number, at least 0, of which each element of x, from 1 on, is the hyperbolic cosine."""
    return as_value(x).apply(Arccosh())


def arctanh(x: Operand) -> Node:
    """Return the number of which each element of x, from -1 to 1, is the hyperbolic tangent."""
    return as_value(x).apply(Arctanh())


def erf(x: Operand) -> Node:
    """Return the error function of each element of x."""
    return as_value(x).apply(Erf())


def maximum(a: Operand, b: Operand) -> Node:
    """Return the greater element of a and b in every place.

    Args:
        a: value, array or number, of a shape that broadcasts to that of b.
        b: the other; in places where both are equal, each gets half of the gradient.
    """
    return as_value(a).apply(Maximum(), as_value(b))


def minimum(a: Operand, b: Operand) -> Node:
    """Return the lesser element of a and b in every place.

    Args:
        a: value, array or number, of a shape that broadcasts to that of b.
        b: the other; in places where both are equal, each gets half of the gradient.
    """
    return as_value(a).apply(Minimum(), as_value(b))


def where(condition: Operand, a: Operand, b: Operand) -> Node:
    """Return a where the condition is not 0, else b. Elements that are not chosen may be infinite or NaN.

    Args:
        condition: value, array or number, of a shape that broadcasts to those of a and b; it gets no gradient.
        a: the elements where the condition holds.
        b: the elements elsewhere.
    """
    # The condition comes last: it has no gradient, and in place the result takes the memory of a.
    return as_value(a).apply(Where(), as_value(b), as_value(condition))


def equal(a: Operand, b: Operand) -> Node:
    """Return the mask of the places in which two operands are equal: 1 or 0, without gradient.

    Args:
        a, b: values, arrays or numbers.
    """
    return as_value(a).apply(Compare("=="), as_value(b))


def not_equal(a: Operand, b: Operand) -> Node:
    """Return the mask of the places in which two operands differ: 1 or 0, without gradient.

    Args:
        a, b: values, arrays or numbers.
    """
    return as_value(a).apply(Compare("!="), as_value(b))


def stop_gradient(x: Operand) -> Node:
    """Return the elements of x as if they were data: no gradient goes back to x through them."""
    return as_value(x).apply(StopGradient())


def sum(x: Operand, axis: Axes = None, keepdims: bool = False) -> Node:
    """Return the sum over one, several or all axes.

    Args:
        x: value, array or number.
        axis: an axis or several, counted from the end where negative; None: all.
        keepdims: whether the axes stay, with length 1.
    """
    return as_value(x).sum(axis, keepdims)


def mean(x: Operand, axis: Axes = None, keepdims: bool = False) -> Node:
    """Return the mean over one, several or all axes.

    Args:
        x, axis, keepdims: as of `sum`.
    """
    return as_value(x).mean(axis, keepdims)


def max(x: Operand, axis: Axes = None, keepdims: bool = False) -> Node:
    """Return the greatest element over one, several or all axes; equal ones share its gradient.

    Args:
        x, axis, keepdims: as of `sum`.
    """
    return as_value(x).max(axis, keepdims)


def min(x: Operand, axis: Axes = None, keepdims: bool = False) -> Node:
    """Return the least element over one, several or all axes; equal ones share its gradient.

    Args:
        x, axis, keepdims: as of `sum`.
    """
    return as_value(x).min(axis, keepdims)


def reshape(x: Operand, shape: Sequence[int]) -> Node:
    """Return the same elements in another shape.

    Args:
        x: value, array or number.
        shape: the shape, of as many elements; one axis may be -1 and takes the rest.
    """
    return as_value(x).reshape(*shape)


def transpose(x: Operand, axes: Sequence[int] = ()) -> Node:
    """Return the elements of x with its axes in another order.

    Args:
        x: value, array or number.
        axes: all axes in their new order; without them, in the reverse order.
    """
    return as_value(x).transpose(*axes)


def swapaxes(x: Operand, first: int, second: int) -> Node:
    """Return the same elements with two axes exchanged.

    Args:
        x: value, array or number.
        first, second: the axes, counted from the end where negative.
    """
    return as_value(x).swapaxes(first, second)


def normal(x: Operand) -> Node:
    """Return normal draws of mean 0 and deviation 1 in the shape of x: new ones in each step of training, zeros otherwise.

    They are keyed by seed, epoch, batch, block and their place in the graph, as the masks of dropout are, and have no
    gradient. A variational autoencoder samples by them; outside training it takes the mean.

    >>> mean, log_variance = nn.Placeholder([-1, 2]), nn.Placeholder([-1, 2])
    >>> (mean + nn.function.exp(log_variance * 0.5) * nn.function.normal(mean)).shape
    (-1, 2)
    """
    return as_value(x).apply(NormalDraw())


def concatenate(values: Sequence[Operand], axis: int = -1) -> Node:
    """Return the values joined along an axis, which is not the batch; their other axes are equal.

    Args:
        values: list or tuple of values, arrays or numbers.
        axis: counted from the end where negative.
    """
    first, *others = _several("concatenate", values)
    return first.apply(Concatenate(axis), *others)


def stack(values: Sequence[Operand], axis: int = -1) -> Node:
    """Return values of equal shape joined along a new axis.

    Args:
        values: list or tuple of values, arrays or numbers.
        axis: place of the new axis in the result, counted from the end where negative.
    """
    found = _several("stack", values)
    shape = found[0].shape
    rank = len(shape) + 1
    if not -rank <= axis < rank:
        raise ValueError(f"stack: axis {axis} does not exist in a result of {rank} axes")
    place = axis % rank
    for value in found:
        if value.shape != shape:
            raise ValueError(f"stack: values must have equal shapes, got {shape} and {value.shape}")
    # A new axis of length 1, along which they are joined.
    return concatenate([value.reshape(*shape[:place], 1, *shape[place:]) for value in found], place)


def _several(name: str, values: Sequence[Operand]) -> list[Value]:
    if not isinstance(values, (list, tuple)) or not values:
        raise TypeError(f"{name}: expected a list of values, got {values!r}")
    return [as_value(value) for value in values]


def tensordot(a: Operand, b: Operand, axes: int | Sequence[int | Sequence[int]] = 1) -> Node:
    """Return the sum of products over some axes of two operands.

    The axes left of a stand before those left of b. Raises TypeError or ValueError for axes that do not exist, are named twice
    or differ in number, and for lengths that differ.

    Args:
        a: the first one; its batch axis stays.
        b: the second one, which has no batch axis.
        axes: a number n, for the last n axes of a and the first n of b, or a pair: the axes of a, and those of b in the same
            order, each a list or one number.
    """
    first, second = as_value(a), as_value(b)
    if not isinstance(axes, (list, tuple)):
        return first.apply(TensorDot(axes), second)  # type: ignore[arg-type]
    if len(axes) != 2:
        raise ValueError(f"tensordot 'axes' must be a number or a pair, the axes of a and those of b, got {axes!r}")
    left, right = (_named(value, given) for value, given in zip((first, second), axes, strict=True))
    if len(left) != len(right):
        raise ValueError(f"tensordot 'axes' must name equally many axes of a and of b, got {axes!r}")
    # The contracted axes come last in a and first in b, as `TensorDot` takes them.
    first = _ordered(first, [axis for axis in range(len(first.shape)) if axis not in left] + left)
    second = _ordered(second, right + [axis for axis in range(len(second.shape)) if axis not in right])
    return first.apply(TensorDot(len(left)), second)


def _named(value: Value, given: int | Sequence[int]) -> list[int]:
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
    # No copy where the axes stand in this order already.
    return value if order == sorted(order) else value.transpose(order)


def lookup(ids: Operand, table: Operand) -> Node:
    """Return table[ids], as `Embedding` does.

    The output has the shape (batch, ..., features). Raises ValueError for a table of another rank and, when it is computed, for
    other ids.

    Args:
        ids: whole numbers from 0 to rows - 1 (batch, ...), which have no gradient.
        table: (rows, features).

    >>> nn.function.lookup(nn.Placeholder([-1, 5]), nn.Variable([100, 16])).shape
    (-1, 5, 16)
    """
    return as_value(ids).apply(Lookup(), as_value(table))


def convolution(
    x: Operand,
    kernel: Operand,
    bias: Operand | None = None,
    stride: int | Sequence[int] = 1,
    padding: Padding = "valid",
    groups: int = 1,
) -> Node:
    """Return the convolution of images or sequences with a kernel, plus a bias for each filter, as `Conv2D` and `Conv1D` do.

    Shapes: x (batch, height, width, channels), kernel (kh, kw, channels / groups, filters), bias (filters,), output (batch,
    height', width', filters); or (batch, time, channels), (k, channels / groups, filters), (filters,), (batch, time', filters).

    Args:
        x: images or sequences.
        kernel: weights of the filters.
        bias: added to each filter; default: none.
        stride: step from one place to the next, a number for all axes or one for each.
        padding: 'valid', 'same', or a number of zeros on every side.
        groups: number of groups of channels, each with filters of its own; it divides channels and filters.

    Raises TypeError or ValueError for arguments and shapes that do not fit.

    >>> image, kernel = nn.Placeholder([-1, 28, 28, 1]), nn.Variable([3, 3, 1, 8])
    >>> nn.function.convolution(image, kernel, padding="same", stride=2).shape
    (-1, 14, 14, 8)
    """
    value = as_value(x)
    axes = window.axes_of("convolution", value.shape)
    strides = window.lengths("convolution", "stride", stride, axes)
    groups = arguments.integer("convolution", "groups", groups, minimum=1)
    operation = Convolution(strides, window.padding("convolution", padding), groups)
    return value.apply(operation, *(as_value(given) for given in (kernel, bias) if given is not None))


def max_pool(
    x: Operand, size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: Padding = "valid"
) -> Node:
    """Return the greatest number of each window of images or sequences, as `MaxPool` does; its first place gets the gradient.

    Args:
        x: (batch, height, width, channels), which becomes (batch, height', width', channels), or (batch, time, channels), which
            becomes (batch, time', channels).
        size: cells of a window, a number for all axes or one for each.
        stride: step from window to window; by default their size.
        padding: 'valid', 'same', or a number of cells on every side, which do not count.

    Raises TypeError or ValueError for arguments and shapes that do not fit.

    >>> nn.function.max_pool(nn.Placeholder([-1, 28, 28, 8])).shape
    (-1, 14, 14, 8)
    """
    return _pool("max_pool", PoolMax, x, size, stride, padding)


def average_pool(
    x: Operand, size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: Padding = "valid"
) -> Node:
    """Return the mean of each window of images or sequences, as `AveragePool` does.

    The shapes are those of `max_pool`.

    Args:
        x, size, stride, padding: as of `max_pool`.

    >>> nn.function.average_pool(nn.Placeholder([-1, 100, 8]), 5, stride=2).shape
    (-1, 48, 8)
    """
    return _pool("average_pool", PoolAverage, x, size, stride, padding)


def _pool(
    name: str,
    kind: type[Pool],
    x: Operand,
    size: int | Sequence[int],
    stride: int | Sequence[int] | None,
    padding: Padding,
) -> Node:
    value = as_value(x)
    axes = window.axes_of(name, value.shape)
    sizes = window.lengths(name, "size", size, axes)
    # Side by side, as in `MaxPool`.
    strides = sizes if stride is None else window.lengths(name, "stride", stride, axes)
    return value.apply(kind(sizes, strides, window.padding(name, padding)))

"""Functions of single elements."""

from nn.operation import Compare, Maximum, Minimum, Square, Where
from nn.value import Node, Operand, as_value


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


def maximum(a: Operand, b: Operand) -> Node:
    """Return the greater of two elements in every place; where they are equal each gets half of the gradient."""
    return as_value(a).apply(Maximum(), as_value(b))


def minimum(a: Operand, b: Operand) -> Node:
    """Return the lesser of two elements in every place; where they are equal each gets half of the gradient."""
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

"""Functions on the values of a graph, named as in NumPy.

Everything that takes one value is also a method or an operator of it (`x.exp()`, `x.sum(axis=1)`, `x[:, 1:]`, `x > 0`); what
joins several, and convolution, pooling and lookup, are here only. Numbers, arrays and lists of numbers may stand for values.

>>> x = nn.Placeholder([-1, 3])
>>> nn.function.where(x > 0, x, nn.function.exp(x) - 1).shape
(-1, 3)
"""

from nn.function.arithmetic import absolute, equal, exp, log, maximum, minimum, not_equal, sqrt, square, where
from nn.function.axes import concatenate, max, mean, min, reshape, stack, sum, swapaxes, transpose
from nn.function.products import tensordot
from nn.function.tables import lookup
from nn.function.windows import average_pool, convolution, max_pool

__all__ = [
    "absolute",
    "average_pool",
    "concatenate",
    "convolution",
    "equal",
    "exp",
    "log",
    "lookup",
    "max",
    "max_pool",
    "maximum",
    "mean",
    "min",
    "minimum",
    "not_equal",
    "reshape",
    "sqrt",
    "square",
    "stack",
    "sum",
    "swapaxes",
    "tensordot",
    "transpose",
    "where",
]

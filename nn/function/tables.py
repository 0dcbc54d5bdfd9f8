"""Rows of a table by their numbers."""

from nn.operation import Lookup
from nn.value import Node, Operand, as_value


def lookup(ids: Operand, table: Operand) -> Node:
    """Return table[ids], as `Embedding` does: ids (batch, ...), table (rows, features), output (batch, ..., features).

    Ids are whole numbers from 0 to rows - 1 and have no gradient. Raises ValueError for a table of another rank and, when it
    is computed, for other ids.

    >>> nn.function.lookup(nn.Placeholder([-1, 5]), nn.Variable([100, 16])).shape
    (-1, 5, 16)
    """
    return as_value(ids).apply(Lookup(), as_value(table))

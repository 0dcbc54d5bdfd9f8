"""Parts of a graph: placeholders, variables, constants and nodes."""

from nn.value.graph import Graph, Input, Placeholder
from nn.value.store import Buffer, VariableStore
from nn.value.value import Constant, Node, Operand, Value, Variable, as_value

__all__ = [
    "Buffer",
    "Constant",
    "Graph",
    "Input",
    "Node",
    "Operand",
    "Placeholder",
    "Value",
    "Variable",
    "VariableStore",
    "as_value",
]

"""What a graph is made of: placeholders, variables, constants and nodes."""

from nn.value.buffer import Buffer
from nn.value.placeholder import Placeholder
from nn.value.store import VariableStore
from nn.value.value import Constant, Node, Operand, Value, as_value
from nn.value.variable import Variable

__all__ = ["Buffer", "Constant", "Node", "Operand", "Placeholder", "Value", "Variable", "VariableStore", "as_value"]

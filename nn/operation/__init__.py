"""Differentiable operations on arrays. Users rarely name them: they come from the operators of values, `x @ w + b`."""

from nn.operation.add import Add
from nn.operation.broadcasting import Broadcasting
from nn.operation.divide import Divide
from nn.operation.matmul import MatMul
from nn.operation.multiply import Multiply
from nn.operation.negative import Negative
from nn.operation.operation import Mode, Operation
from nn.operation.power import Power
from nn.operation.reshape import Reshape
from nn.operation.subtract import Subtract

__all__ = [
    "Add", "Broadcasting", "Divide", "MatMul", "Mode", "Multiply", "Negative", "Operation", "Power", "Reshape", "Subtract",
]  # fmt: skip

"""Differentiable operations on arrays.

Users rarely name them: they come from the operators and methods of values, `x @ w + b`, and from `nn.function`.
"""

from nn.operation.absolute import Absolute
from nn.operation.add import Add
from nn.operation.attention import Attention
from nn.operation.batch_axis import batch_leads
from nn.operation.batch_normalize import BatchNormalize
from nn.operation.broadcasting import Broadcasting
from nn.operation.choice import Choice
from nn.operation.compare import Compare
from nn.operation.concatenate import Concatenate
from nn.operation.divide import Divide
from nn.operation.elementwise import Elementwise
from nn.operation.exp import Exp
from nn.operation.extremum import Extremum
from nn.operation.index import Entry, Index
from nn.operation.layer_normalize import LayerNormalize
from nn.operation.log import Log
from nn.operation.lookup import Lookup
from nn.operation.matmul import MatMul
from nn.operation.max import Max
from nn.operation.maximum import Maximum
from nn.operation.mean import Mean
from nn.operation.min import Min
from nn.operation.minimum import Minimum
from nn.operation.multiply import Multiply
from nn.operation.negative import Negative
from nn.operation.operation import Mode, Operation
from nn.operation.power import Power
from nn.operation.reduction import Reduction
from nn.operation.reshape import Reshape
from nn.operation.sqrt import Sqrt
from nn.operation.square import Square
from nn.operation.subtract import Subtract
from nn.operation.sum import Sum
from nn.operation.tensor_dot import TensorDot
from nn.operation.transpose import Transpose
from nn.operation.where import Where

__all__ = [
    "Absolute", "Add", "Attention", "BatchNormalize", "Broadcasting", "Choice", "Compare", "Concatenate", "Divide",
    "Elementwise", "Entry", "Exp", "Extremum", "Index", "LayerNormalize", "Log", "Lookup", "MatMul", "Max", "Maximum",
    "Mean", "Min", "Minimum", "Mode", "Multiply", "Negative", "Operation", "Power", "Reduction", "Reshape", "Sqrt",
    "Square", "Subtract", "Sum", "TensorDot", "Transpose", "Where", "batch_leads",
]  # fmt: skip

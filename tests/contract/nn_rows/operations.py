"""The operations."""

from nn import operation
from nn.layer.dropout import DropoutOperation
from tests.contract.nn_rows.graph_row import GraphRow, positive, with_variable

OPERATIONS = [
    GraphRow(operation.Add, with_variable(lambda x, w: x + w, [4]), (3, 4), lambda x, w: x + w, label="row"),
    GraphRow(operation.Add, with_variable(lambda x, w: w + x, [3, 1]), (3, 4), lambda x, w: x + w, label="column"),
    GraphRow(operation.Add, with_variable(lambda x, w: x + w, [3, 4]), (1, 4), lambda x, w: x + w, label="both sides"),
    GraphRow(operation.Subtract, with_variable(lambda x, w: x - w, [4]), (4,), lambda x, w: x - w),
    GraphRow(operation.Subtract, with_variable(lambda x, w: w - x, [3, 1]), (3, 4), lambda x, w: w - x, label="swapped"),
    GraphRow(operation.Multiply, with_variable(lambda x, w: x * w, [1, 4]), (4,), lambda x, w: x * w),
    GraphRow(operation.Multiply, with_variable(lambda x, w: x * w * x, [4]), (4,), lambda x, w: x * w * x, label="shared"),
    GraphRow(operation.Divide, with_variable(lambda x, w: x / w, [4]), (4,), lambda x, w: x / w),
    GraphRow(operation.Divide, with_variable(lambda x, w: w / x, [3, 1]), (3, 4), lambda x, w: w / x, positive, "swapped"),
    GraphRow(operation.Power, with_variable(lambda x, w: x**w, [4]), (4,), lambda x, w: x**w, positive),
    GraphRow(operation.Power, with_variable(lambda x, w: w**x, [4]), (4,), lambda x, w: w**x, label="swapped"),
    GraphRow(operation.Power, lambda: lambda x: x**3, (4,), lambda x: x * x * x, label="constant"),
    GraphRow(operation.Negative, lambda: lambda x: -x, (4,), lambda x: -x),
    GraphRow(operation.Negative, lambda: lambda x: -(x * x), (4,), lambda x: -(x * x), label="in place"),
    GraphRow(operation.MatMul, with_variable(lambda x, w: x @ w, [4, 2]), (4,), lambda x, w: x @ w),
    GraphRow(operation.MatMul, with_variable(lambda x, w: x @ w, [4, 2]), (3, 4), lambda x, w: x @ w, label="rows of rows"),
    GraphRow(operation.MatMul, with_variable(lambda x, w: x @ w, [1, 4, 2]), (3, 4), lambda x, w: x @ w, label="stack"),
    GraphRow(operation.MatMul, with_variable(lambda x, w: w @ x, [2, 3]), (3, 4), lambda x, w: w @ x, label="left"),
    GraphRow(operation.MatMul, lambda: lambda x: x @ (x * 2), (3, 3), lambda x: x @ (x * 2), label="both"),
    GraphRow(operation.Reshape, lambda: lambda x: x.reshape(-1, 6), (2, 3), lambda x: x.reshape(-1, 6)),
    GraphRow(operation.Reshape, lambda: lambda x: (-x).reshape(-1, 3), (2, 3), lambda x: -x.reshape(-1, 3), label="in place"),
    GraphRow(DropoutOperation, lambda: lambda x: DropoutOperation(0.4)(x), (7,), None),
]  # fmt: skip

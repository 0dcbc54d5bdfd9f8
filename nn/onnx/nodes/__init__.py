"""Operators of ONNX as layers and operations of nn, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nn import activation, function, operation
from nn import layer as layer
from nn.arrays import BATCH as BATCH
from nn.arrays import LENGTH as LENGTH
from nn.arrays import Array as Array
from nn.onnx.axes import Order as Order
from nn.onnx.axes import channels_first as channels_first
from nn.onnx.axes import channels_last as channels_last
from nn.onnx.axes import inverse as inverse
from nn.onnx.builder import Operand as Operand
from nn.onnx.call import Call as Call
from nn.onnx.call import Read
from nn.onnx.folding import Unknown as Unknown
from nn.onnx.folding import bounded as bounded
from nn.onnx.folding import integers as integers
from nn.onnx.folding import slices as slices
from nn.onnx.folding import split_sizes as split_sizes
from nn.onnx.messages import BOOL as BOOL
from nn.onnx.messages import DOUBLE as DOUBLE
from nn.onnx.messages import FLOAT as FLOAT
from nn.onnx.messages import FLOAT16 as FLOAT16
from nn.onnx.nodes.cells import recurrent
from nn.onnx.nodes.elements import (
    applied,
    cast,
    choice,
    clip,
    function_of,
    hard_sigmoid,
    leaky,
    mean_of,
    pairs,
    power,
    prelu,
    same,
    selu,
)
from nn.onnx.nodes.shapes import (
    beside,
    cut_out,
    expand,
    flatten,
    over_places,
    permuted,
    reduction,
    reshaped,
    split,
    squeeze,
    tile,
    unsqueeze,
)
from nn.onnx.nodes.weights import batch_norm, gather, gemm, group_norm, layer_norm, matmul, softmax
from nn.onnx.nodes.windows import convolved, depth_to_space, pad, pool, resize, space_to_depth, transposed
from nn.operation.convolution.window import place as place
from nn.operation.operation import Operation as Operation
from nn.value.value import Value as Value
from nn.value.value import as_value as as_value

NODES: Mapping[str, Read] = MappingProxyType({
    "Abs": function_of(lambda given: operation.Absolute()),
    "Add": applied(operation.Add),
    "And": applied(operation.Multiply),
    "AveragePool": pool(operation.PoolAverage),
    "BatchNormalization": batch_norm,
    "Cast": cast,
    "Clip": clip,
    "Concat": beside,
    "Conv": convolved,
    "ConvTranspose": transposed,
    "DepthToSpace": depth_to_space,
    "Div": applied(operation.Divide),
    "Dropout": same,
    "Elu": function_of(lambda given: activation.ELU(float(given.get("alpha", 1.0)))),
    "Equal": pairs(function.equal),
    "Exp": function_of(lambda given: operation.Exp()),
    "Expand": expand,
    "Flatten": flatten,
    "GRU": recurrent,
    "Gather": gather,
    "Gelu": function_of(lambda given: activation.GELU(given.get("approximate", "none") == "tanh")),
    "Gemm": gemm,
    "GlobalAveragePool": over_places(operation.Mean),
    "GlobalMaxPool": over_places(operation.Max),
    "Greater": pairs(lambda a, b: a > b),
    "GreaterOrEqual": pairs(lambda a, b: a >= b),
    "GroupNormalization": group_norm,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": function_of(lambda given: activation.HardSwish()),
    "Identity": same,
    "InstanceNormalization": group_norm,
    "LSTM": recurrent,
    "LayerNormalization": layer_norm,
    "LeakyRelu": leaky,
    "Less": pairs(lambda a, b: a < b),
    "LessOrEqual": pairs(lambda a, b: a <= b),
    "Log": function_of(lambda given: operation.Log()),
    "LogSoftmax": softmax(activation.LogSoftmax),
    "MatMul": matmul,
    "Max": applied(operation.Maximum),
    "MaxPool": pool(operation.PoolMax),
    "Mean": mean_of,
    "Min": applied(operation.Minimum),
    "Mish": function_of(lambda given: activation.Mish()),
    "Mul": applied(operation.Multiply),
    "Neg": function_of(lambda given: operation.Negative()),
    "Not": lambda call: call.builder.orders.through(call.value(0), lambda x: function.equal(x, 0)),
    "Or": applied(operation.Maximum),
    "PRelu": prelu,
    "Pad": pad,
    "Pow": power,
    "RNN": recurrent,
    "Reciprocal": lambda call: call.builder.orders.through(call.value(0), lambda x: 1 / x),
    "ReduceL1": reduction(operation.Sum, "absolute"),
    "ReduceL2": reduction(operation.Sum, "square", "root"),
    "ReduceMax": reduction(operation.Max),
    "ReduceMean": reduction(operation.Mean),
    "ReduceMin": reduction(operation.Min),
    "ReduceSum": reduction(operation.Sum),
    "ReduceSumSquare": reduction(operation.Sum, "square"),
    "Relu": function_of(lambda given: activation.ReLU()),
    "Reshape": reshaped,
    "Resize": resize,
    "Selu": selu,
    "Sigmoid": function_of(lambda given: activation.Sigmoid()),
    "Slice": cut_out,
    "Softmax": softmax(activation.Softmax),
    "Softplus": function_of(lambda given: activation.Softplus()),
    "Softsign": function_of(lambda given: activation.Softsign()),
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Sqrt": function_of(lambda given: operation.Sqrt()),
    "Squeeze": squeeze,
    "Sub": applied(operation.Subtract),
    "Sum": applied(operation.Add),
    "Tanh": function_of(lambda given: activation.Tanh()),
    "Tile": tile,
    "Transpose": permuted,
    "Unsqueeze": unsqueeze,
    "Upsample": resize,
    "Where": choice,
    "Xor": pairs(function.not_equal),
})  # fmt: skip
"""Readers of nodes, by the names of their operators."""

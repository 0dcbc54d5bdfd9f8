"""Operators of ONNX for each operation of nn, as `nn.onnx.save` writes them; `nn.onnx.nodes` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nn import operation
from nn.onnx.exporter import Convert, Exporter
from nn.onnx.operators.attention import attention, rotary
from nn.onnx.operators.cells import CELLS, recurrent
from nn.onnx.operators.elements import apply, choice, compare, pair
from nn.onnx.operators.shapes import beside, crop, index, permuted, reduce, reshaped, steps, take_along, top_places
from nn.onnx.operators.weights import batch_norm, drawn, encode, group_norm, layer_norm, rms_norm, rows_by_number, tensor_dot
from nn.onnx.operators.windows import convolved, pad, pool, repeat, transposed
from nn.operation.augmentation import Crop
from nn.operation.convolution import Convolution, RectifiedConvolution, TransposedConvolution
from nn.operation.encoding import Encode
from nn.operation.operation import Operation
from nn.value.value import Node


def convert(out: Exporter, node: Node) -> str:
    """Add the operators for a node and return the name of its result; raise ValueError for an operation of a user's own."""
    found = CONVERTERS.get(type(node.operation))
    if found is not None:
        return found(out, node, node.operation)
    if len(node.inputs) > 1:
        raise out.unknown(node.operation)
    return apply(out, node.operation, out.name(node.inputs[0]))


CONVERTERS: Mapping[type[Operation], Convert] = MappingProxyType({
    operation.Add: pair("Add"),
    operation.Attention: attention,
    operation.BatchNormalize: batch_norm,
    # A file keeps no positions from run to run: it begins with the first one, where this is `Attention(causal=True)`.
    operation.CachedAttention: attention,
    operation.Compare: compare,
    operation.Concatenate: beside,
    operation.Divide: pair("Div"),
    # A file predicts.
    operation.DropoutAttention: attention,
    operation.GroupNormalize: group_norm,
    operation.Index: index,
    operation.LayerNormalize: layer_norm,
    operation.Lookup: rows_by_number,
    operation.MatMul: lambda out, node, found: out.add("MatMul", *out.inputs(node)),
    operation.Max: reduce("ReduceMax"),
    operation.Maximum: pair("Max"),
    operation.Mean: reduce("ReduceMean"),
    operation.Min: reduce("ReduceMin"),
    operation.Minimum: pair("Min"),
    operation.Multiply: pair("Mul"),
    operation.NormalDraw: drawn,
    operation.Pad: pad,
    operation.ParametricRectify: pair("PRelu"),
    operation.PoolAverage: pool("AveragePool", count_include_pad=0),
    operation.PoolMax: pool("MaxPool"),
    operation.Power: pair("Pow"),
    operation.RMSNormalize: rms_norm,
    operation.Repeat: repeat,
    operation.Reshape: reshaped,
    operation.Rotary: rotary,
    operation.SplitSteps: steps,
    operation.Subtract: pair("Sub"),
    operation.Sum: reduce("ReduceSum"),
    operation.TakeAlong: take_along,
    operation.TensorDot: tensor_dot,
    operation.TopPlaces: top_places,
    operation.Transpose: permuted,
    operation.Where: choice,
    Convolution: convolved,
    Crop: crop,
    Encode: encode,
    RectifiedConvolution: convolved,
    TransposedConvolution: transposed,
    **dict.fromkeys(CELLS, recurrent),
})  # fmt: skip
"""Conversions of operations that need more than a name, or several values."""

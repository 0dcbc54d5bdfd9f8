"""Operators with weights, normalization, and rows by number."""

from __future__ import annotations

import math

import numpy as np

from nn import operation
from nn.onnx.axes import channels_first, channels_last
from nn.onnx.exporter import Exporter
from nn.onnx.messages import INT64
from nn.operation.encoding import Encode
from nn.value.value import Node


def tensor_dot(out: Exporter, node: Node, found: operation.TensorDot) -> str:
    a, b = node.inputs
    lead, summed = len(a.shape) - found.axes, math.prod(b.shape[: found.axes])
    x, matrix = out.name(a), out.name(b)
    # 0 stands for the length that the axis has: of batch and steps none is known.
    if found.axes > 1:
        x = out.add("Reshape", x, out.integers([*[0] * lead, summed]))
    if len(b.shape) != 2:
        matrix = out.add("Reshape", matrix, out.integers((summed, -1)))
    product = out.add("MatMul", x, matrix)
    rest = b.shape[found.axes :]
    return product if len(rest) == 1 and lead else out.add("Reshape", product, out.integers([*[0] * lead, *rest]))


def rows_by_number(out: Exporter, node: Node, found: operation.Lookup) -> str:
    ids, table = out.inputs(node)
    return out.add("Gather", table, out.add("Cast", ids, to=INT64), axis=0)


def encode(out: Exporter, node: Node, found: Encode) -> str:
    ids = out.add("Unsqueeze", out.name(node.inputs[0]), out.integers([2]))
    numbers = out.add("Range", *map(out.number, (0, found.count, 1)))
    rows = out.add("Cast", out.add("Equal", ids, numbers), to=out.elements)
    if found.mode == "one_hot":
        return rows
    return out.add("ReduceSum" if found.mode == "count" else "ReduceMax", rows, out.integers([1]), keepdims=0)


def drawn(out: Exporter, node: Node, found: operation.NormalDraw) -> str:
    shape = out.add("Shape", out.name(node.inputs[0]))
    return out.add("ConstantOfShape", shape, value=np.zeros(1, out.dtype))


def batch_norm(out: Exporter, node: Node, found: operation.BatchNormalize) -> str:
    # A mask, behind the five, counts in training only.
    x, *statistics = out.inputs(node)[:5]
    first = out.orders.turned(x, channels_first(len(node.shape)))
    given = {"epsilon": float(found.epsilon), "momentum": float(found.momentum)}
    return out.orders.turned(out.add("BatchNormalization", first, *statistics, **given), channels_last(len(node.shape)))


def layer_norm(out: Exporter, node: Node, found: operation.LayerNormalize) -> str:
    return out.add("LayerNormalization", *out.inputs(node), axis=-1, epsilon=float(found.epsilon))


def rms_norm(out: Exporter, node: Node, found: operation.RMSNormalize) -> str:
    x, scale = out.inputs(node)
    # `RMSNormalization` came with version 23 of the operators.
    mean = out.add("ReduceMean", out.add("Mul", x, x), out.integers([-1]), keepdims=1)
    root = out.add("Sqrt", out.add("Add", mean, out.number(found.epsilon)))
    return out.add("Mul", out.add("Div", x, root), scale)


def group_norm(out: Exporter, node: Node, found: operation.GroupNormalize) -> str:
    x, gamma, beta = out.inputs(node)
    first = out.orders.turned(x, channels_first(len(node.shape)))
    # Not `GroupNormalization`, which up to version 20 takes one number for each group and not for each channel.
    # The channels and places of a group are the places of one channel of another array.
    apart = out.add("Reshape", first, out.integers((0, found.groups, -1)))
    ones, zeros = out.tensor(np.ones(found.groups)), out.tensor(np.zeros(found.groups))
    made = out.add("InstanceNormalization", apart, ones, zeros, epsilon=float(found.epsilon))
    back = out.add("Reshape", made, out.add("Shape", first))
    normal = out.orders.turned(back, channels_last(len(node.shape)))
    return out.add("Add", out.add("Mul", normal, gamma), beta)

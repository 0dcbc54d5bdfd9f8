"""Operators with weights and over rows: products, tables, normalisation and softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nn import function, layer, operation
from nn.arrays import BATCH, LENGTH, Array
from nn.onnx.axes import channels_first, channels_last, inverse
from nn.onnx.builder import Operand
from nn.onnx.call import Call, Read
from nn.onnx.folding import bounded
from nn.onnx.nodes.shapes import reduced
from nn.onnx.nodes.windows import back
from nn.operation.operation import Operation
from nn.value.value import Value


def matmul(call: Call) -> Operand:
    a, b = call.operand(0), call.operand(1)
    if not isinstance(a, Value) or isinstance(b, Value) or b.ndim != 2 or len(a.shape) < 2:
        return call.value(0) @ call.value(1)
    # A linear layer on more than two axes comes from torch as two nodes.
    bias, add = None, call.follower(call.node.output[0], "Add")
    if add is not None:
        others = [call.environment.get(name) for name in add.input if name != call.node.output[0]]
        if len(others) == 1 and isinstance(others[0], np.ndarray) and others[0].shape == b.shape[1:]:
            bias = others[0]
    made = _dense(call, b, bias, [b] if bias is None else [b, bias])
    if bias is not None and add is not None:
        call.take(add, made)
    return made


def _dense(call: Call, kernel: Array, bias: Array | None, sources: Sequence[Array]) -> Value:
    weights = {"kernel": kernel} if bias is None else {"kernel": kernel, "bias": bias}
    found = call.builder.layer(layer.Dense, weights, sources, units=kernel.shape[1], use_bias=bias is not None)
    made: Value = found(call.value(0))
    return made


def gemm(call: Call) -> Operand:
    alpha, beta = float(call.given.get("alpha", 1.0)), float(call.given.get("beta", 1.0))
    a, b = call.operand(0), call.operand(1)
    if isinstance(a, Value) and isinstance(b, np.ndarray) and not call.given.get("transA", 0):
        kernel, sources = b.T if call.given.get("transB", 0) else b, [b]
        kernel = kernel if alpha == 1 else kernel * np.asarray(alpha, kernel.dtype)
        if not call.has(2):
            return _dense(call, kernel, None, sources)
        c = call.operand(2)
        # A column has a number for each sample, and none for each unit.
        if isinstance(c, np.ndarray) and (c.size == 1 or (c.size == kernel.shape[1] == c.shape[-1])):
            bias = np.broadcast_to(c.reshape(-1), kernel.shape[1:]) * np.asarray(beta, c.dtype)
            return _dense(call, kernel, bias, [*sources, c])
    first, second = call.value(0), call.value(1)
    first = first.T if call.given.get("transA", 0) else first
    made = first @ (second.T if call.given.get("transB", 0) else second)
    made = made if alpha == 1 else made * alpha
    return made + call.value(2) * beta if call.has(2) else made


def batch_norm(call: Call) -> Operand:
    if call.given.get("training_mode", 0):
        raise call.refuse("'training_mode' must be 0", call.given["training_mode"])
    x = call.value(0)
    last = call.builder.orders.turned(x, channels_last(len(x.shape)))
    sources = [call.array(number) for number in range(1, 5)]
    weights = dict(zip(("gamma", "beta", "moving_mean", "moving_variance"), sources, strict=True))
    made = call.builder.layer(
        layer.BatchNorm, weights, sources, epsilon=float(call.given.get("epsilon", 1e-5)),
        # ONNX allows 1, by which statistics never move; nn takes less than that.
        momentum=min(float(call.given.get("momentum", 0.9)), 0.999),
    )  # fmt: skip
    return back(call, made(last))


def response_norm(call: Call) -> Operand:
    """Return x over a power of the mean square of the channels around each one (Krizhevsky et al., 2012)."""
    x, size = call.value(0), int(call.given.get("size", 0))
    if size < 1:
        raise call.refuse("'size' must be given, and at least 1", size)
    alpha, beta, bias = (float(call.given.get(name, usual)) for name, usual in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    rank = len(x.shape)
    if rank < 2 or x.shape[1] in (BATCH, LENGTH):
        raise call.refuse("the channels must be a number that is known", list(x.shape))
    bounded((x.shape[1], x.shape[1]))
    last = call.builder.orders.turned(x, channels_last(rank))
    apart = np.subtract.outer(np.arange(x.shape[1]), np.arange(x.shape[1]))
    near = ((apart >= -((size - 1) // 2)) & (apart <= size // 2)).astype(np.float64)
    # A product with a band of ones, from the channels around to the one.
    around = (last * last) @ call.builder.value(near * (alpha / size))
    made: Value = last / (around + bias) ** beta
    return call.builder.orders.turned(made, channels_first(rank))


def unit_norm(call: Call) -> Operand:
    """Return x over its norm along an axis; zeros stay."""
    x, power = call.value(0), int(call.given.get("p", 2))
    if power not in (1, 2):
        raise call.refuse("'p' must be 1 or 2", power)
    axis = [call.axis(call.given.get("axis", -1), len(x.shape))]
    norm = reduced(call, abs(x) if power == 1 else x * x, axis, operation.Sum, keep=True)
    return x / function.maximum(norm if power == 1 else norm.sqrt(), float(np.finfo(np.float32).tiny))


def layer_norm(call: Call) -> Operand:
    x, scale = call.value(0), call.array(1)
    if call.axis(call.given.get("axis", -1), len(x.shape)) != len(x.shape) - 1:
        raise call.refuse("nn normalises over the last axis", call.given["axis"])
    bias = call.array(2) if call.has(2) else np.zeros_like(scale)
    epsilon = float(call.given.get("epsilon", 1e-5))
    made: Value = call.builder.layer(layer.LayerNorm, {"gamma": scale, "beta": bias}, [scale], epsilon=epsilon)(x)
    return made


def rms_norm(call: Call) -> Operand:
    x, scale = call.value(0), call.array(1)
    if call.axis(call.given.get("axis", -1), len(x.shape)) != len(x.shape) - 1:
        raise call.refuse("nn normalises over the last axis", call.given["axis"])
    epsilon = float(call.given.get("epsilon", 1e-5))
    made: Value = call.builder.layer(layer.RMSNorm, {"scale": scale}, [scale], epsilon=epsilon)(x)
    return made


def group_norm(call: Call) -> Operand:
    x, scale, bias = call.value(0), call.array(1), call.array(2)
    groups = -1 if call.node.op_type == "InstanceNormalization" else int(call.given.get("num_groups", 1))
    channels = x.shape[1]
    bounded((channels,))
    # Up to version 20 of the operators there is one number for each group.
    gamma, beta = (np.repeat(each, channels // each.size) if each.size < channels else each for each in (scale, bias))
    last = call.builder.orders.turned(x, channels_last(len(x.shape)))
    epsilon = float(call.given.get("epsilon", 1e-5))
    made = call.builder.layer(layer.GroupNorm, {"gamma": gamma, "beta": beta}, [scale, bias], groups=groups, epsilon=epsilon)
    return back(call, made(last))


def gather(call: Call) -> Operand:
    data, ids = call.operand(0), call.operand(1)
    axis = int(call.given.get("axis", 0))
    if isinstance(ids, np.ndarray):
        x = call.value(0)
        lead: tuple[Any, ...] = (slice(None),) * call.axis(axis, len(x.shape))
        return x[(*lead, int(ids))] if ids.ndim == 0 else x[(*lead, np.asarray(ids, np.int64))]
    if isinstance(data, Value) or data.ndim != 2 or axis:
        raise call.refuse("computed indices must be rows of a stored table, along axis 0", axis)
    rows, features = data.shape
    made: Value = call.builder.layer(layer.Embedding, {"embeddings": data}, [data], input_dim=rows, output_dim=features)(ids)
    return made


def softmax(kind: Callable[[], Operation]) -> Read:
    def read(call: Call) -> Operand:
        x = call.value(0)
        rank = len(x.shape)
        axis = call.axis(call.given.get("axis", -1 if call.version >= 13 else 1), rank)
        # There the axes from this one on are taken as one, whose sums are others than those along an axis.
        if axis != rank - 1 and call.version < 13:
            raise call.refuse("before version 13 of the operators nn reads those over the last axis", axis)
        order = (*range(axis), *range(axis + 1, rank), axis)
        return call.builder.orders.turned(call.builder.orders.turned(x, order).apply(kind()), inverse(order))

    return read

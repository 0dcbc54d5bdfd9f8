"""Operators of ONNX as layers and operations of nn: what `nn.onnx.reader` makes of a node."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from nn import activation, function, layer, operation
from nn.arrays import BATCH, LENGTH, Array
from nn.onnx.axes import Order, channels_first, channels_last, inverse
from nn.onnx.folding import Unknown, bounded, integers, slices, split_sizes
from nn.onnx.messages import BOOL, DOUBLE, FLOAT, FLOAT16
from nn.onnx.reader import Call, Operand
from nn.operation.convolution.window import place
from nn.operation.operation import Operation
from nn.value.value import Value, as_value

Read: TypeAlias = Callable[[Call], Operand | list[Operand]]
"""Returns what a node gives, or a list of it where there may be several."""


def _function(make: Callable[[Mapping[str, Any]], Operation]) -> Read:
    """Return the reader of a function of single elements."""

    def read(call: Call) -> Operand:
        made = make(call.given)
        return call.reader.orders.through(call.value(0), lambda x: x.apply(made))

    return read


def _hard_sigmoid(call: Call) -> Operand:
    alpha, beta = float(call.given.get("alpha", 0.2)), float(call.given.get("beta", 0.5))

    def compute(x: Value) -> Value:
        if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
            return x.apply(activation.HardSigmoid())
        return function.minimum(function.maximum(x * alpha + beta, 0), 1)

    return call.reader.orders.through(call.value(0), compute)


def _leaky(call: Call) -> Operand:
    alpha = float(call.given.get("alpha", 0.01))

    def compute(x: Value) -> Value:
        return x.apply(activation.LeakReLU(alpha)) if 0 <= alpha < 1 else function.where(x > 0, x, x * alpha)

    return call.reader.orders.through(call.value(0), compute)


def _selu(call: Call) -> Operand:
    alpha, gamma = float(call.given.get("alpha", 1.67326319)), float(call.given.get("gamma", 1.05070102))

    def compute(x: Value) -> Value:
        usual = math.isclose(alpha, 1.67326319, rel_tol=1e-5) and math.isclose(gamma, 1.05070102, rel_tol=1e-5)
        return x.apply(activation.SELU()) if usual else x.apply(activation.ELU(alpha)) * gamma

    return call.reader.orders.through(call.value(0), compute)


def _clip(call: Call) -> Operand:
    bounds = []
    for number, name in ((1, "min"), (2, "max")):
        found = float(call.array(number).reshape(-1)[0]) if call.has(number) else call.given.get(name)
        bounds.append(None if found is None or abs(found) > 1e30 else float(found))
    low, high = bounds
    usual: Mapping[Any, Operation] = {
        (0.0, None): activation.ReLU(), (0.0, 6.0): activation.ReLU6(), (-1.0, 1.0): activation.HTanh()
    }  # fmt: skip

    def compute(x: Value) -> Value:
        if (low, high) in usual:
            return x.apply(usual[low, high])
        x = x if low is None else function.maximum(x, low)
        return x if high is None else function.minimum(x, high)

    return call.reader.orders.through(call.value(0), compute)


def _same(call: Call) -> list[Operand]:
    return [call.operand(0)]


def _both(call: Call, a: Operand, b: Operand, combine: Callable[[Value, Value], Value]) -> Value:
    """Return the result for two operands that broadcast, computed before a change of the order of their axes."""
    reader = call.reader
    sides = [reader.orders.source(each) if isinstance(each, Value) else (each, None) for each in (a, b)]
    orders = [order for _, order in sides if order is not None]
    if orders and all(_follows(side, each, orders[0]) for side, each in zip(sides, (a, b), strict=True)):
        order = orders[0]
        first, second = (
            source if isinstance(source, Value) else reader.value(_turned_back(call, source, order)) for source, _ in sides
        )
        return reader.orders.turned(combine(first, second), order)
    return combine(reader.value(a), reader.value(b))


def _follows(side: tuple[Any, Order | None], operand: Operand, order: Order) -> bool:
    """Return whether an operand can be had in the order before a change."""
    if isinstance(operand, Value):
        return side[1] == order
    return operand.dtype != object and operand.ndim <= len(order)


def _turned_back(call: Call, array: Array, order: Order) -> Array:
    if array.size == 1:
        return array
    whole = array.reshape((1,) * (len(order) - array.ndim) + array.shape)
    return call.reader.derived(whole.transpose(inverse(order)), array)


def _pairs(combine: Callable[[Value, Value], Value]) -> Read:
    """Return the reader of an operator of two operands, or of several one after the other."""

    def read(call: Call) -> Operand:
        if call.version < 7 and call.given.get("axis") is not None:
            raise call.refuse("shapes must broadcast as in NumPy, without 'axis'", call.given["axis"])
        found = call.operand(0)
        for number in range(1, len(call.inputs)):
            found = _both(call, found, call.operand(number), combine)
        return call.reader.value(found)

    return read


def _applied(kind: Callable[[], Operation]) -> Read:
    return _pairs(lambda a, b: a.apply(kind(), b))


def _mean_of(call: Call) -> Operand:
    return call.reader.value(_pairs(lambda a, b: a + b)(call)) / len(call.inputs)  # type: ignore[arg-type]


def _power(call: Call) -> Operand:
    exponent = call.operand(1)
    if isinstance(exponent, np.ndarray) and exponent.size == 1:
        number = float(exponent.reshape(-1)[0])
        return call.reader.orders.through(call.value(0), lambda x: x**number)
    return call.value(0).apply(operation.Power(), call.value(1))


def _where(call: Call) -> Operand:
    return function.where(call.value(0), call.value(1), call.value(2))


def _prelu(call: Call) -> Operand:
    def combine(x: Value, slope: Value) -> Value:
        return x.apply(activation.ReLU()) - slope * (-x).apply(activation.ReLU())

    return _both(call, call.operand(0), call.operand(1), combine)


def _cast(call: Call) -> Operand:
    to = call.given.get("to")
    if to == BOOL:
        return call.value(0).apply(operation.Compare("!="), as_value(0))
    if to in (FLOAT, FLOAT16, DOUBLE):
        return call.value(0)
    made = call.tensor(0).apply(activation.Linear())
    call.reader.uncut.add(made)
    return made


def _matmul(call: Call) -> Operand:
    a, b = call.operand(0), call.operand(1)
    if not isinstance(a, Value) or isinstance(b, Value) or b.ndim != 2 or len(a.shape) < 2:
        return call.value(0) @ call.value(1)
    bias, add = None, call.reader.follower(call.node.output[0], "Add")
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
    found = call.reader.layer(layer.Dense, weights, sources, units=kernel.shape[1], use_bias=bias is not None)
    made: Value = found(call.value(0))
    return made


def _gemm(call: Call) -> Operand:
    alpha, beta = float(call.given.get("alpha", 1.0)), float(call.given.get("beta", 1.0))
    a, b = call.operand(0), call.operand(1)
    if isinstance(a, Value) and isinstance(b, np.ndarray) and not call.given.get("transA", 0):
        kernel, sources = b.T if call.given.get("transB", 0) else b, [b]
        kernel = kernel if alpha == 1 else kernel * np.asarray(alpha, kernel.dtype)
        if not call.has(2):
            return _dense(call, kernel, None, sources)
        c = call.operand(2)
        if isinstance(c, np.ndarray) and c.size in (1, kernel.shape[1]):
            bias = np.broadcast_to(c.reshape(-1), kernel.shape[1:]) * np.asarray(beta, c.dtype)
            return _dense(call, kernel, bias, [*sources, c])
    first, second = call.value(0), call.value(1)
    first = first.T if call.given.get("transA", 0) else first
    made = first @ (second.T if call.given.get("transB", 0) else second)
    made = made if alpha == 1 else made * alpha
    return made + call.value(2) * beta if call.has(2) else made


def _spatial(call: Call) -> tuple[Value, int]:
    """Return images or sequences with the channels last, and the number of their axes between batch and channels."""
    x = call.value(0)
    rank = len(x.shape)
    if rank not in (3, 4):
        raise call.refuse("nn takes (batch, channels, time) and (batch, channels, height, width)", list(x.shape))
    return call.reader.orders.turned(x, channels_last(rank)), rank - 2


def _back(call: Call, y: Value) -> Value:
    return call.reader.orders.turned(y, channels_first(len(y.shape)))


def _per_axis(call: Call, name: str, axes: int, default: int) -> list[int]:
    found = [int(each) for each in call.given.get(name, [default] * axes)]
    if len(found) != axes:
        raise call.refuse(f"'{name}' must have {axes} numbers", found)
    return found


def _padding(
    call: Call, lengths: Sequence[int], size: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[Any, list[tuple[int, int]]]:
    """Return the padding of a window as layers of nn take it, None where none is so, and cells before and behind each axis."""
    rule = call.given.get("auto_pad", "NOTSET")
    axes = len(size)
    if rule == "SAME_UPPER":
        return "same", []
    if rule == "SAME_LOWER":
        windows = place(call.title, lengths, size, strides, "same", dilations)
        found = [(window.after, window.before) for window in windows]
    elif rule == "VALID":
        found = [(0, 0)] * axes
    else:
        pads = _per_axis(call, "pads", 2 * axes, 0)
        found = list(zip(pads[:axes], pads[axes:], strict=True))
    flat = {cells for pair in found for cells in pair}
    if min(flat) < 0:
        raise call.refuse("'pads' must be at least 0", found)
    if len(flat) == 1:
        return flat.pop() or "valid", found
    if LENGTH not in lengths:
        same = place(call.title, lengths, size, strides, "same", dilations)
        if found == [(window.before, window.after) for window in same]:
            return "same", found
    return None, found


def _padded(x: Value, found: Sequence[tuple[int, int]]) -> Value:
    return x.apply(operation.Pad(found))


def _convolution(call: Call) -> Operand:
    x, axes = _spatial(call)
    kernel = call.array(1)
    if kernel.ndim != axes + 2:
        raise call.refuse(f"the kernel must have {axes + 2} axes", list(kernel.shape))
    size, strides, dilations = (
        list(kernel.shape[2:]), _per_axis(call, "strides", axes, 1), _per_axis(call, "dilations", axes, 1)
    )  # fmt: skip
    padding, cells = _padding(call, x.shape[1:-1], size, strides, dilations)
    if padding is None:
        x, padding = _padded(x, cells), "valid"
    weights, sources = {"kernel": kernel.transpose(*range(2, axes + 2), 1, 0)}, [kernel]
    if call.has(2):
        weights["bias"] = call.array(2)
        sources.append(weights["bias"])
    relu = call.reader.follower(call.node.output[0], "Relu")
    made = call.reader.layer(
        layer.Conv2D if axes == 2 else layer.Conv1D, weights, sources, kernel=kernel.shape[0], kernel_size=size,
        stride=strides, padding=padding, groups=int(call.given.get("group", 1)), use_bias=call.has(2), dilation=dilations,
        activation=None if relu is None else "relu",
    )  # fmt: skip
    found = _back(call, made(x))
    if relu is not None:
        call.take(relu, found)
    return found


def _transposed(call: Call) -> Operand:
    x, axes = _spatial(call)
    kernel = call.array(1)
    strides, size = _per_axis(call, "strides", axes, 1), list(kernel.shape[2:])
    extra = _per_axis(call, "output_padding", axes, 0)
    for name, usual in (("group", 1), ("dilations", [1] * axes), ("output_shape", None)):
        if call.given.get(name, usual) != usual:
            raise call.refuse(f"nn has transposed convolutions with '{name}' {usual} only", call.given[name])
    rule = call.given.get("auto_pad", "NOTSET")
    if rule not in ("NOTSET", "VALID"):
        raise call.refuse("'auto_pad' must be NOTSET or VALID", rule)
    pads = _per_axis(call, "pads", 2 * axes, 0)
    weights, sources = {"kernel": kernel.transpose(*range(2, axes + 2), 1, 0)}, [kernel]
    if call.has(2):
        weights["bias"] = call.array(2)
        sources.append(weights["bias"])
    # Cells in front are cut off behind the layer; those behind are what its own padding and additions leave.
    cut = min(pads)
    found = call.reader.layer(
        layer.Conv2DTranspose if axes == 2 else layer.Conv1DTranspose, weights, sources, kernel=kernel.shape[1],
        kernel_size=size, stride=strides, padding=cut, output_padding=extra, use_bias=call.has(2),
    )  # fmt: skip
    made: Value = found(x)
    ends = [
        slice(before - cut, length - (behind - cut))
        for before, behind, length in zip(pads[:axes], pads[axes:], made.shape[1:-1], strict=True)
    ]
    return _back(call, made[(slice(None), *ends)] if set(pads) != {cut} else made)


def _pool(kind: type[Any]) -> Read:
    def read(call: Call) -> Operand:
        x, axes = _spatial(call)
        size, strides = [int(each) for each in call.given["kernel_shape"]], _per_axis(call, "strides", axes, 1)
        dilations = _per_axis(call, "dilations", axes, 1)
        if dilations != [1] * axes:
            raise call.refuse("nn pools without 'dilations'", dilations)
        padding, cells = _padding(call, x.shape[1:-1], size, strides, dilations)
        counted = bool(call.given.get("count_include_pad", 0)) and kind is operation.PoolAverage
        if padding is None and kind is operation.PoolMax:
            # Less than every number: what stands there is never the greatest of a window with another one.
            x, padding = _around(call, x, cells, -math.inf), "valid"
        elif counted and (padding is None or padding == "same" or isinstance(padding, int)):
            x, padding = _padded(x, cells or _cells_of_same(call, x, size, strides)), "valid"
        elif padding is None:
            raise call.refuse("padding that does not count must be the same on all sides, or 'same'", cells)
        if call.given.get("ceil_mode", 0):
            for length, window, stride, pair in zip(x.shape[1:-1], size, strides, cells or [(0, 0)] * axes, strict=True):
                around = 0 if padding == "valid" else sum(pair)
                if padding != "same" and (length + around - window) % stride:
                    raise call.refuse("nn pools windows that lie inside, so 'ceil_mode' must change nothing", length)
        return _back(call, x.apply(kind(size, strides, padding)))

    return read


def _cells_of_same(call: Call, x: Value, size: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    windows = place(call.title, x.shape[1:-1], size, strides, "same")
    return [(window.before, window.after) for window in windows]


def _around(call: Call, x: Value, widths: Sequence[tuple[int, int]], number: float) -> Value:
    """Return x with a number around it, along the axes after the batch."""
    padded = _padded(x, widths)
    if number == 0:
        return padded
    pairs = [(0, 0), *widths, *[(0, 0)] * (len(x.shape) - 1 - len(widths))]
    bounded([length + sum(pair) if sum(pair) else 1 for length, pair in zip(x.shape, pairs, strict=True)])
    inside = np.pad(np.ones([length if sum(pair) else 1 for length, pair in zip(x.shape, pairs, strict=True)]), pairs)
    # A file of nn holds finite numbers alone.
    return function.where(call.reader.value(inside), padded, max(number, float(np.finfo(np.float32).min)))


def _global(kind: Callable[..., Operation]) -> Read:
    def read(call: Call) -> Operand:
        x = call.value(0)
        return _reduced(call, x, list(range(2, len(x.shape))), kind, keep=True)

    return read


def _reduced(call: Call, x: Value, axes: Sequence[int], kind: Callable[..., Operation], *, keep: bool) -> Value:
    """Return a reduction over axes, computed before a change of their order."""
    source, order = call.reader.orders.source(x)
    rank = len(x.shape)
    axes = sorted(axis % rank for axis in axes)
    if any(x.shape[axis] == BATCH for axis in axes):
        raise call.refuse("a reduction must leave the samples apart", [f"axis {axis} of shape {x.shape}" for axis in axes])
    if order is None:
        return x.apply(kind(tuple(axes), keep))
    made = source.apply(kind(tuple(order[axis] for axis in axes), True))
    kept = call.reader.orders.turned(made, order)
    return kept if keep else _squeezed(call, kept, axes)


def _reduce(kind: Callable[..., Operation], before: str = "", after: str = "") -> Read:
    """Return the reader of a reduction of x, |x| or x^2, and of its root."""

    def read(call: Call) -> Operand:
        x = call.value(0)
        axes = call.numbers(1, "axes")
        if not axes:
            if call.given.get("noop_with_empty_axes", 0):
                return x
            axes = list(range(len(x.shape)))
        if before:
            x = call.reader.orders.through(x, lambda each: abs(each) if before == "absolute" else each**2)
        made = _reduced(call, x, axes, kind, keep=bool(call.given.get("keepdims", 1)))
        return made.sqrt() if after else made

    return read


def _batch_norm(call: Call) -> Operand:
    if call.given.get("training_mode", 0):
        raise call.refuse("'training_mode' must be 0", call.given["training_mode"])
    x = call.value(0)
    last = call.reader.orders.turned(x, channels_last(len(x.shape)))
    sources = [call.array(number) for number in range(1, 5)]
    weights = dict(zip(("gamma", "beta", "moving_mean", "moving_variance"), sources, strict=True))
    made = call.reader.layer(
        layer.BatchNorm, weights, sources, epsilon=float(call.given.get("epsilon", 1e-5)),
        momentum=min(float(call.given.get("momentum", 0.9)), 0.999),
    )  # fmt: skip
    return _back(call, made(last))


def _layer_norm(call: Call) -> Operand:
    x, scale = call.value(0), call.array(1)
    if int(call.given.get("axis", -1)) % len(x.shape) != len(x.shape) - 1:
        raise call.refuse("nn normalises over the last axis", call.given["axis"])
    bias = call.array(2) if call.has(2) else np.zeros_like(scale)
    epsilon = float(call.given.get("epsilon", 1e-5))
    made: Value = call.reader.layer(layer.LayerNorm, {"gamma": scale, "beta": bias}, [scale], epsilon=epsilon)(x)
    return made


def _group_norm(call: Call) -> Operand:
    x, scale, bias = call.value(0), call.array(1), call.array(2)
    groups = -1 if call.node.op_type == "InstanceNormalization" else int(call.given.get("num_groups", 1))
    channels = x.shape[1]
    bounded((channels,))
    gamma, beta = (np.repeat(each, channels // each.size) if each.size < channels else each for each in (scale, bias))
    last = call.reader.orders.turned(x, channels_last(len(x.shape)))
    epsilon = float(call.given.get("epsilon", 1e-5))
    made = call.reader.layer(layer.GroupNorm, {"gamma": gamma, "beta": beta}, [scale, bias], groups=groups, epsilon=epsilon)
    return _back(call, made(last))


def _softmax(kind: Callable[[], Operation]) -> Read:
    def read(call: Call) -> Operand:
        x = call.value(0)
        rank = len(x.shape)
        axis = int(call.given.get("axis", -1 if call.version >= 13 else 1)) % rank
        if axis != rank - 1 and call.version < 13:
            raise call.refuse("before version 13 of the operators nn reads those over the last axis", axis)
        order = (*range(axis), *range(axis + 1, rank), axis)
        return call.reader.orders.turned(call.reader.orders.turned(x, order).apply(kind()), inverse(order))

    return read


def _reshape(call: Call) -> Operand:
    x = call.tensor(0)
    wanted: list[Any] = list(call.array(1).flat)
    if not call.given.get("allowzero", 0):
        wanted = [_length(x.shape[axis]) if _is(each, 0) else each for axis, each in enumerate(wanted)]
    if len(wanted) == len(x.shape) and all(map(_fits, wanted, x.shape)):
        return x
    return call.reader.shaped(x, _solved(call, x, wanted))


def _fits(length: Any, axis: int) -> bool:
    return isinstance(length, Unknown) == (axis in (BATCH, LENGTH)) and (isinstance(length, Unknown) or int(length) == axis)


def _is(length: Any, number: int) -> bool:
    return not isinstance(length, Unknown) and int(length) == number


def _length(axis: int) -> Any:
    return Unknown("batch") if axis == BATCH else Unknown("length of an axis") if axis == LENGTH else axis


def _solved(call: Call, x: Value, wanted: Sequence[Any]) -> list[int]:
    """Return a shape with -1 at the batch for one of numbers, one -1, and the lengths that come with the data."""
    if LENGTH in x.shape:
        raise call.refuse("must know all lengths but the batch; give 'shapes'", list(x.shape))
    sample = math.prod(axis for axis in x.shape if axis != BATCH)
    lengths = [None if isinstance(each, Unknown) else int(each) for each in wanted]
    batches = [place for place, each in enumerate(wanted) if isinstance(each, Unknown)]
    rest = [place for place, each in enumerate(lengths) if each == -1]
    known = math.prod(each for each in lengths if each is not None and each != -1)
    if len(batches) == 1 and len(rest) < 2:
        times = wanted[batches[0]].times
        if rest and sample % (known * times) == 0:
            lengths[rest[0]] = sample // (known * times)
        elif known * times != sample:
            raise call.refuse(f"samples of {sample} elements must fit", wanted)
    elif call.reader.single and not batches and x.shape[0] == BATCH and lengths[:1] == [1] and len(rest) < 2:
        # A file for one sample at a time, whose first axis is that.
        batches = [0]
        if rest and sample % known == 0:
            lengths[rest[0]] = sample // known
        elif known != sample:
            raise call.refuse(f"samples of {sample} elements must fit", wanted)
    elif not batches and len(rest) == 1:
        batches = rest
    else:
        raise call.refuse(f"must keep one axis for the samples, of {sample} elements", wanted)
    return [BATCH if place == batches[0] else int(each or 0) for place, each in enumerate(lengths)]


def _flatten(call: Call) -> Operand:
    x = call.value(0)
    axis = int(call.given.get("axis", 1))
    axis = axis + len(x.shape) if axis < 0 else axis
    front, behind = x.shape[:axis], x.shape[axis:]
    if LENGTH in x.shape:
        raise call.refuse("must know all lengths but the batch; give 'shapes'", list(x.shape))
    size = math.prod(each for each in (behind if BATCH in front else front) if each != BATCH)
    return call.reader.shaped(x, [BATCH, size] if BATCH in front else [size, BATCH])


def _squeeze(call: Call) -> Operand:
    x = call.tensor(0)
    axes = call.numbers(1, "axes")
    found = [axis for axis, length in enumerate(x.shape) if length == 1] if axes is None else axes
    return _squeezed(call, x, found)


def _squeezed(call: Call, x: Value, axes: Sequence[int]) -> Value:
    """Return x without some axes, left out before a change of the order."""
    rank = len(x.shape)
    gone = {axis % rank for axis in axes}
    if any(x.shape[axis] != 1 for axis in gone):
        raise call.refuse(f"axes {sorted(gone)} must have length 1", list(x.shape))
    source, order = call.reader.orders.source(x)
    order = order or tuple(range(rank))
    lost = {order[axis] for axis in gone}
    left = [axis for axis in range(rank) if axis not in lost]
    made = call.reader.shaped(source, [source.shape[axis] for axis in left])
    return call.reader.orders.turned(made, [left.index(order[axis]) for axis in range(rank) if axis not in gone])


def _unsqueeze(call: Call) -> Operand:
    x = call.tensor(0)
    axes = call.numbers(1, "axes") or []
    rank = len(x.shape) + len(axes)
    new = {axis % rank for axis in axes}
    if len(new) != len(axes):
        raise call.refuse("axes must differ", axes)
    lengths = iter(x.shape)
    return call.reader.shaped(x, [1 if axis in new else next(lengths) for axis in range(rank)])


def _transpose(call: Call) -> Operand:
    x = call.value(0)
    order = call.given.get("perm", list(reversed(range(len(x.shape)))))
    if sorted(order) != list(range(len(x.shape))):
        raise call.refuse(f"'perm' must name the axes of shape {list(x.shape)} once each", order)
    return call.reader.orders.turned(x, order)


def _concat(call: Call) -> Operand:
    values = [call.value(number) for number in range(len(call.inputs))]
    axis = int(call.given["axis"]) % len(values[0].shape)
    found = [call.reader.orders.source(each) for each in values]
    order = found[0][1]
    if order is not None and all(other == order for _, other in found):
        made = function.concatenate([source for source, _ in found], order[axis])
        return call.reader.orders.turned(made, order)
    return function.concatenate(values, axis) if len(values) > 1 else values[0]


def _split(call: Call) -> list[Operand]:
    x = call.value(0)
    axis = int(call.given.get("axis", 0)) % len(x.shape)
    if x.shape[axis] in (BATCH, LENGTH):
        raise call.refuse("the axis must have a length that is known", list(x.shape))
    sizes = split_sizes(x.shape[axis], [None, call.array(1) if call.has(1) else None], call.given)
    parts: list[Operand] = []
    start = 0
    for size in sizes:
        parts.append(_cut(call, x, {axis: slice(start, start + size)}))
        start += size
    return parts


def _cut(call: Call, x: Value, cuts: Mapping[int, slice]) -> Value:
    """Return slices of x, cut before a change of the order."""
    if not cuts:
        return x
    source, order = call.reader.orders.source(x)
    order = order or tuple(range(len(x.shape)))
    where = {order[axis]: cut for axis, cut in cuts.items()}
    key = tuple([where.get(axis, slice(None)) for axis in range(len(source.shape))])
    return call.reader.orders.turned(source[key], order)


def _slice(call: Call) -> Operand:
    x = call.value(0)
    if len(call.inputs) > 1:
        given: list[Any] = [call.array(number) if call.has(number) else None for number in range(1, 5)]
    else:
        given = [call.given.get(name) for name in ("starts", "ends", "axes", "steps")]
    return _cut(call, x, slices(len(x.shape), [_length(axis) for axis in x.shape], given))


def _gather(call: Call) -> Operand:
    data, ids = call.operand(0), call.operand(1)
    axis = int(call.given.get("axis", 0))
    if isinstance(ids, np.ndarray):
        x = call.value(0)
        lead: tuple[Any, ...] = (slice(None),) * (axis % len(x.shape))
        return x[(*lead, int(ids))] if ids.ndim == 0 else x[(*lead, np.asarray(ids, np.int64))]
    if isinstance(data, Value) or data.ndim != 2 or axis:
        raise call.refuse("computed indices must be rows of a stored table, along axis 0", axis)
    rows, features = data.shape
    made: Value = call.reader.layer(layer.Embedding, {"embeddings": data}, [data], input_dim=rows, output_dim=features)(ids)
    return made


def _pad(call: Call) -> Operand:
    x = call.value(0)
    rank, mode = len(x.shape), call.given.get("mode", "constant")
    pads = call.numbers(1, "pads") or []
    axes = integers(call.array(3)) if call.has(3) else list(range(rank))
    if len(pads) != 2 * len(axes):
        raise call.refuse(f"'pads' must be {2 * len(axes)} numbers", pads)
    number = float(call.array(2).reshape(-1)[0]) if call.has(2) else float(call.given.get("value", 0.0))
    widths = dict(zip((axis % rank for axis in axes), zip(pads[: len(axes)], pads[len(axes) :], strict=True), strict=True))
    # Negative ones cut off.
    x = _cut(call, x, {
        axis: slice(max(-before, 0), x.shape[axis] - max(-behind, 0))
        for axis, (before, behind) in widths.items() if min(before, behind) < 0
    })  # fmt: skip
    widths = {axis: (max(before, 0), max(behind, 0)) for axis, (before, behind) in widths.items() if max(before, behind) > 0}
    if any(x.shape[axis] == BATCH for axis in widths):
        raise call.refuse("the samples cannot become more", pads)
    if mode == "constant":
        source, order = call.reader.orders.source(x)
        order = order or tuple(range(rank))
        if source.shape[0] != BATCH:
            raise call.refuse("the samples must be the first axis", list(x.shape))
        by_source = {order[axis]: pair for axis, pair in widths.items()}
        around = [by_source.get(axis, (0, 0)) for axis in range(1, rank)]
        return call.reader.orders.turned(_around(call, source, around, number), order) if widths else x
    for axis, (before, behind) in widths.items():
        length = x.shape[axis]
        if length == LENGTH or mode not in ("edge", "reflect", "wrap") or (mode == "reflect" and max(before, behind) >= length):
            raise call.refuse(
                f"'{mode}' must be constant, edge, reflect or wrap, of fewer cells than the axis has", list(x.shape)
            )
        # Cells are named again: a mirror needs no operation of its own.
        bounded((length + before + behind,))
        key: list[Any] = [slice(None)] * axis
        x = x[(*key, np.pad(np.arange(length), (before, behind), mode=mode))]
    return x


def _expand(call: Call) -> Operand:
    x, shape = call.value(0), list(call.array(1).flat)
    ones = [1 if isinstance(each, Unknown) else int(each) for each in shape]
    rank = max(len(ones), len(x.shape))
    own = (1,) * (rank - len(x.shape)) + x.shape
    ones = [1] * (rank - len(ones)) + ones
    target = [1 if found in (length, BATCH, LENGTH) else length for found, length in zip(own, ones, strict=True)]
    if set(target) == {1} and rank == len(x.shape):
        return x
    return x * as_value(np.ones(bounded(target)))


_MOST_TIMES: Final = 4096
"""Copies beside each other, each of which is an input of an operation."""


def _tile(call: Call) -> Operand:
    x, times = call.value(0), integers(call.array(1))
    if len(times) != len(x.shape) or min(times) < 1:
        raise call.refuse(f"'repeats' must be {len(x.shape)} numbers of at least 1", times)
    if math.prod(times) > _MOST_TIMES:
        raise call.refuse(f"'repeats' must be at most {_MOST_TIMES}", times)
    for axis, count in enumerate(times):
        if count > 1:
            x = function.concatenate([x] * count, axis)
    return x


def _resize(call: Call) -> Operand:
    x = call.value(0)
    mode = call.given.get("mode", "nearest")
    rank = len(x.shape)
    scales = _scales(call, x)
    whole = [round(each) for each in scales]
    how = (call.given.get("coordinate_transformation_mode", "half_pixel"), call.given.get("nearest_mode", "round_prefer_floor"))
    # By a whole number each of these repeats cells.
    fits = call.node.op_type == "Upsample" or call.version < 11 or how in (
        ("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil"),
        ("half_pixel", "floor"),
    )  # fmt: skip
    if how == ("half_pixel", "floor") and any(each > 1 for each in whole):
        fits = False
    exact = all(math.isclose(each, count) and count >= 1 for each, count in zip(scales, whole, strict=True))
    if mode != "nearest" or not exact or not fits:
        raise call.refuse("nn makes cells more by a whole number, mode 'nearest'", [mode, *how, *scales])
    source, order = call.reader.orders.source(x)
    order = order or tuple(range(rank))
    times = [whole[order.index(axis)] for axis in range(rank)]
    if times[0] != 1:
        raise call.refuse("the samples cannot become more", scales)
    return call.reader.orders.turned(source.apply(operation.Repeat(times[1:])), order)


def _scales(call: Call, x: Value) -> list[float]:
    rank = len(x.shape)
    place_of_scales = 1 if call.node.op_type == "Upsample" or call.version < 11 else 2
    axes = [int(axis) % rank for axis in call.given.get("axes", range(rank))]
    found = [1.0] * rank
    if call.has(place_of_scales) and call.array(place_of_scales).size:
        given = [float(each) for each in call.array(place_of_scales).flat]
    elif "scales" in call.given:
        given = [float(each) for each in call.given["scales"]]
    else:
        sizes = list(call.array(3).flat)
        if len(sizes) != len(axes):
            raise call.refuse(f"'sizes' must be {len(axes)} numbers", sizes)
        given = [
            1.0 if isinstance(size, Unknown) or x.shape[axis] in (BATCH, LENGTH) else int(size) / x.shape[axis]
            for size, axis in zip(sizes, axes, strict=True)
        ]
    if len(given) != len(axes):
        raise call.refuse(f"'scales' must be {len(axes)} numbers", given)
    for axis, scale in zip(axes, given, strict=True):
        found[axis] = scale
    return found


def _depth_to_space(call: Call) -> Operand:
    x, size = call.value(0), int(call.given["blocksize"])
    if len(x.shape) != 4 or x.shape[0] != BATCH or LENGTH in x.shape or x.shape[1] % size**2:
        raise call.refuse(f"expected (batch, channels, height, width) with channels of {size}^2", list(x.shape))
    _, channels, height, width = x.shape
    less = channels // size**2
    if call.given.get("mode", "DCR") == "CRD":
        apart = x.reshape(BATCH, less, size, size, height, width).transpose(0, 1, 4, 2, 5, 3)
    else:
        apart = x.reshape(BATCH, size, size, less, height, width).transpose(0, 3, 4, 1, 5, 2)
    return apart.reshape(BATCH, less, height * size, width * size)


def _space_to_depth(call: Call) -> Operand:
    x, size = call.value(0), int(call.given["blocksize"])
    if len(x.shape) != 4 or x.shape[0] != BATCH or LENGTH in x.shape or x.shape[2] % size or x.shape[3] % size:
        raise call.refuse(f"expected (batch, channels, height, width) of whole blocks of {size}", list(x.shape))
    _, channels, height, width = x.shape
    apart = x.reshape(BATCH, channels, height // size, size, width // size, size).transpose(0, 3, 5, 1, 2, 4)
    return apart.reshape(BATCH, channels * size**2, height // size, width // size)


_GATES: Final[Mapping[str, tuple[type[Any], Sequence[int], list[str]]]] = MappingProxyType({
    "LSTM": (layer.LSTM, (0, 2, 3, 1), ["Sigmoid", "Tanh", "Tanh"]),
    "GRU": (layer.GRU, (0, 1, 2), ["Sigmoid", "Tanh"]),
    "RNN": (layer.SimpleRNN, (0,), ["Tanh"]),
})  # fmt: skip
"""Layer of an operator, the order of its gates by their numbers in ONNX, and the functions that nn has."""


def _recurrent(call: Call) -> list[Operand]:
    kind, order, functions = _GATES[call.node.op_type or ""]
    direction = call.given.get("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    steps_first = not call.given.get("layout", 0)
    asked = call.given.get("activations") or functions * directions
    words = asked if call.node.op_type == "RNN" else functions * directions
    if asked != words or set(words) - {"Sigmoid", "Tanh", "Relu"}:
        raise call.refuse(f"'activations' must be {functions}", asked)
    for name, usual in (("clip", None), ("input_forget", 0)):
        if call.given.get(name, usual) != usual:
            raise call.refuse(f"nn has cells without '{name}'", call.given[name])
    if call.node.op_type == "GRU" and not call.given.get("linear_before_reset", 0):
        raise call.refuse("nn has the reset gate behind the recurrent product, 'linear_before_reset' 1", 0)
    x = call.value(0)
    x = call.reader.orders.turned(x, (1, 0, 2)) if steps_first else x
    lengths = call.array(4) if call.has(4) else None
    if call.has(7) or (lengths is not None and any(each != x.shape[1] for each in lengths.flat)):
        raise call.refuse("nn reads all steps, without peepholes", "lengths of sequences, or peepholes")
    first = [_first_state(call, number, directions, steps_first) for number in range(5, 7) if call.has(number)]
    given = None if not first or all(each is None for each in first) else [each for each in first if each is not None]
    if given is not None and len(given) != len(first):
        raise call.refuse("must have all states or none", len(given))
    results = []
    for number in range(directions):
        words_here = words[number * len(functions) : (number + 1) * len(functions)]
        back = direction == "reverse" or number == 1
        states = None if given is None else [each[number] for each in given]
        results.append(_direction(call, x, kind, order, number, states, words_here, back=back))
    return _gathered(call, results, steps_first)


def _first_state(call: Call, place_of: int, directions: int, steps_first: bool) -> list[Value] | None:
    """Return the states before the first step for each direction; None where they are zeros."""
    found = call.operand(place_of)
    if isinstance(found, np.ndarray):
        if not found.any():
            return None
        raise call.refuse("the first state must be computed from samples, or zeros", found.shape)
    axis = 0 if steps_first else 1
    return [_squeezed(call, _cut(call, found, _one(found, axis, number)), [axis]) for number in range(directions)]


def _one(x: Value, axis: int, number: int) -> dict[int, slice]:
    return {axis: slice(number, number + 1)} if x.shape[axis] != 1 else {}


def _direction(
    call: Call, x: Value, kind: type[Any], order: Sequence[int], number: int, states: list[Value] | None, words: list[str],
    *, back: bool,
) -> list[Value]:  # fmt: skip
    """Return the states of all steps (batch, time, units) and the last ones (batch, units), for one direction."""
    kernel, recurrent = call.array(1), call.array(2)
    units = recurrent.shape[2]
    weights = {"kernel": _gates(kernel[number], order).T, "recurrent_kernel": _gates(recurrent[number], order).T}
    sources, bias = [kernel, recurrent], np.zeros(2 * len(order) * units, kernel.dtype)
    if call.has(3):
        bias = call.array(3)[number]
        sources.append(call.array(3))
    both = np.stack([_gates(each, order) for each in np.split(bias, 2)])
    weights["bias"] = both if kind is layer.GRU else both[0] + both[1]
    given: dict[str, Any] = {"activation": words[0].lower()} if kind is layer.SimpleRNN else {}
    found = call.reader.layer(kind, weights, sources, number, units=units, return_sequences=True, return_state=True, **given)
    steps, *last = found(x[:, ::-1] if back else x, initial_state=states)
    return [steps[:, ::-1] if back else steps, *last]


def _gates(rows: Array, order: Sequence[int]) -> Array:
    blocks = np.split(rows, len(order))
    return np.concatenate([blocks[number] for number in order])


def _gathered(call: Call, results: Sequence[Sequence[Value]], steps_first: bool) -> list[Operand]:
    """Return the outputs as ONNX has them, with an axis for directions."""
    orders, reader = call.reader.orders, call.reader
    # (batch, time, directions, units) and (batch, directions, units).
    parts = []
    for number, each in enumerate(zip(*results, strict=True)):
        spread = [reader.shaped(one, [*one.shape[:-1], 1, one.shape[-1]]) for one in each]
        whole = spread[0] if len(spread) == 1 else function.concatenate(spread, -2)
        if steps_first:
            whole = orders.turned(whole, (1, 2, 0, 3) if number == 0 else (1, 0, 2))
        parts.append(whole)
    return list(parts)


NODES: Mapping[str, Read] = MappingProxyType({
    "Abs": _function(lambda given: operation.Absolute()),
    "Add": _applied(operation.Add),
    "And": _applied(operation.Multiply),
    "AveragePool": _pool(operation.PoolAverage),
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "DepthToSpace": _depth_to_space,
    "Div": _applied(operation.Divide),
    "Dropout": _same,
    "Elu": _function(lambda given: activation.ELU(float(given.get("alpha", 1.0)))),
    "Equal": _pairs(function.equal),
    "Exp": _function(lambda given: operation.Exp()),
    "Expand": _expand,
    "Flatten": _flatten,
    "GRU": _recurrent,
    "Gather": _gather,
    "Gelu": _function(lambda given: activation.GELU(given.get("approximate", "none") == "tanh")),
    "Gemm": _gemm,
    "GlobalAveragePool": _global(operation.Mean),
    "GlobalMaxPool": _global(operation.Max),
    "Greater": _pairs(lambda a, b: a > b),
    "GreaterOrEqual": _pairs(lambda a, b: a >= b),
    "GroupNormalization": _group_norm,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _function(lambda given: activation.HardSwish()),
    "Identity": _same,
    "InstanceNormalization": _group_norm,
    "LSTM": _recurrent,
    "LayerNormalization": _layer_norm,
    "LeakyRelu": _leaky,
    "Less": _pairs(lambda a, b: a < b),
    "LessOrEqual": _pairs(lambda a, b: a <= b),
    "Log": _function(lambda given: operation.Log()),
    "LogSoftmax": _softmax(activation.LogSoftmax),
    "MatMul": _matmul,
    "Max": _applied(operation.Maximum),
    "MaxPool": _pool(operation.PoolMax),
    "Mean": _mean_of,
    "Min": _applied(operation.Minimum),
    "Mish": _function(lambda given: activation.Mish()),
    "Mul": _applied(operation.Multiply),
    "Neg": _function(lambda given: operation.Negative()),
    "Not": lambda call: call.reader.orders.through(call.value(0), lambda x: function.equal(x, 0)),
    "Or": _applied(operation.Maximum),
    "PRelu": _prelu,
    "Pad": _pad,
    "Pow": _power,
    "RNN": _recurrent,
    "Reciprocal": lambda call: call.reader.orders.through(call.value(0), lambda x: 1 / x),
    "ReduceL1": _reduce(operation.Sum, "absolute"),
    "ReduceL2": _reduce(operation.Sum, "square", "root"),
    "ReduceMax": _reduce(operation.Max),
    "ReduceMean": _reduce(operation.Mean),
    "ReduceMin": _reduce(operation.Min),
    "ReduceSum": _reduce(operation.Sum),
    "ReduceSumSquare": _reduce(operation.Sum, "square"),
    "Relu": _function(lambda given: activation.ReLU()),
    "Reshape": _reshape,
    "Resize": _resize,
    "Selu": _selu,
    "Sigmoid": _function(lambda given: activation.Sigmoid()),
    "Slice": _slice,
    "Softmax": _softmax(activation.Softmax),
    "Softplus": _function(lambda given: activation.Softplus()),
    "Softsign": _function(lambda given: activation.Softsign()),
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Sqrt": _function(lambda given: operation.Sqrt()),
    "Squeeze": _squeeze,
    "Sub": _applied(operation.Subtract),
    "Sum": _applied(operation.Add),
    "Tanh": _function(lambda given: activation.Tanh()),
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Upsample": _resize,
    "Where": _where,
    "Xor": _pairs(function.not_equal),
})  # fmt: skip
"""Readers of nodes, by the names of their operators."""

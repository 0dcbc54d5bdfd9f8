"""The ONNX operators of each operation of nn, as `nn.onnx.export` writes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from nn import activation, operation
from nn.activation.activation import Activation
from nn.arrays import LENGTH, Array
from nn.onnx.axes import channels_first, channels_last
from nn.onnx.exporter import Exporter
from nn.onnx.messages import BOOL, DOUBLE, INT64, ValueInfo
from nn.operation.augmentation import Affine, Contrast, Crop, Flip
from nn.operation.convolution import Convolution, RectifiedConvolution, TransposedConvolution
from nn.operation.convolution.window import Window, place
from nn.operation.encoding import Encode
from nn.operation.operation import Operation
from nn.operation.pooling import Pool
from nn.operation.recurrent import cells
from nn.operation.recurrent.recurrence import Recurrence
from nn.value.value import Node, Value, Variable

Convert: TypeAlias = Callable[[Exporter, Node, Any], str]
"""Adds the operators for a node with its operation, and returns the name of the result."""
Function: TypeAlias = Callable[[Exporter, str, Any], str]
"""Adds the operators for a function of one value, given by its name, and returns the name of the result."""

_LEAST, _GREATEST = -(1 << 63) + 1, (1 << 63) - 1
"""Bounds of a slice that leave nothing out."""


def _operator(kind: str, **given: Any) -> Function:
    return lambda out, x, found: out.add(kind, x, **given)


def _clip(low: float, high: float) -> Function:
    return lambda out, x, found: out.add("Clip", x, out.number(low), out.number(high))


def _with_alpha(kind: str) -> Function:
    return lambda out, x, found: out.add(kind, x, alpha=float(found.alpha))


def _gelu(out: Exporter, x: str, found: activation.GELU) -> str:
    return out.add("Gelu", x, approximate="tanh" if found.approximate else "none")


FUNCTIONS: Mapping[type[Operation], Function] = MappingProxyType({
    activation.ELU: _with_alpha("Elu"),
    activation.Exponential: _operator("Exp"),
    activation.GELU: _gelu,
    activation.HTanh: _clip(-1, 1),
    activation.HardSigmoid: _operator("HardSigmoid", alpha=1 / 6, beta=0.5),
    activation.HardSwish: _operator("HardSwish"),
    activation.LeakReLU: _with_alpha("LeakyRelu"),
    activation.Linear: lambda out, x, found: x,
    activation.LogSigmoid: lambda out, x, found: out.add("Neg", out.add("Softplus", out.add("Neg", x))),
    activation.Mish: _operator("Mish"),
    activation.ReLU: _operator("Relu"),
    activation.ReLU6: _clip(0, 6),
    activation.SELU: _operator("Selu"),
    activation.SiLU: lambda out, x, found: out.add("Mul", x, out.add("Sigmoid", x)),
    activation.Sigmoid: _operator("Sigmoid"),
    activation.Softplus: _operator("Softplus"),
    activation.Softsign: _operator("Softsign"),
    activation.Tanh: _operator("Tanh"),
    # Draws change images in training only.
    Affine: lambda out, x, found: x,
    Contrast: lambda out, x, found: x,
    Flip: lambda out, x, found: x,
    operation.Absolute: _operator("Abs"),
    operation.DropoutOperation: lambda out, x, found: x,
    operation.Exp: _operator("Exp"),
    operation.GaussianDropoutOperation: lambda out, x, found: x,
    operation.GaussianNoiseOperation: lambda out, x, found: x,
    operation.Log: _operator("Log"),
    operation.Negative: _operator("Neg"),
    operation.Sqrt: _operator("Sqrt"),
    operation.Square: lambda out, x, found: out.add("Mul", x, x),
})  # fmt: skip
"""Functions of single elements, which any order of the axes suits."""

ROWS: Mapping[type[Operation], str] = MappingProxyType({activation.Softmax: "Softmax", activation.LogSoftmax: "LogSoftmax"})
"""Functions of the last axis."""


def apply(out: Exporter, found: Operation, x: str) -> str:
    """Add the operators for a function of one value; raise ValueError for one of a user's own.

    Args:
        out: writer of the graph.
        found: the function.
        x: name of the value.
    """
    if type(found) in ROWS:
        return out.add(ROWS[type(found)], x, axis=-1)
    function = FUNCTIONS.get(type(found))
    if function is None:
        raise out.unknown(found)
    return out.orders.through(x, lambda source: function(out, source, found))


def convert(out: Exporter, node: Node) -> str:
    """Add the operators for a node and return the name of its result; raise ValueError for an operation of a user's own."""
    found = CONVERTERS.get(type(node.operation))
    if found is not None:
        return found(out, node, node.operation)
    if len(node.inputs) > 1:
        raise out.unknown(node.operation)
    return apply(out, node.operation, out.name(node.inputs[0]))


def _pair(kind: str) -> Convert:
    """Return the conversion to one operator of two operands that broadcast."""

    def made(out: Exporter, node: Node, found: Operation) -> str:
        a, b = out.inputs(node)
        (first, order), (second, other) = out.orders.source(a), out.orders.source(b)
        # Both in the same other order, as images between convolutions are.
        if order is not None and order == other:
            return out.orders.turned(out.add(kind, first, second), order)
        return out.add(kind, a, b)

    return made


_RELATIONS = MappingProxyType({">": "Greater", ">=": "GreaterOrEqual", "<": "Less", "<=": "LessOrEqual", "==": "Equal"})


def _compare(out: Exporter, node: Node, found: operation.Compare) -> str:
    mask = out.add(_RELATIONS.get(found.relation, "Equal"), *out.inputs(node))
    if found.relation == "!=":
        mask = out.add("Not", mask)
    return out.add("Cast", mask, to=out.elements)


def _where(out: Exporter, node: Node, found: operation.Where) -> str:
    a, b, condition = out.inputs(node)
    return out.add("Where", out.add("Cast", condition, to=BOOL), a, b)


def _reduce(kind: str) -> Convert:
    def made(out: Exporter, node: Node, found: operation.Reduction) -> str:
        axes = out.integers(found._axes(node.inputs[0].shape))
        return out.add(kind, out.name(node.inputs[0]), axes, keepdims=int(found.keepdims))

    return made


def _reshape(out: Exporter, node: Node, found: operation.Reshape) -> str:
    return out.add("Reshape", out.name(node.inputs[0]), out.integers(node.shape))


def _transpose(out: Exporter, node: Node, found: operation.Transpose) -> str:
    return out.orders.turned(out.name(node.inputs[0]), found._order(node.inputs[0].shape))


def _concatenate(out: Exporter, node: Node, found: operation.Concatenate) -> str:
    return out.add("Concat", *out.inputs(node), axis=found.axis)


def _index(out: Exporter, node: Node, found: operation.Index) -> str:
    x, key = out.name(node.inputs[0]), found._full_key(node.inputs[0].shape)
    entries = [entry for entry in key if entry is not None]
    cuts = {axis: entry for axis, entry in enumerate(entries) if isinstance(entry, slice) and entry != slice(None)}
    if cuts:
        starts, stops, steps = zip(*map(_bounds, cuts.values()), strict=True)
        x = out.add("Slice", x, *map(out.integers, (starts, stops, tuple(cuts), steps)))
    # From the last axis to the first, as each number takes its axis away and a list may bring several.
    for axis in reversed(range(len(entries))):
        if not isinstance(entries[axis], slice):
            x = out.add("Gather", x, out.integers(entries[axis]), axis=axis)
    added, place = [], 0
    for entry in key:
        if entry is None:
            added.append(place)
        place += np.ndim(entry) if isinstance(entry, (int, np.ndarray)) else 1
    return out.add("Unsqueeze", x, out.integers(added)) if added else x


def _bounds(entry: slice) -> tuple[int, int, int]:
    step = 1 if entry.step is None else int(entry.step)
    start = (0 if step > 0 else _GREATEST) if entry.start is None else int(entry.start)
    stop = (_GREATEST if step > 0 else _LEAST) if entry.stop is None else int(entry.stop)
    return start, stop, step


def _pad(out: Exporter, node: Node, found: operation.Pad) -> str:
    rest = [(0, 0)] * (len(node.shape) - 1 - len(found.widths))
    before, behind = zip((0, 0), *found.widths, *rest, strict=True)
    return out.add("Pad", out.name(node.inputs[0]), out.integers([*before, *behind]))


def _repeat(out: Exporter, node: Node, found: operation.Repeat) -> str:
    scales = np.ones(len(node.shape), np.float32)
    scales[1 : 1 + len(found.times)] = found.times
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return out.add("Resize", out.name(node.inputs[0]), "", out.store(scales, "scales"), **how)


def _tensor_dot(out: Exporter, node: Node, found: operation.TensorDot) -> str:
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


def _lookup(out: Exporter, node: Node, found: operation.Lookup) -> str:
    ids, table = out.inputs(node)
    return out.add("Gather", table, out.add("Cast", ids, to=INT64), axis=0)


def _encode(out: Exporter, node: Node, found: Encode) -> str:
    ids = out.add("Unsqueeze", out.name(node.inputs[0]), out.integers([2]))
    numbers = out.add("Range", *map(out.number, (0, found.count, 1)))
    rows = out.add("Cast", out.add("Equal", ids, numbers), to=out.elements)
    if found.mode == "one_hot":
        return rows
    return out.add("ReduceSum" if found.mode == "count" else "ReduceMax", rows, out.integers([1]), keepdims=0)


def _crop(out: Exporter, node: Node, found: Crop) -> str:
    _, height, width, _ = node.inputs[0].shape
    top, left = (height - found.height) // 2, (width - found.width) // 2
    cuts = (top, left), (top + found.height, left + found.width), (1, 2)
    return out.add("Slice", out.name(node.inputs[0]), *map(out.integers, cuts))


def _rotary(out: Exporter, node: Node, found: operation.Rotary) -> str:
    def exact(number: float) -> str:
        return out.store(np.array(number, np.float64), "exact")

    x, (_, positions, _, features) = out.name(node.inputs[0]), node.inputs[0].shape
    count = exact(positions)
    if positions == LENGTH:
        count = out.add("Cast", out.add("Gather", out.add("Shape", x), out.integers(1), axis=0), to=DOUBLE)
    # Computed in double precision, as in nn, from single numbers: a reader takes stored arrays for weights.
    pairs = out.add("Range", exact(0), exact(features // 2), exact(1))
    waves = out.add("Exp", out.add("Mul", pairs, exact(-2 * math.log(found.base) / features)))
    steps = out.add("Unsqueeze", out.add("Range", exact(0), count, exact(1)), out.integers([1]))
    angles = out.add("Unsqueeze", out.add("Mul", steps, waves), out.integers([2]))
    cosine, sine = (out.add("Cast", out.add(kind, angles), to=out.elements) for kind in ("Cos", "Sin"))

    def table(first: str, second: str) -> str:
        return out.add("Reshape", out.add("Concat", first, second, axis=2), out.integers([-1, 1, features]))

    # Of the other feature of each pair; the first one takes it away.
    swapped = out.add("Gather", x, out.integers(np.arange(features) ^ 1), axis=3)
    kept, crossed = table(cosine, cosine), table(out.add("Neg", sine), sine)
    return out.add("Add", out.add("Mul", x, kept), out.add("Mul", swapped, crossed))


def _normal(out: Exporter, node: Node, found: operation.NormalDraw) -> str:
    shape = out.add("Shape", out.name(node.inputs[0]))
    return out.add("ConstantOfShape", shape, value=np.zeros(1, out.dtype))


def _batch_norm(out: Exporter, node: Node, found: operation.BatchNormalize) -> str:
    # A mask, behind the five, counts in training only.
    x, *statistics = out.inputs(node)[:5]
    first = out.orders.turned(x, channels_first(len(node.shape)))
    given = {"epsilon": float(found.epsilon), "momentum": float(found.momentum)}
    return out.orders.turned(out.add("BatchNormalization", first, *statistics, **given), channels_last(len(node.shape)))


def _layer_norm(out: Exporter, node: Node, found: operation.LayerNormalize) -> str:
    return out.add("LayerNormalization", *out.inputs(node), axis=-1, epsilon=float(found.epsilon))


def _rms_norm(out: Exporter, node: Node, found: operation.RMSNormalize) -> str:
    x, scale = out.inputs(node)
    mean = out.add("ReduceMean", out.add("Mul", x, x), out.integers([-1]), keepdims=1)
    root = out.add("Sqrt", out.add("Add", mean, out.number(found.epsilon)))
    return out.add("Mul", out.add("Div", x, root), scale)


def _group_norm(out: Exporter, node: Node, found: operation.GroupNormalize) -> str:
    x, gamma, beta = out.inputs(node)
    first = out.orders.turned(x, channels_first(len(node.shape)))
    # The channels and places of a group are the places of one channel of another array.
    apart = out.add("Reshape", first, out.integers((0, found.groups, -1)))
    ones, zeros = out.tensor(np.ones(found.groups)), out.tensor(np.zeros(found.groups))
    made = out.add("InstanceNormalization", apart, ones, zeros, epsilon=float(found.epsilon))
    back = out.add("Reshape", made, out.add("Shape", first))
    normal = out.orders.turned(back, channels_last(len(node.shape)))
    return out.add("Add", out.add("Mul", normal, gamma), beta)


def _kernel(out: Exporter, value: Value) -> str:
    """Return a kernel (cells, ..., a, b) as ONNX has it, (b, a, cells, ...)."""
    axes = len(value.shape) - 2
    order = (axes + 1, axes, *range(axes))
    if isinstance(value, Variable):
        return out.tensor(value.value.transpose(order), value.name)
    return out.orders.turned(out.name(value), order)


def _convolution(out: Exporter, node: Node, found: Convolution) -> str:
    x, kernel, *bias = node.inputs
    windows = place("Convolution", x.shape[1:-1], kernel.shape[:-2], found.strides, found.padding, found.dilations)
    made = out.add(
        "Conv", out.orders.turned(out.name(x), channels_first(len(x.shape))), _kernel(out, kernel), *map(out.name, bias),
        strides=list(found.strides), dilations=list(found.dilations), group=found.groups,
        kernel_shape=list(kernel.shape[:-2]), **_pads(windows, found.padding),
    )  # fmt: skip
    if found.rectified:
        made = out.add("Relu", made)
    return out.orders.turned(made, channels_last(len(x.shape)))


def _pads(windows: Sequence[Window], padding: object) -> dict[str, Any]:
    """Return the padding of windows: cells before and behind or, for axes of any length, the rule."""
    if any(window.length == LENGTH for window in windows):
        if padding == "same":
            return {"auto_pad": "SAME_UPPER"}
        cells = padding if isinstance(padding, int) else 0
        windows = [window._replace(before=cells, after=cells) for window in windows]
        if padding == "causal":
            windows = [window._replace(before=window.span - 1) for window in windows]
    return {"pads": [*(window.before for window in windows), *(window.after for window in windows)]}


def _transposed(out: Exporter, node: Node, found: TransposedConvolution) -> str:
    x, kernel = node.inputs
    windows = found._place(x.shape, kernel.shape)
    # Cells behind are cut off or, where there are too few, added as zeros.
    rest = [
        (count - 1) * window.stride + window.size - window.before - window.length
        for window, count in zip(windows, x.shape[1:-1], strict=True)
    ]
    made = out.add(
        "ConvTranspose", out.orders.turned(out.name(x), channels_first(len(x.shape))), _kernel(out, kernel),
        strides=list(found.strides), kernel_shape=list(kernel.shape[:-2]),
        pads=[*(window.before for window in windows), *(max(cells, 0) for cells in rest)],
        output_padding=[max(-cells, 0) for cells in rest],
    )  # fmt: skip
    return out.orders.turned(made, channels_last(len(x.shape)))


def _pool(kind: str, **given: Any) -> Convert:
    def made(out: Exporter, node: Node, found: Pool) -> str:
        shape = node.inputs[0].shape
        pads = _pads(place(kind, shape[1:-1], found.size, found.strides, found.padding), found.padding)
        first = out.orders.turned(out.name(node.inputs[0]), channels_first(len(shape)))
        pooled = out.add(kind, first, kernel_shape=list(found.size), strides=list(found.strides), **pads, **given)
        return out.orders.turned(pooled, channels_last(len(shape)))

    return made


def _attention(out: Exporter, node: Node, found: operation.Attention) -> str:
    q, k, v, *masks = out.inputs(node)
    (_, targets, _, depth), (_, sources, *_) = node.inputs[0].shape, node.inputs[1].shape
    scaled = out.add("Mul", out.orders.turned(q, (0, 2, 1, 3)), out.number(1 / math.sqrt(depth)))
    scores = out.add("MatMul", scaled, out.orders.turned(k, (0, 2, 3, 1)))
    if masks:
        # As many axes as the scores: heads, and targets where the mask has none.
        axes = (1,) if len(node.inputs[3].shape) == 3 else (1, 2)
        seen = out.add("Unsqueeze", out.add("Cast", masks[0], to=BOOL), out.integers(axes))
        scores = out.add("Where", seen, scores, out.number(float(np.finfo(out.dtype).min) / 2))
    if found.causal:
        scores = out.add("Add", scores, _future(out, scores, targets, sources))
    weights = out.add("Softmax", scores, axis=-1)
    return out.orders.turned(out.add("MatMul", weights, out.orders.turned(v, (0, 2, 1, 3))), (0, 2, 1, 3))


def _future(out: Exporter, scores: str, targets: int, sources: int) -> str:
    """Return the numbers to add to scores: minus infinity where a target would see a later source."""
    if LENGTH not in (targets, sources):
        return out.tensor(np.triu(np.full((targets, sources), -np.inf), 1))
    whole = out.add("ConstantOfShape", out.add("Shape", scores, start=2), value=np.full(1, -np.inf, out.dtype))
    # It writes zeros elsewhere.
    return out.add("Trilu", whole, out.integers(1), upper=1)


_CELLS: Mapping[type[Recurrence], tuple[str, Sequence[int]]] = MappingProxyType({
    cells.LSTMOperation: ("LSTM", (0, 3, 1, 2)), cells.DroppingLSTM: ("LSTM", (0, 3, 1, 2)),
    cells.GRUOperation: ("GRU", (0, 1, 2)), cells.DroppingGRU: ("GRU", (0, 1, 2)),
    cells.SimpleRNNOperation: ("RNN", (0,)), cells.DroppingSimpleRNN: ("RNN", (0,)),
})  # fmt: skip
"""Operator of a kind of cell, and the order of its gates by their numbers in nn."""

_STEP_FUNCTIONS: Mapping[type[Activation], str] = MappingProxyType(
    {activation.Tanh: "Tanh", activation.ReLU: "Relu", activation.Sigmoid: "Sigmoid"}
)


def _recurrent(out: Exporter, node: Node, found: Recurrence) -> str:
    plain = not isinstance(found, cells.SimpleRNNOperation) or type(found.activation) in _STEP_FUNCTIONS
    weights = node.inputs[1 : len(node.inputs) - found.extras]
    variables = [value for value in weights if isinstance(value, Variable)]
    if plain and not found.masked and len(variables) == len(weights):
        sequence, last = _by_operator(out, node, found, variables)
    else:
        sequence, last = _by_loop(out, node, found)
    if not found.with_cell:
        return sequence if found.return_sequences else last[0]
    whole = sequence if found.return_sequences else out.add("Unsqueeze", last[0], out.integers([1]))
    return out.add("Concat", whole, out.add("Unsqueeze", last[1], out.integers([1])), axis=1)


def _by_operator(out: Exporter, node: Node, found: Recurrence, variables: Sequence[Variable]) -> tuple[str, list[str]]:
    """Return the states of all steps and the last ones, by the operator for this kind of cell."""
    kind, order = _CELLS[type(found)]
    kernel, recurrent, *bias = variables
    inputs = [out.tensor(_gates(each.value.T, order)[np.newaxis], each.name) for each in (kernel, recurrent)]
    given: dict[str, Any] = {"hidden_size": recurrent.shape[0]}
    if kind == "GRU":
        given["linear_before_reset"] = 1
    if isinstance(found, cells.SimpleRNNOperation):
        given["activations"] = [_STEP_FUNCTIONS[type(found.activation)]]
    if bias:
        # ONNX has two, of which most cells of nn have the first.
        both = np.zeros((2, kernel.shape[1]), out.dtype)
        both[: found.biases] = bias[0].value.reshape(found.biases, -1)
        inputs.append(out.tensor(np.concatenate([_gates(each, order) for each in both])[np.newaxis], bias[0].name))
    states = [out.add("Unsqueeze", out.name(each), out.integers([0])) for each in node.inputs[len(variables) + 1 :]]
    if states:
        # Between bias and states there may be lengths.
        inputs += [*[""] * (4 - len(inputs)), *states]
    steps = out.orders.turned(out.name(node.inputs[0]), (1, 0, 2))
    results = out.add_several(kind, 1 + found.states, steps, *inputs, **given)
    sequence = out.orders.turned(out.add("Squeeze", results[0], out.integers([1])), (1, 0, 2))
    return sequence, [out.add("Squeeze", each, out.integers([0])) for each in results[1:]]


def _gates(array: Array, order: Sequence[int]) -> Array:
    """Return the blocks of rows for gates in another order."""
    blocks = np.split(array, len(order))
    return np.concatenate([blocks[number] for number in order])


def _by_loop(out: Exporter, node: Node, found: Recurrence) -> tuple[str, list[str]]:
    """Return the states of all steps and the last ones, by a loop over the steps: for masks, and most functions."""
    x, kernel, recurrent, *rest = out.inputs(node)
    bias, extra = rest[: len(rest) - found.extras], rest[len(rest) - found.extras :]
    scores, second = out.add("MatMul", x, kernel), ""
    if bias and found.biases == 2:
        first, second = (out.add("Gather", bias[0], out.integers(number), axis=0) for number in range(2))
        scores = out.add("Add", scores, first)
    elif bias:
        scores = out.add("Add", scores, bias[0])
    masks = [out.add("Unsqueeze", out.add("Cast", mask, to=BOOL), out.integers([2])) for mask in extra[: found.masked]]
    units = node.inputs[2].shape[0]
    states = extra[found.masked :] or [out.zeros_per_sample(scores, units)] * found.states

    def body() -> tuple[list[ValueInfo], list[str]]:
        before, (step,) = [out.entry("state", out.elements) for _ in states], [out.entry("step", out.elements)]
        seen = [out.entry("seen", BOOL) for _ in masks]
        names = [each.name or "" for each in before]
        product = out.add("MatMul", names[0], recurrent)
        after = _step(out, found, step.name or "", out.add("Add", product, second) if second else product, names)
        for mask in seen:
            after = [out.add("Where", mask.name or "", new, old) for new, old in zip(after, names, strict=True)]
        # An output of each step besides the state that goes on.
        return [*before, step, *seen], [*after, out.add("Identity", after[0])]

    loop = out.body("step", body)
    taken = [scores, *masks]
    given = {"num_scan_inputs": len(taken), "scan_input_axes": [1] * len(taken), "scan_output_axes": [1]}
    results = out.add_several("Scan", len(states) + 1, *states, *taken, body=loop, **given)
    return results[-1], results[:-1]


def _step(out: Exporter, found: Recurrence, x: str, product: str, states: Sequence[str]) -> list[str]:
    """Return the states after a step, for the product with x and that with the state before."""
    if isinstance(found, cells.SimpleRNNOperation):
        return [apply(out, found.activation, out.add("Add", x, product))]
    if isinstance(found, cells.GRUOperation):
        (xz, xr, xa), (hz, hr, hq) = (out.add_several("Split", 3, each, axis=-1, num_outputs=3) for each in (x, product))
        z, r = (out.add("Sigmoid", out.add("Add", a, b)) for a, b in ((xz, hz), (xr, hr)))
        g = out.add("Tanh", out.add("Add", xa, out.add("Mul", r, hq)))
        return [out.add("Add", g, out.add("Mul", z, out.add("Sub", states[0], g)))]
    i, f, g, o = out.add_several("Split", 4, out.add("Add", x, product), axis=-1, num_outputs=4)
    kept = out.add("Mul", out.add("Sigmoid", f), states[1])
    cell = out.add("Add", kept, out.add("Mul", out.add("Sigmoid", i), out.add("Tanh", g)))
    return [out.add("Mul", out.add("Sigmoid", o), out.add("Tanh", cell)), cell]


CONVERTERS: Mapping[type[Operation], Convert] = MappingProxyType({
    operation.Add: _pair("Add"),
    operation.Attention: _attention,
    operation.BatchNormalize: _batch_norm,
    # A file keeps no positions from run to run: it begins with the first one, where this is `Attention(causal=True)`.
    operation.CachedAttention: _attention,
    operation.Compare: _compare,
    operation.Concatenate: _concatenate,
    operation.Divide: _pair("Div"),
    operation.GroupNormalize: _group_norm,
    operation.Index: _index,
    operation.LayerNormalize: _layer_norm,
    operation.Lookup: _lookup,
    operation.MatMul: lambda out, node, found: out.add("MatMul", *out.inputs(node)),
    operation.Max: _reduce("ReduceMax"),
    operation.Maximum: _pair("Max"),
    operation.Mean: _reduce("ReduceMean"),
    operation.Min: _reduce("ReduceMin"),
    operation.Minimum: _pair("Min"),
    operation.Multiply: _pair("Mul"),
    operation.NormalDraw: _normal,
    operation.Pad: _pad,
    operation.PoolAverage: _pool("AveragePool", count_include_pad=0),
    operation.PoolMax: _pool("MaxPool"),
    operation.Power: _pair("Pow"),
    operation.RMSNormalize: _rms_norm,
    operation.Repeat: _repeat,
    operation.Reshape: _reshape,
    operation.Rotary: _rotary,
    operation.Subtract: _pair("Sub"),
    operation.Sum: _reduce("ReduceSum"),
    operation.TensorDot: _tensor_dot,
    operation.Transpose: _transpose,
    operation.Where: _where,
    Convolution: _convolution,
    Crop: _crop,
    Encode: _encode,
    RectifiedConvolution: _convolution,
    TransposedConvolution: _transposed,
    **dict.fromkeys(_CELLS, _recurrent),
})  # fmt: skip
"""Conversions of operations that need more than a name, or several values."""

"""The operations."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from nn import function, operation
from nn.arrays import Array, Shape
from nn.operation import DropoutOperation
from nn.operation.encoding import Encode
from nn.operation.rotary import Place
from nn.value import Buffer, Value, Variable
from tests.contract.nn_rows.graph_row import GraphRow, Positive, positive, softmax, with_variable


def with_variables(*shapes: Shape) -> Callable[[operation.Operation], Callable[[], Callable[[Value], Value]]]:
    """Build an operation of an input and several variables whose values are positive."""

    def bind(applied: operation.Operation) -> Callable[[], Callable[[Value], Value]]:
        def build() -> Callable[[Value], Value]:
            variables = [Variable(shape, Positive()) for shape in shapes]
            return lambda x: x.apply(applied, *variables)

        return build

    return bind


def encoded(mode: str, x: Array) -> Array:
    """The ids of `row_numbers` as rows of ones."""
    rows = np.eye(6)[(x > -0.5).astype(int) + (x > 0.5)]
    return np.asarray(rows if mode == "one_hot" else rows.max(axis=1) if mode == "multi_hot" else rows.sum(axis=1))


def with_statistics(applied: operation.Operation) -> Callable[[], Callable[[Value], Value]]:
    """Build a normalisation of an input with four features."""

    def build() -> Callable[[Value], Value]:
        gamma, beta, mean, variance = Variable([4], Positive()), Variable([4]), Buffer([4], Positive()), Buffer([4], Positive())
        return lambda x: x.apply(applied, gamma, beta, mean, variance)

    return build


def apart(generator: np.random.Generator, shape: Shape) -> Array:
    """Numbers no two of which are near each other."""
    size = int(np.prod(shape))
    return (generator.permutation(size).reshape(shape) - size / 2 + 0.25) / 3


def row_numbers(x: Value) -> Value:
    """Ids from 0 to 2, whole numbers also where a difference quotient moves x a little."""
    return (x > -0.5) + (x > 0.5)


def normalized(x: Array, axis: tuple[int, ...]) -> Array:
    centred = x - x.mean(axis=axis, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=axis, keepdims=True) + 0.01)


def attended(q: Array, k: Array, v: Array, causal: bool) -> Array:
    """Attention of (positions, heads, features), one sample, head by head."""
    heads = []
    for head in range(q.shape[1]):
        scores = q[:, head] @ k[:, head].T / np.sqrt(q.shape[2])
        if causal:
            scores = np.where(np.tri(*scores.shape, dtype=bool), scores, -np.inf)
        heads.append(softmax(scores) @ v[:, head])
    return np.stack(heads, axis=1)


def attention(causal: bool) -> Callable[[], Callable[[Value], Value]]:
    """Attention whose queries, keys and values all depend on the input."""
    return lambda: lambda x: operation.Attention(causal)(x[:, :2], x[:, 2:5] * 2, x[:, 2:5, :, :3])


def attention_value(x: Array, causal: bool) -> Array:
    return np.stack([attended(one[:2], one[2:5] * 2, one[2:5, :, :3], causal) for one in x])


def turned(x: Array, base: float = 10_000.0) -> Array:
    """Rotary positions by rotation matrices, (batch, positions, heads, features)."""
    out = np.empty_like(x)
    for position in range(x.shape[1]):
        for pair in range(x.shape[3] // 2):
            angle = position / base ** (2 * pair / x.shape[3])
            matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            out[:, position, :, 2 * pair : 2 * pair + 2] = x[:, position, :, 2 * pair : 2 * pair + 2] @ matrix.T
    return out


def cached_attention() -> Callable[[Value], Value]:
    """Cached attention at the beginning of sequences, of which there are five at most."""
    applied = operation.CachedAttention(Place(), np.zeros((5, 2, 3, 4)), np.zeros((5, 2, 3, 3)))
    return lambda x: applied(x, x * 2, x[..., :3])


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
    GraphRow(operation.Power, lambda: lambda x: x ** [0, 1, 2, 3], (4,), lambda x: x ** np.arange(4), label="also to nothing"),
    GraphRow(operation.Negative, lambda: lambda x: -x, (4,), lambda x: -x),
    GraphRow(operation.Negative, lambda: lambda x: -(x * x), (4,), lambda x: -(x * x), label="in place"),
    GraphRow(operation.MatMul, with_variable(lambda x, w: x @ w, [4, 2]), (4,), lambda x, w: x @ w),
    GraphRow(operation.MatMul, with_variable(lambda x, w: x @ w, [4, 2]), (3, 4), lambda x, w: x @ w, label="rows of rows"),
    GraphRow(operation.MatMul, with_variable(lambda x, w: x @ w, [1, 4, 2]), (3, 4), lambda x, w: x @ w, label="stack"),
    GraphRow(operation.MatMul, with_variable(lambda x, w: w @ x, [2, 3]), (3, 4), lambda x, w: w @ x, label="left"),
    GraphRow(operation.MatMul, lambda: lambda x: x @ (x * 2), (3, 3), lambda x: x @ (x * 2), label="both"),
    GraphRow(operation.Reshape, lambda: lambda x: x.reshape(-1, 6), (2, 3), lambda x: x.reshape(-1, 6)),
    GraphRow(operation.Reshape, lambda: lambda x: (-x).reshape(-1, 3), (2, 3), lambda x: -x.reshape(-1, 3), label="in place"),
    GraphRow(operation.SplitSteps, lambda: lambda x: operation.SplitSteps()(x.reshape(-1, 3).exp(), x), (2, 3), np.exp),
    GraphRow(operation.SplitSteps, lambda: lambda x: operation.SplitSteps()(x.reshape(-1, 3), x * x) * x, (2, 3),
             lambda x: x * x, label="alias"),
    GraphRow(operation.MatMul, lambda: lambda x: x @ x.swapaxes(1, 2), (2, 3),
             lambda x: x @ x.swapaxes(1, 2), label="itself"),
    GraphRow(operation.MatMul, lambda: lambda x: x[:, None] @ x[..., None], (2, 3), lambda x: x[:, None] @ x[..., None],
             label="stacks that broadcast"),
    GraphRow(operation.MatMul, with_variable(lambda x, w: w @ x, [2, 2, 3]), (2, 3, 4), lambda x, w: w @ x, label="stack left"),
    GraphRow(operation.MatMul, with_variable(lambda x, w: (w @ x).swapaxes(0, 1), [2, 1, 2, 3]), (3, 4),
             lambda x, w: (w @ x).swapaxes(0, 1), label="batch inside"),
    GraphRow(operation.MatMul, with_variable(lambda x, w: x @ (x.T @ (x @ w)), [4, 2]), (4,), lambda x, w: x @ (x.T @ (x @ w)),
             label="over the batch"),
    GraphRow(operation.MatMul, with_variable(lambda x, w: x @ w, [4]), (3, 4), lambda x, w: x @ w, label="vector"),
    GraphRow(operation.MatMul, with_variable(lambda x, w: w @ x, [3]), (3, 4), lambda x, w: w @ x, label="vector left"),
    GraphRow(operation.Square, lambda: lambda x: x**2, (4,), lambda x: x * x),
    GraphRow(operation.Exp, lambda: lambda x: x.exp(), (4,), np.exp),
    GraphRow(operation.Exp, lambda: lambda x: (x + 1).exp(), (4,), lambda x: np.exp(x + 1), label="in place"),
    GraphRow(operation.Log, lambda: lambda x: x.log(), (4,), np.log, positive),
    GraphRow(operation.Sqrt, lambda: lambda x: x.sqrt(), (4,), np.sqrt, positive),
    GraphRow(operation.Sin, lambda: lambda x: function.sin(x * 3), (4,), lambda x: np.sin(x * 3)),
    GraphRow(operation.Cos, lambda: lambda x: function.cos(x * 3), (4,), lambda x: np.cos(x * 3)),
    GraphRow(operation.Tan, lambda: lambda x: function.tan(function.arctan(x)), (4,), lambda x: x),
    GraphRow(operation.Arcsin, lambda: lambda x: function.arcsin(function.sin(x) * 0.9), (4,),
             lambda x: np.arcsin(np.sin(x) * 0.9)),
    GraphRow(operation.Arccos, lambda: lambda x: function.arccos(function.sin(x) * 0.9), (4,),
             lambda x: np.arccos(np.sin(x) * 0.9)),
    GraphRow(operation.Arctan, lambda: lambda x: function.arctan(x * 3), (4,), lambda x: np.arctan(x * 3)),
    GraphRow(operation.Sinh, lambda: function.sinh, (4,), np.sinh),
    GraphRow(operation.Cosh, lambda: function.cosh, (4,), np.cosh),
    GraphRow(operation.Arcsinh, lambda: lambda x: function.arcsinh(x * 3), (4,), lambda x: np.arcsinh(x * 3)),
    GraphRow(operation.Arccosh, lambda: lambda x: function.arccosh(x * x + 1.5), (4,), lambda x: np.arccosh(x * x + 1.5)),
    GraphRow(operation.Arctanh, lambda: lambda x: function.arctanh(function.sin(x) * 0.9), (4,),
             lambda x: np.arctanh(np.sin(x) * 0.9)),
    GraphRow(operation.Erf, lambda: function.erf, (4,), np.vectorize(math.erf, [float])),
    GraphRow(operation.Erf, lambda: lambda x: function.erf(x * 9) * function.erf(x / 9), (4,),
             lambda x: np.vectorize(math.erf)(x * 9) * np.vectorize(math.erf)(x / 9), label="far and near"),
    GraphRow(operation.Absolute, lambda: lambda x: abs(x), (4,), np.abs, apart),
    GraphRow(operation.Transpose, lambda: lambda x: x.transpose(0, 3, 1, 2), (2, 3, 4), lambda x: x.transpose(0, 3, 1, 2)),
    GraphRow(operation.Transpose, with_variable(lambda x, w: x @ w.T, [4, 3]), (3,), lambda x, w: x @ w.T, label="variable"),

    GraphRow(operation.Transpose,
             lambda: lambda x: x.transpose(1, 0, 2).reshape(-1, 3).reshape(2, -1, 3).swapaxes(0, 1), (2, 3),
             lambda x: x, label="batch inside"),
    GraphRow(operation.Sum, lambda: lambda x: x.sum(axis=2), (2, 3), lambda x: x.sum(axis=2)),
    GraphRow(operation.Sum, lambda: lambda x: x.sum(axis=-2, keepdims=True), (2, 3), lambda x: x.sum(axis=1, keepdims=True),
             label="middle"),
    GraphRow(operation.Sum, lambda: lambda x: x.sum(axis=(1, 3)), (2, 3, 4), lambda x: x.sum(axis=(1, 3)), label="two axes"),
    GraphRow(operation.Sum, lambda: lambda x: x.sum(axis=(1, 2)), (2, 3), lambda x: x.sum(axis=(1, 2)), label="samples"),
    GraphRow(operation.Sum, lambda: lambda x: x * x.sum(), (2, 3), lambda x: x * x.sum(), label="everything"),
    GraphRow(operation.Sum, lambda: lambda x: x - x.sum(axis=(0, 2), keepdims=True), (2, 3),
             lambda x: x - x.sum(axis=(0, 2), keepdims=True), label="over the batch"),
    GraphRow(operation.Mean, lambda: lambda x: x.mean(axis=1), (2, 3), lambda x: x.mean(axis=1)),
    GraphRow(operation.Mean, lambda: lambda x: x - x.mean(axis=0), (2, 3), lambda x: x - x.mean(axis=0),
             label="over the batch"),
    GraphRow(operation.Max, lambda: lambda x: x.max(axis=1), (3, 2), lambda x: x.max(axis=1), apart),
    GraphRow(operation.Max, lambda: lambda x: x - x.max(axis=(1, 2), keepdims=True), (3, 2),
             lambda x: x - x.max(axis=(1, 2), keepdims=True), apart, label="two axes"),
    GraphRow(operation.Max, lambda: lambda x: x - x.max(), (3, 2), lambda x: x - x.max(), apart, label="everything"),
    GraphRow(operation.Min, lambda: lambda x: x.min(axis=-1), (3, 2), lambda x: x.min(axis=-1), apart),
    GraphRow(operation.Maximum, with_variable(lambda x, w: function.maximum(x, w), [4]), (4,), np.maximum),
    GraphRow(operation.Maximum, lambda: lambda x: function.maximum(x + 1, 1), (4,),
             lambda x: np.maximum(x + 1, 1), label="in place"),
    GraphRow(operation.Minimum, with_variable(lambda x, w: function.minimum(w, x), [3, 1]), (3, 4), np.minimum),
    GraphRow(operation.StopGradient, lambda: lambda x: x * function.stop_gradient(x > 0), (4,), lambda x: np.maximum(x, 0),
             apart),
    *[
        GraphRow(operation.Rounding, lambda to=to: lambda x: x * operation.Rounding(to)(x + 0.1), (4,),
                 lambda x, rounded=rounded: x * rounded(x + 0.1), apart, label=to)
        for to, rounded in (("down", np.floor), ("up", np.ceil), ("nearest", np.rint), ("zero", np.trunc))
    ],
    GraphRow(operation.Compare, lambda: lambda x: x * (x > 0), (4,), lambda x: np.maximum(x, 0), apart),
    GraphRow(operation.Compare, lambda: lambda x: x * function.not_equal(x, x), (4,), np.zeros_like, label="equality"),
    GraphRow(operation.Compare, with_variable(lambda x, w: x + w * (w <= x), [4]), (3, 4), lambda x, w: x + w * (w <= x),
             label="broadcast"),
    GraphRow(operation.Where, with_variable(lambda x, w: function.where(x > 0, x, w), [4]), (3, 4),
             lambda x, w: np.where(x > 0, x, w)),
    GraphRow(operation.Where, with_variable(lambda x, w: function.where(x[:, :1] > 0, w, 2 * x), [1]), (3, 4),
             lambda x, w: np.where(x[:, :1] > 0, w, 2 * x), label="broadcast"),
    GraphRow(operation.Where, lambda: lambda x: function.where(np.arange(4) % 2, x + 1, 0), (4,),
             lambda x: (x + 1) * (np.arange(4) % 2), label="in place"),
    GraphRow(operation.Index, lambda: lambda x: x[:, 1:3, -1], (4, 3), lambda x: x[:, 1:3, -1]),
    GraphRow(operation.Index, lambda: lambda x: x[..., None, ::-2], (4, 3), lambda x: x[..., None, ::-2], label="backwards"),
    GraphRow(operation.Index, lambda: lambda x: x[:, [2, 0]], (4, 3), lambda x: x[:, [2, 0]], label="list"),
    GraphRow(operation.Index, lambda: lambda x: x[:, None, :2, [[2, 0], [-1, 2]]], (4, 3),
             lambda x: x[:, None, :2, [[2, 0], [-1, 2]]],
             label="repeated"),
    GraphRow(operation.Index, with_variable(lambda x, w: x * w[1] + w[[0, 0], 1:2][0], [3, 4]), (4,),
             lambda x, w: x * w[1] + w[0, 1],
             label="variable"),
    GraphRow(operation.Concatenate, with_variable(lambda x, w: function.concatenate([x * w, x, x[:, :1]], axis=1), [3]), (4, 3),
             lambda x, w: np.concatenate([x * w, x, x[:, :1]], axis=1)),
    GraphRow(operation.Concatenate, lambda: lambda x: function.stack([x, x * x], axis=1), (3,),
             lambda x: np.stack([x, x * x], axis=1),
             label="stack"),
    GraphRow(operation.Concatenate, lambda: lambda x: function.stack([x, -x], axis=0)[1], (3,), lambda x: -x,
             label="before the batch"),
    GraphRow(operation.Pad, lambda: operation.Pad([(1, 2), (0, 3)]), (2, 3, 2),
             lambda x: np.pad(x, [(0, 0), (1, 2), (0, 3), (0, 0)])),
    GraphRow(operation.Repeat, lambda: operation.Repeat((2, 3)), (3, 2, 2), lambda x: x.repeat(2, axis=1).repeat(3, axis=2)),
    GraphRow(operation.TensorDot, with_variable(lambda x, w: function.tensordot(x, w), [4, 2, 3]), (2, 4),
             lambda x, w: np.tensordot(x, w, 1)),
    GraphRow(operation.TensorDot, with_variable(lambda x, w: function.tensordot(x, w, 2), [2, 4, 3]), (5, 2, 4),
             lambda x, w: np.tensordot(x, w, 2), label="two axes"),
    GraphRow(operation.TensorDot, with_variable(lambda x, w: function.tensordot(x, w, ([1, 3], (2, 0))), [4, 3, 2]), (2, 5, 4),
             lambda x, w: np.tensordot(x, w, ([1, 3], [2, 0])), label="axes by number"),
    GraphRow(operation.LayerNormalize, with_variables((4,), (4,))(operation.LayerNormalize(0.01)), (3, 4),
             lambda x, gamma, beta: normalized(x, (2,)) * gamma + beta),
    GraphRow(operation.RMSNormalize, with_variables((4,))(operation.RMSNormalize(0.01)), (3, 4),
             lambda x, scale: scale * x / np.sqrt((x * x).mean(axis=2, keepdims=True) + 0.01)),
    GraphRow(operation.GroupNormalize, with_variables((4,), (4,))(operation.GroupNormalize(2, 0.01)), (3, 4),
             lambda x, gamma, beta: normalized(x.reshape(-1, 3, 2, 2), (1, 3)).reshape(x.shape) * gamma + beta),
    GraphRow(operation.ParametricRectify, with_variables((3, 1))(operation.ParametricRectify()), (3, 4),
             lambda x, alpha: np.where(x > 0, x, alpha * x), apart),
    GraphRow(operation.BatchNormalize, with_statistics(operation.BatchNormalize(0.9, 0.01)), (3, 4), None),
    GraphRow(operation.Lookup, with_variable(lambda x, table: function.lookup(row_numbers(x), table), [6, 3]), (4,),
             lambda x, table: table[(x > -0.5).astype(int) + (x > 0.5)]),
    GraphRow(operation.TopPlaces, lambda: lambda x: x[:, :2] * operation.TopPlaces(2, 1)(x), (4, 3),
             lambda x: x[:, :2] * (-x).argsort(axis=1)[:, :2], apart),
    GraphRow(operation.TopPlaces, lambda: lambda x: x * operation.TopPlaces(1)(x), (4,),
             lambda x: x * x.argmax(axis=1, keepdims=True), apart, label="one"),
    GraphRow(operation.TakeAlong, lambda: lambda x: operation.TakeAlong(1)(x, operation.TopPlaces(2, 1)(x)), (4, 3),
             lambda x: -np.sort(-x, axis=1)[:, :2], apart),
    GraphRow(operation.TakeAlong, lambda: lambda x: operation.TakeAlong()(x * x, row_numbers(x)), (3, 5),
             lambda x: np.take_along_axis(x * x, (x > -0.5).astype(int) + (x > 0.5), 2), label="repeated"),
    *[
        GraphRow(Encode, lambda mode=mode: lambda x: Encode(6, mode)(row_numbers(x)), (4,), partial(encoded, mode), label=mode)
        for mode in ("one_hot", "multi_hot", "count")
    ],
    GraphRow(operation.Attention, attention(False), (5, 2, 4), lambda x: attention_value(x, False)),
    GraphRow(operation.Attention, attention(True), (5, 2, 4), lambda x: attention_value(x, True), label="causal"),
    GraphRow(operation.DropoutAttention, lambda: lambda x: operation.DropoutAttention(True, 0.4)(x, x * 2, x[..., :3]),
             (5, 2, 4), None),
    GraphRow(operation.CachedAttention, cached_attention, (3, 2, 4),
             lambda x: np.stack([attended(one, one * 2, one[..., :3], causal=True) for one in x])),
    GraphRow(operation.Rotary, operation.Rotary, (5, 2, 4), turned),
    GraphRow(operation.Rotary, lambda: lambda x: operation.Rotary(7.0)(x.swapaxes(2, 3)), (5, 6, 2),
             lambda x: turned(x.swapaxes(2, 3), 7.0), label="base"),
    GraphRow(DropoutOperation, lambda: lambda x: DropoutOperation(0.4)(x), (7,), None),
    GraphRow(operation.GaussianDropoutOperation, lambda: lambda x: operation.GaussianDropoutOperation(0.4)(x), (7,), None),
    GraphRow(operation.GaussianNoiseOperation, lambda: lambda x: operation.GaussianNoiseOperation(0.4, True)(x), (3, 5), None),
    GraphRow(operation.NormalDraw, lambda: lambda x: x * operation.NormalDraw()(x), (7,), None),
]  # fmt: skip

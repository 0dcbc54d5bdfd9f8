"""The layers."""

from functools import partial

import numpy as np

from nn import activation, function, initializer, layer
from nn.arrays import Array
from nn.value import Value
from tests.contract.nn_rows.graph_row import GraphRow, softmax
from tests.contract.nn_rows.operations import normalized, row_numbers, turned
from tests.contract.nn_rows.recurrent import masked


def attended(
    x: Array,
    *variables: Array,
    value: Array | None = None,
    key: Array | None = None,
    causal: bool = False,
    seen: Array | None = None,
    base: float | None = None,
) -> Array:
    """Multi-head attention of x to itself or to another sequence, by einsum, with biases for all four maps."""
    value = x if value is None else value
    sources = (x, value if key is None else key, value)
    maps = zip(sources, variables[0:6:2], variables[1:6:2], strict=True)
    q, k, v = (np.einsum("bti,ihk->bhtk", source, kernel) + bias[:, None] for source, kernel, bias in maps)
    if base is not None:
        q, k = (turned(each.swapaxes(1, 2), base).swapaxes(1, 2) for each in (q, k))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    if causal:
        scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf)
    if seen is not None:
        scores = np.where(seen[:, None, None, :, 0] > 0, scores, -60.0)
    return np.einsum("bhtk,hko->bto", softmax(scores) @ v, variables[6]) + variables[7]


def between(x: Array, axis: int, times: int) -> Array:
    """Return `times` as many cells along an axis, on the lines between the centres of the old ones."""
    old, new = np.arange(x.shape[axis]), (np.arange(x.shape[axis] * times) + 0.5) / times - 0.5
    return np.apply_along_axis(lambda line: np.interp(new, old, line), axis, x)


def grouped(x: Array, groups: int) -> Array:
    """Return x normalised over the places and channels of each group of a sample."""
    apart = x.reshape(len(x), -1, groups, x.shape[-1] // groups)
    return normalized(apart, (1, 3)).reshape(x.shape)


def steps(x: Array) -> Array:
    """The mask of `masked`, with an axis for features."""
    return (x[..., :1] > -0.3).astype(float)


def mean_of_steps(x: Array) -> Array:
    return np.asarray((x * steps(x)).sum(axis=1) / np.maximum(steps(x).sum(axis=1), 1))


def max_of_steps(x: Array) -> Array:
    return np.asarray(np.where(steps(x) > 0, x, -1e30).max(axis=1) * steps(x).max(axis=1))


def padded(x: Value) -> Value:
    """x with steps of zeros, as padding."""
    return x * (x[:, :, :1] > -0.3)


LAYERS = [
    GraphRow(layer.Parameter, lambda: layer.Parameter([3, 1]), (3, 4), lambda x, w: x * w, behind=lambda x, w: w * x),
    GraphRow(layer.Masking, layer.Masking, (4, 3), lambda x: x * steps(x), ahead=padded),
    GraphRow(layer.GlobalAveragePool, layer.GlobalAveragePool, (4, 3), mean_of_steps, ahead=masked, label="mask"),
    GraphRow(layer.GlobalMaxPool, layer.GlobalMaxPool, (4, 3), max_of_steps, ahead=masked, label="mask"),
    GraphRow(layer.MultiHeadAttention, lambda: layer.MultiHeadAttention(2, 3), (4, 6),
             lambda x, *variables: attended(x, *variables, seen=steps(x)), ahead=masked, label="mask"),
    GraphRow(layer.Dense, lambda: layer.Dense(3), (4,), lambda x, w, b: x @ w + b),
    GraphRow(layer.Dense, lambda: layer.Dense(3, activation.Tanh()), (2, 4), lambda x, w, b: np.tanh(x @ w + b), label="rows"),
    GraphRow(layer.Dense, lambda: layer.Dense(3, use_bias=False), (4,), lambda x, w: x @ w, label="without bias"),
    GraphRow(layer.Dropout, lambda: layer.Dropout(0.4), (7,), None),
    GraphRow(layer.Flatten, layer.Flatten, (2, 3, 2), lambda x: x.reshape(-1, 12)),
    GraphRow(layer.Reshape, lambda: layer.Reshape([3, -1]), (2, 3), lambda x: x.reshape(-1, 3, 2)),
    GraphRow(layer.Add, layer.Add, (3,), lambda x: x),
    GraphRow(layer.Subtract, layer.Subtract, (3,), lambda x: 2 * x - x * x, ahead=lambda x: [x * 2, x * x]),
    GraphRow(layer.Multiply, layer.Multiply, (3,), lambda x: x * (x + 1) * x[:, :1], ahead=lambda x: [x, x + 1, x[:, :1]]),
    GraphRow(layer.Average, layer.Average, (3,), lambda x: x * x / 3, ahead=lambda x: [x, x * x, -x]),
    GraphRow(layer.Maximum, layer.Maximum, (3,), lambda x: np.maximum(x, x * x), ahead=lambda x: [x, x * x]),
    GraphRow(layer.Minimum, layer.Minimum, (3,), lambda x: np.minimum(x, x * x), ahead=lambda x: [x, x * x]),
    GraphRow(layer.Activation, lambda: layer.Activation("tanh"), (3,), np.tanh),
    GraphRow(layer.PReLU, lambda: layer.PReLU(initializer.Constant(0.3)), (3, 2), lambda x, a: np.where(x > 0, x, a * x)),
    GraphRow(layer.PReLU, lambda: layer.PReLU("glorot_uniform", shared_axes=[1]), (3, 2),
             lambda x, a: np.where(x > 0, x, a * x), label="shared axes"),
    GraphRow(layer.GLU, layer.GLU, (3, 4), lambda x: x[..., :2] / (1 + np.exp(-x[..., 2:]))),
    GraphRow(layer.GLU, lambda: layer.GLU(1), (4, 3), lambda x: x[:, :2] / (1 + np.exp(-x[:, 2:])), label="axis"),
    GraphRow(layer.Permute, lambda: layer.Permute((3, 1, 2)), (2, 3, 4), lambda x: x.transpose(0, 3, 1, 2)),
    GraphRow(layer.Rescaling, lambda: layer.Rescaling(0.5), (2, 3), lambda x: x / 2),
    GraphRow(layer.Rescaling, lambda: layer.Rescaling([1, 2, 3], -1.0), (2, 3), lambda x: x * [1, 2, 3] - 1, label="features"),
    GraphRow(layer.Normalization, lambda: layer.Normalization(-1, [1, 2, 3], [4, 9, 16]), (2, 3),
             lambda x: (x - [1, 2, 3]) / [2, 3, 4]),
    GraphRow(layer.Normalization, lambda: layer.Normalization(None, 1.0, 4.0, invert=True), (2, 3), lambda x: 2 * x + 1,
             label="back"),
    GraphRow(layer.CategoryEncoding, lambda: layer.CategoryEncoding(6, "count"), (4,),
             lambda x: np.eye(6)[(x > -0.5).astype(int) + (x > 0.5)].sum(axis=1), ahead=row_numbers),
    GraphRow(layer.Resizing, lambda: layer.Resizing(4, 9), (2, 3, 2), lambda x: between(between(x, 1, 2), 2, 3)),
    GraphRow(layer.Resizing, lambda: layer.Resizing(4, 2, "nearest", crop_to_aspect_ratio=True), (2, 3, 2),
             lambda x: x[:, [0, 0, 1, 1], 1:2].repeat(2, axis=2), label="nearest"),
    GraphRow(layer.CenterCrop, lambda: layer.CenterCrop(2, 3), (5, 4, 1), lambda x: x[:, 1:3, :3]),
    GraphRow(layer.RepeatVector, lambda: layer.RepeatVector(3), (4,), lambda x: np.stack([x, x, x], axis=1)),
    GraphRow(layer.RepeatVector, lambda: layer.RepeatVector(9), (33,), lambda x: np.stack([x] * 9, axis=1), label="often"),
    GraphRow(layer.ZeroPadding, layer.ZeroPadding, (2, 3, 2), lambda x: np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])),
    GraphRow(layer.ZeroPadding, lambda: layer.ZeroPadding(((0, 2), (1, 0))), (2, 3, 2),
             lambda x: np.pad(x, [(0, 0), (0, 2), (1, 0), (0, 0)]), label="sides"),
    GraphRow(layer.ZeroPadding, lambda: layer.ZeroPadding((2, 0)), (3, 2), lambda x: np.pad(x, [(0, 0), (2, 0), (0, 0)]),
             label="sequence"),
    GraphRow(layer.Cropping, layer.Cropping, (4, 3, 2), lambda x: x[:, 1:-1, 1:-1]),
    GraphRow(layer.Cropping, lambda: layer.Cropping((2, 0)), (5, 3, 2), lambda x: x[:, 2:-2], label="pair"),
    GraphRow(layer.Cropping, lambda: layer.Cropping((0, 3)), (5, 2), lambda x: x[:, :-3], label="sequence"),
    GraphRow(layer.UpSampling, lambda: layer.UpSampling((2, 3)), (2, 3, 2), lambda x: x.repeat(2, axis=1).repeat(3, axis=2)),
    GraphRow(layer.UpSampling, layer.UpSampling, (3, 2), lambda x: x.repeat(2, axis=1), label="sequence"),
    GraphRow(layer.UpSampling, lambda: layer.UpSampling((2, 3), "bilinear"), (2, 3, 2),
             lambda x: between(between(x, 1, 2), 2, 3), label="bilinear"),
    GraphRow(layer.Concatenate, lambda: layer.Concatenate(axis=1), (3, 2), lambda x: x),
    GraphRow(layer.BatchNorm, layer.BatchNorm, (3, 4), None),
    GraphRow(layer.BatchNorm, layer.BatchNorm, (3, 4), None, ahead=masked, label="mask"),
    GraphRow(layer.BatchNorm, lambda: layer.BatchNorm(0.9, 0.01), (4,), None, label="rows"),
    GraphRow(layer.LayerNorm, lambda: layer.LayerNorm(0.01), (3, 4), lambda x, gamma, beta: normalized(x, (2,)) * gamma + beta),
    GraphRow(layer.RMSNorm, layer.RMSNorm, (3, 4), lambda x, w: w * x / np.sqrt((x**2).mean(axis=2, keepdims=True) + 1e-6)),
    GraphRow(layer.GroupNorm, lambda: layer.GroupNorm(2, 0.01), (3, 2, 6), lambda x, a, b: grouped(x, 2) * a + b),
    GraphRow(layer.GroupNorm, lambda: layer.GroupNorm(-1, 0.01), (5, 3), lambda x, a, b: grouped(x, 3) * a + b,
             label="instance"),
    GraphRow(layer.SpatialDropout, lambda: layer.SpatialDropout(0.4), (3, 5), None),
    GraphRow(layer.Dot, layer.Dot, (3, 4), lambda x: np.einsum("btn,bsn->bts", x, 2 * x[:, :2]),
             ahead=lambda x: [x, 2 * x[:, :2]]),
    GraphRow(layer.Dot, lambda: layer.Dot((1, 2)), (3, 4), lambda x: np.einsum("bn,bsn->bs", x[:, 0], x * x),
             ahead=lambda x: [x[:, 0], x * x], label="matrix and vector"),
    GraphRow(layer.Dot, lambda: layer.Dot(normalize=True), (4,),
             lambda x: ((x * (x + 1)).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(x + 1, axis=1))[:, None],
             ahead=lambda x: [x, x + 1], label="cosine"),
    GraphRow(layer.GaussianDropout, lambda: layer.GaussianDropout(0.4), (7,), None),
    GraphRow(layer.GaussianNoise, lambda: layer.GaussianNoise(0.4), (7,), None),
    GraphRow(layer.TimeDistributed, lambda: layer.TimeDistributed(layer.Dense(3, "tanh")), (4, 2),
             lambda x, w, b: np.tanh(x @ w + b)),
    GraphRow(layer.TimeDistributed, lambda: layer.TimeDistributed(layer.GlobalAveragePool()), (2, 3, 2),
             lambda x: x.mean(axis=2), label="another shape"),
    GraphRow(layer.Lambda, lambda: layer.Lambda(function.square), (3,), lambda x: x * x),
    GraphRow(layer.Embedding, lambda: layer.Embedding(6, 3), (4,), lambda x, w: w[(x > -0.5).astype(int) + (x > 0.5)],
             ahead=row_numbers),
    GraphRow(layer.MultiHeadAttention, lambda: layer.MultiHeadAttention(2, 3), (5, 4), attended),
    GraphRow(layer.MultiHeadAttention, lambda: layer.MultiHeadAttention(2, 3, 2, causal=True, output_dim=7), (5, 4),
             partial(attended, causal=True), label="causal"),
    GraphRow(layer.MultiHeadAttention, lambda: layer.MultiHeadAttention(2, 4, causal=True, rotary_base=50.0), (5, 4),
             partial(attended, causal=True, base=50.0), label="rotary"),
    GraphRow(layer.MultiHeadAttention, lambda: layer.MultiHeadAttention(2, 3, dropout=0.4), (5, 4), None, label="dropout"),
]  # fmt: skip

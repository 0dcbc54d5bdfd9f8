"""The layers."""

from functools import partial

import numpy as np

from nn import activation, layer
from nn.arrays import Array
from tests.contract.nn_rows.graph_row import GraphRow, softmax
from tests.contract.nn_rows.operations import normalized, row_numbers


def attended(x: Array, *variables: Array, value: Array | None = None, key: Array | None = None, causal: bool = False) -> Array:
    """Multi-head attention of x to itself or to another sequence, by einsum, with biases for all four maps."""
    value = x if value is None else value
    sources = (x, value if key is None else key, value)
    maps = zip(sources, variables[0:6:2], variables[1:6:2], strict=True)
    q, k, v = (np.einsum("bti,ihk->bhtk", source, kernel) + bias[:, None] for source, kernel, bias in maps)
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    if causal:
        scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf)
    return np.einsum("bhtk,hko->bto", softmax(scores) @ v, variables[6]) + variables[7]


LAYERS = [
    GraphRow(layer.Dense, lambda: layer.Dense(3), (4,), lambda x, w, b: x @ w + b),
    GraphRow(layer.Dense, lambda: layer.Dense(3, activation.Tanh()), (2, 4), lambda x, w, b: np.tanh(x @ w + b), label="rows"),
    GraphRow(layer.Dense, lambda: layer.Dense(3, use_bias=False), (4,), lambda x, w: x @ w, label="without bias"),
    GraphRow(layer.Dropout, lambda: layer.Dropout(0.4), (7,), None),
    GraphRow(layer.Flatten, layer.Flatten, (2, 3, 2), lambda x: x.reshape(-1, 12)),
    GraphRow(layer.Reshape, lambda: layer.Reshape([3, -1]), (2, 3), lambda x: x.reshape(-1, 3, 2)),
    GraphRow(layer.Add, layer.Add, (3,), lambda x: x),
    GraphRow(layer.Concatenate, lambda: layer.Concatenate(axis=1), (3, 2), lambda x: x),
    GraphRow(layer.BatchNorm, layer.BatchNorm, (3, 4), None),
    GraphRow(layer.BatchNorm, lambda: layer.BatchNorm(0.9, 0.01), (4,), None, label="rows"),
    GraphRow(layer.LayerNorm, lambda: layer.LayerNorm(0.01), (3, 4), lambda x, gamma, beta: normalized(x, (2,)) * gamma + beta),
    GraphRow(layer.Embedding, lambda: layer.Embedding(6, 3), (4,), lambda x, w: w[(x > -0.5).astype(int) + (x > 0.5)],
             ahead=row_numbers),
    GraphRow(layer.MultiHeadAttention, lambda: layer.MultiHeadAttention(2, 3), (5, 4), attended),
    GraphRow(layer.MultiHeadAttention, lambda: layer.MultiHeadAttention(2, 3, 2, causal=True, output_dim=7), (5, 4),
             partial(attended, causal=True), label="causal"),
]  # fmt: skip

"""The layers."""

import numpy as np

from nn import activation, layer
from tests.contract.nn_rows.graph_row import GraphRow

LAYERS = [
    GraphRow(layer.Dense, lambda: layer.Dense(3), (4,), lambda x, w, b: x @ w + b),
    GraphRow(layer.Dense, lambda: layer.Dense(3, activation.Tanh()), (2, 4), lambda x, w, b: np.tanh(x @ w + b), label="rows"),
    GraphRow(layer.Dense, lambda: layer.Dense(3, use_bias=False), (4,), lambda x, w: x @ w, label="without bias"),
    GraphRow(layer.Dropout, lambda: layer.Dropout(0.4), (7,), None),
    GraphRow(layer.Flatten, layer.Flatten, (2, 3, 2), lambda x: x.reshape(-1, 12)),
    GraphRow(layer.Reshape, lambda: layer.Reshape([3, -1]), (2, 3), lambda x: x.reshape(-1, 3, 2)),
]

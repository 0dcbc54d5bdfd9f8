"""The activations."""

import numpy as np

from nn import activation
from tests.contract.nn_rows.graph_row import GraphRow, softmax

ACTIVATIONS = [
    GraphRow(activation.Linear, activation.Linear, (4,), lambda x: x),
    GraphRow(activation.Tanh, activation.Tanh, (4,), np.tanh),
    GraphRow(activation.Sigmoid, activation.Sigmoid, (4,), lambda x: 1 / (1 + np.exp(-x))),
    GraphRow(activation.ReLU, activation.ReLU, (4,), lambda x: np.where(x > 0, x, 0)),
    GraphRow(activation.Softmax, activation.Softmax, (4,), softmax),
    GraphRow(activation.Softmax, activation.Softmax, (3, 4), softmax, label="last axis"),
]

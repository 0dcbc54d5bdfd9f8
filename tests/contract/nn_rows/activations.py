"""The activations."""

import math

import numpy as np

from nn import activation
from nn.arrays import Array
from tests.contract.nn_rows.graph_row import GraphRow, softmax
from tests.contract.nn_rows.samples import wide

_ERFC = np.vectorize(math.erfc, otypes=[np.float64])


def gelu(x: Array) -> Array:
    return x * _ERFC(-x / math.sqrt(2)) / 2


def gelu_by_tanh(x: Array) -> Array:
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def selu(x: Array) -> Array:
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))


ACTIVATIONS = [
    GraphRow(activation.Linear, activation.Linear, (4,), lambda x: x),
    GraphRow(activation.Tanh, activation.Tanh, (4,), np.tanh),
    GraphRow(activation.HTanh, activation.HTanh, (4,), lambda x: np.clip(x, -1, 1), wide),
    GraphRow(activation.Sigmoid, activation.Sigmoid, (4,), lambda x: 1 / (1 + np.exp(-x))),
    GraphRow(activation.ReLU, activation.ReLU, (4,), lambda x: np.where(x > 0, x, 0)),
    GraphRow(activation.LeakReLU, activation.LeakReLU, (4,), lambda x: np.where(x > 0, x, 0.01 * x)),
    GraphRow(activation.LeakReLU, lambda: activation.LeakReLU(0.3), (4,), lambda x: np.where(x > 0, x, 0.3 * x), label="0.3"),
    GraphRow(activation.ELU, activation.ELU, (4,), lambda x: np.where(x > 0, x, np.expm1(x))),
    GraphRow(activation.ELU, lambda: activation.ELU(0.5), (4,), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)), label="0.5"),
    GraphRow(activation.GELU, activation.GELU, (4,), gelu, wide),
    GraphRow(activation.GELU, lambda: activation.GELU(approximate=True), (4,), gelu_by_tanh, label="approximate"),
    GraphRow(activation.SiLU, activation.SiLU, (4,), lambda x: x / (1 + np.exp(-x))),
    GraphRow(activation.Softplus, activation.Softplus, (4,), lambda x: np.log1p(np.exp(x)), wide),
    GraphRow(activation.SELU, activation.SELU, (4,), selu, wide),
    GraphRow(activation.ReLU6, activation.ReLU6, (4,), lambda x: np.clip(x, 0, 6), wide),
    GraphRow(activation.HardSigmoid, activation.HardSigmoid, (4,), lambda x: np.clip(x / 6 + 0.5, 0, 1), wide),
    GraphRow(activation.HardSwish, activation.HardSwish, (4,), lambda x: x * np.clip(x / 6 + 0.5, 0, 1), wide),
    GraphRow(activation.Mish, activation.Mish, (4,), lambda x: x * np.tanh(np.log1p(np.exp(x))), wide),
    GraphRow(activation.Softsign, activation.Softsign, (4,), lambda x: x / (1 + np.abs(x)), wide),
    GraphRow(activation.LogSigmoid, activation.LogSigmoid, (4,), lambda x: -np.log1p(np.exp(-x)), wide),
    GraphRow(activation.Exponential, activation.Exponential, (4,), np.exp),
    GraphRow(activation.LogSoftmax, activation.LogSoftmax, (3, 4), lambda x: np.log(softmax(x))),
    GraphRow(activation.Softmax, activation.Softmax, (4,), softmax),
    GraphRow(activation.Softmax, activation.Softmax, (3, 4), softmax, label="last axis"),
]

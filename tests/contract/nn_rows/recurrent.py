"""The recurrent layers and their operations, step by step on (batch, gates * units)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nn import activation, initializer, layer
from nn.arrays import Array
from nn.operation.recurrent import GRUOperation, LSTMOperation, SimpleRNNOperation
from nn.operation.recurrent.cells import DroppingGRU, DroppingLSTM, DroppingSimpleRNN
from nn.value import Value, Variable
from tests.contract.nn_rows.graph_row import GraphRow


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def states(x: Array, units: int, step: Callable[[Array, Array], Array]) -> Array:
    """All states (batch, time, units), from zeros."""
    h, found = np.zeros((len(x), units)), []
    for t in range(x.shape[1]):
        h = step(x[:, t], h)
        found.append(h)
    return np.stack(found, axis=1)


def simple_rnn(function: Callable[[Array], Array]) -> Callable[..., Array]:
    def value(x: Array, w: Array, u: Array, b: Array | float = 0.0) -> Array:
        return states(x, len(u), lambda x, h: function(x @ w + h @ u + b))

    return value


def lstm(x: Array, w: Array, u: Array, b: Array | float = 0.0) -> Array:
    c = np.zeros((len(x), len(u)))

    def step(x: Array, h: Array) -> Array:
        nonlocal c
        i, f, g, o = np.split(x @ w + h @ u + b, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return np.asarray(sigmoid(o) * np.tanh(c))

    return states(x, len(u), step)


def gru(x: Array, w: Array, u: Array, b: Array | tuple[float, float] = (0.0, 0.0)) -> Array:
    def step(x: Array, h: Array) -> Array:
        z, r, a = np.split(x @ w + b[0], 3, axis=1)
        z_h, r_h, q = np.split(h @ u + b[1], 3, axis=1)
        keep = sigmoid(z + z_h)
        return np.asarray(keep * h + (1 - keep) * np.tanh(a + sigmoid(r + r_h) * q))

    return states(x, len(u), step)


def last(value: Callable[..., Array]) -> Callable[..., Array]:
    return lambda x, *variables: value(x, *variables)[:, -1]


def operation(build: Callable[[], Callable[..., Value]], gates: int, bias: list[int]) -> Callable[[], Callable[[Value], Value]]:
    """Two units that read three features."""

    def make() -> Callable[[Value], Value]:
        shapes = [[3, 2 * gates], [2, 2 * gates], bias]
        variables = [Variable(shape, initializer.GlorotUniform()) for shape in shapes]
        made = build()
        return lambda x: made(x, *variables)

    return make


def dropping(build: Callable[[], Any], gates: int, bias: list[int]) -> Callable[[], Callable[[Value], Value]]:
    """Two units, of which a third is dropped."""

    def make() -> Any:
        made = build()
        made.drops = 1 / 3
        return made

    return operation(make, gates, bias)


def tanh_rnn() -> SimpleRNNOperation:
    return SimpleRNNOperation(activation.Tanh())


def masked(x: Value) -> Value:
    """x with a mask that leaves out steps at both ends and within."""
    made = x * 1.0
    made.mask = x[:, :, 0] > -0.3
    return made


def carried(cell: Callable[..., Array]) -> Callable[..., Array]:
    """All states where steps with a first number of at most -0.3 leave a sample's states as they are: sample by sample."""

    def value(x: Array, *variables: Array) -> Array:
        found = np.zeros((*x.shape[:2], len(variables[1])))
        for sample, row in enumerate(x):
            kept = row[:, 0] > -0.3
            states = cell(row[kept][None], *variables)[0] if kept.any() else np.zeros((0, len(variables[1])))
            places = np.cumsum(kept) - 1
            found[sample] = [states[place] if place >= 0 else np.zeros(len(variables[1])) for place in places]
        return found

    return value


def normal_bias() -> initializer.Initializer:
    """An initialiser that makes a bias count."""
    return initializer.GlorotUniform()


OPERATIONS_RECURRENT = [
    GraphRow(SimpleRNNOperation, operation(tanh_rnn, 1, [2]), (4, 3), last(simple_rnn(np.tanh))),
    GraphRow(LSTMOperation, operation(LSTMOperation, 4, [8]), (4, 3), last(lstm)),
    GraphRow(LSTMOperation, operation(lambda: LSTMOperation(True), 4, [8]), (4, 3), lstm, label="sequences"),
    GraphRow(GRUOperation, operation(GRUOperation, 3, [2, 6]), (4, 3), last(gru)),
    GraphRow(GRUOperation, operation(lambda: GRUOperation(True), 3, [2, 6]), (4, 3), gru, label="sequences"),
    GraphRow(DroppingLSTM, dropping(DroppingLSTM, 4, [8]), (4, 3), None),
    GraphRow(DroppingGRU, dropping(DroppingGRU, 3, [2, 6]), (4, 3), None),
    GraphRow(DroppingSimpleRNN, dropping(lambda: DroppingSimpleRNN(activation.Tanh()), 1, [2]), (4, 3), None),
]


def both(value: Callable[..., Array], variables: int, merge: Callable[..., Array]) -> Callable[..., Array]:
    """Return what two layers of so many variables make of a sequence, one of them of the reversed one."""

    def read(x: Array, *given: Array) -> Array:
        return merge([value(x, *given[:variables]), value(x[:, ::-1], *given[variables:])], -1)

    return read


LAYERS_RECURRENT = [
    GraphRow(layer.SimpleRNN, lambda: layer.SimpleRNN(3, bias_initializer=normal_bias()), (4, 2), last(simple_rnn(np.tanh))),
    GraphRow(
        layer.SimpleRNN,
        lambda: layer.SimpleRNN(3, activation.Softmax(), return_sequences=True, use_bias=False),
        (4, 2),
        simple_rnn(lambda x: np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)),
        label="softmax, sequences, without bias",
    ),
    GraphRow(layer.LSTM, lambda: layer.LSTM(3, bias_initializer=normal_bias()), (4, 2), last(lstm)),
    GraphRow(layer.LSTM, lambda: layer.LSTM(3, return_sequences=True), (4, 2), lstm, label="sequences"),
    GraphRow(layer.LSTM, lambda: layer.LSTM(3, use_bias=False), (4, 2), last(lstm), label="without bias"),
    GraphRow(layer.LSTM, lambda: layer.LSTM(2), (600, 1), last(lstm), label="several windows"),
    GraphRow(layer.GRU, lambda: layer.GRU(3, bias_initializer=normal_bias()), (4, 2), last(gru)),
    GraphRow(layer.GRU, lambda: layer.GRU(3, return_sequences=True), (4, 2), gru, label="sequences"),
    GraphRow(layer.GRU, lambda: layer.GRU(3, use_bias=False), (4, 2), last(gru), label="without bias"),
    GraphRow(layer.GRU, lambda: layer.GRU(2), (600, 1), last(gru), label="several windows"),
    *[
        GraphRow(
            kind,
            partial(kind, 2, return_sequences=True, bias_initializer=normal_bias()),
            (5, 3),
            carried(cell),
            ahead=masked,
            label="mask",
        )
        for kind, cell in ((layer.LSTM, lstm), (layer.GRU, gru), (layer.SimpleRNN, simple_rnn(np.tanh)))
    ],
    GraphRow(layer.LSTM, lambda: layer.LSTM(3, recurrent_dropout=0.4), (4, 2), None, label="recurrent dropout"),
    GraphRow(layer.GRU, lambda: layer.GRU(3, recurrent_dropout=0.4), (4, 2), None, ahead=masked, label="recurrent dropout"),
    GraphRow(layer.Bidirectional, lambda: layer.Bidirectional(layer.LSTM(3)), (4, 2), both(last(lstm), 3, np.concatenate)),
    GraphRow(
        layer.Bidirectional,
        lambda: layer.Bidirectional(layer.LSTM(2, return_sequences=True), "ave", layer.LSTM(2, return_sequences=True)),
        (4, 2),
        both(lstm, 3, lambda two, axis: (two[0] + two[1][:, ::-1]) / 2),
        label="average of sequences",
    ),
    GraphRow(
        layer.Bidirectional,
        lambda: layer.Bidirectional(layer.GRU(2, return_sequences=True)),
        (4, 2),
        both(gru, 3, lambda two, axis: np.concatenate([two[0], two[1][:, ::-1]], axis)),
        label="sequences",
    ),
]

"""Masks, and states of recurrences: values step by step, gradients, files, models in models, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import nn
from nn import function
from nn.arrays import Array
from nn.layer import (
    GRU,
    LSTM,
    BatchNorm,
    Bidirectional,
    Conv1D,
    Dense,
    Dropout,
    Embedding,
    GlobalAveragePool,
    Masking,
    MultiHeadAttention,
    Recurrent,
    SimpleRNN,
)
from nn.model import Model, SequentialModel
from nn.operation import Mode
from nn.plan import Plan
from nn.random import keyed
from nn.testing import check_gradients
from nn.value import Graph, Value, VariableStore
from tests.contract.nn_rows.recurrent import masked, normal_bias, sigmoid

LENGTHS = [5, 3, 1, 4, 2, 5]


def with_states(count: int, make: Callable[[], Recurrent]) -> Callable[[], Callable[[Value], Value]]:
    """A layer that begins with states computed from x, and its output and states side by side."""

    def build() -> Callable[[Value], Value]:
        made = make()

        def call(x: Value) -> Value:
            found = made(masked(x), initial_state=[x[:, 0] * (0.5 + number) for number in range(count)])
            parts = [each if len(each.shape) == 3 else each[:, None] for each in found]
            return function.concatenate(parts, 1)

        return call

    return build


def stepped(cell: Callable[..., tuple[Array, ...]], count: int, whole: bool) -> Callable[..., Array]:
    """What `with_states` gives, step by step; `cell` returns the states after a step."""

    def value(x: Array, *variables: Array) -> Array:
        states = tuple(x[:, 0] * (0.5 + number) for number in range(count))
        outputs = []
        for t in range(x.shape[1]):
            kept = (x[:, t, 0] > -0.3)[:, None]
            after = cell(x[:, t], states, *variables)
            states = tuple(np.where(kept, new, old) for new, old in zip(after, states, strict=True))
            outputs.append(states[0])
        first = outputs if whole else outputs[-1:]
        return np.stack([*first, *states], axis=1)

    return value


def lstm_cell(x: Array, states: tuple[Array, ...], w: Array, u: Array, b: Array) -> tuple[Array, ...]:
    i, f, g, o = np.split(x @ w + states[0] @ u + b, 4, axis=1)
    c = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_cell(x: Array, states: tuple[Array, ...], w: Array, u: Array, b: Array) -> tuple[Array, ...]:
    z, r, a = np.split(x @ w + b[0], 3, axis=1)
    z_h, r_h, q = np.split(states[0] @ u + b[1], 3, axis=1)
    keep = sigmoid(z + z_h)
    return (keep * states[0] + (1 - keep) * np.tanh(a + sigmoid(r + r_h) * q),)


def rnn_cell(x: Array, states: tuple[Array, ...], w: Array, u: Array, b: Array) -> tuple[Array, ...]:
    return (np.tanh(x @ w + states[0] @ u + b),)


KINDS = [(LSTM, lstm_cell, 2), (GRU, gru_cell, 1), (SimpleRNN, rnn_cell, 1)]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("kind", "cell", "count"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_states_go_in_and_come_out(kind: Any, cell: Any, count: int, whole: bool) -> None:
    make = partial(kind, 3, return_sequences=whole, bias_initializer=normal_bias(), return_state=True)
    check_gradients(with_states(count, make)(), (4, 3))
    entry = nn.Placeholder([-1, 4, 3])
    graph = Graph(entry, with_states(count, make)()(entry))  # type: ignore[arg-type]
    VariableStore(graph.variables, [], np.dtype(np.float64), 3)
    x = keyed(0, "states").standard_normal((6, 4, 3))
    expected = stepped(cell, count, whole)(x, *[each.value for each in graph.variables])
    for training in (True, False):
        plan = Plan(graph, [x.shape], np.dtype(np.float64), training=training)
        np.testing.assert_allclose(plan.forward((x,), Mode(training=training))[0], expected, rtol=1e-12)


def sequences(dtype: str = "float64", kind: Any = LSTM) -> Any:
    model: Any = SequentialModel(
        [-1, None, 3],
        [
            Masking(),
            Bidirectional(kind(4, return_sequences=True)),
            Dropout(0.0),
            MultiHeadAttention(2, 4),
            BatchNorm(),
            Dense(5, "tanh"),
            Dense(2, "softmax"),
        ],
        dtype=dtype,
        seed=1,
    )
    # A key's bias has no gradient but rounding, which Adam would make steps of.
    model.compile("sgd", "crossentropy", metrics=["accuracy"])
    return model


def padded(width: int, key: str = "padded") -> tuple[Array, Array]:
    draw = keyed(1, key)
    x, y = draw.standard_normal((6, 5, 3)), draw.integers(0, 2, (6, 5))
    for sample, length in enumerate(LENGTHS):
        x[sample, length:] = 0
    more = np.zeros((6, width - 5, 3))
    return np.concatenate([x, more], axis=1), np.concatenate([y, np.zeros((6, width - 5), y.dtype)], axis=1)


@pytest.mark.parametrize("kind", [LSTM, GRU, SimpleRNN])
def test_padding_changes_nothing(kind: Any) -> None:
    """Losses, metrics, predictions, statistics and weights after training are those of sequences with less padding."""
    results = []
    for width in (5, 9):
        model, (x, y) = sequences(kind=kind), padded(width)
        model.fit(x, y, epochs=3, batch_size=2, verbose=0)
        found = model.evaluate(x, y)
        assert found == pytest.approx(model.evaluate(x, y, batch_size=4), rel=1e-12)
        right = model.predict(x)[:, :5].argmax(axis=2) == y[:, :5]
        kept = np.arange(5) < np.array(LENGTHS)[:, None]
        assert found["accuracy"] == pytest.approx(right[kept].mean())
        results.append((found, model.predict(x)[:, :5][kept], model.get_weights()))
    (first, predicted, weights), (second, others, more) = results
    assert first == pytest.approx(second, rel=1e-9)
    np.testing.assert_allclose(predicted, others, rtol=1e-9)
    for one, other in zip(weights, more, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10)


def test_a_mask_is_that_of_each_sequence_read_alone() -> None:
    """Padded sequences in one batch give what each gives by itself, without padding and mask."""
    model, (x, _) = sequences(), padded(5)
    model.fit(*padded(5), epochs=1, verbose=0)
    together = model.predict(x)
    for sample, length in enumerate(LENGTHS):
        alone = model.predict(x[sample : sample + 1, :length])
        np.testing.assert_allclose(together[sample, :length], alone[0], rtol=1e-10)


def test_files_and_models_in_models_have_their_masks() -> None:
    ids = nn.Input([-1, None])
    inner_in = nn.Input([-1, None, 4])
    inner = Model(inner_in, GlobalAveragePool()(LSTM(3, return_sequences=True)(inner_in)))
    embedded = Embedding(9, 4, mask_zero=True)(ids)
    encoded, h, c = LSTM(4, return_sequences=True, return_state=True)(embedded)
    assert encoded.mask is not None
    decoded = LSTM(4, return_sequences=True)(encoded, initial_state=[h, c])
    model: Any = Model(ids, Dense(2)(inner(decoded)), dtype="float64")
    model.compile("sgd", "mse")
    x = np.array([[3, 5, 2, 0, 0], [1, 0, 0, 0, 0], [4, 4, 4, 4, 4]])
    expected = model.predict(x)
    # The masks reach the inner model, which was built without any.
    np.testing.assert_allclose(model.predict(np.pad(x, [(0, 0), (0, 4)])), expected, rtol=1e-12)
    again: Any = Model.from_bytes(model.to_bytes())
    np.testing.assert_array_equal(again.predict(x), expected)
    whole: Any = Model((entry := nn.Input([-1, None])), model(entry), dtype="float64")
    np.testing.assert_array_equal(whole.predict(x), expected)


def test_weights_of_positions_and_ignored_labels() -> None:
    draw = keyed(2, "positions")
    x, y = draw.standard_normal((6, 4, 3)), draw.integers(0, 3, (6, 4))
    weight = draw.random((6, 4))
    losses, gradients = [], []
    left_out = draw.random((6, 4)) < 0.4
    for loss, label, given in (
        (nn.loss.Cross_Entropy_With_Softmax(), y, weight),
        (nn.loss.Cross_Entropy_With_Softmax(), y, (~left_out) * (24 / (~left_out).sum())),
        (nn.loss.Cross_Entropy_With_Softmax(ignore_index=-100), np.where(left_out, -100, y), None),
        (nn.loss.Cross_Entropy(ignore_class=7), np.where(left_out, 7, y), None),
    ):
        model: Any = SequentialModel([-1, None, 3], [Dense(3, "softmax")], dtype="float64", seed=4)
        model.compile("sgd", loss, metrics=["accuracy"])
        value, prediction = model.compute_gradients(x, label, sample_weight=given)
        losses.append(value)
        prediction = prediction.copy()
        gradients.append(np.array(model.store.gradients))
        assert model.evaluate(x, label, batch_size=5, sample_weight=given)["Loss"] == pytest.approx(value)
    each = -np.log(np.take_along_axis(prediction, y[..., None], axis=2)[..., 0])
    assert losses == pytest.approx([(each * weight).mean(), *[each[~left_out].mean()] * 3])
    for other in gradients[2:]:
        np.testing.assert_allclose(other, gradients[1], rtol=1e-10)
    seen = (prediction.argmax(axis=2) == y)[~left_out].mean()
    assert model.evaluate(x, np.where(left_out, 7, y))["accuracy"] == pytest.approx(seen)
    # Nothing counts: a loss of 0, and no step.
    assert model.compute_gradients(x, np.full((6, 4), 7))[0] == 0
    assert not model.store.gradients.any()


def test_recurrent_dropout_is_one_draw_for_all_steps_and_none_in_prediction() -> None:
    models: list[Any] = []
    for share in (0.0, 0.5):
        models.append(SequentialModel([-1, 6, 3], [GRU(8, return_sequences=True, recurrent_dropout=share)], seed=3))
        models[-1].compile("sgd", "mse")
    x = keyed(3, "dropout").standard_normal((4, 6, 3)).astype("float32")
    np.testing.assert_array_equal(models[0].predict(x), models[1].predict(x))
    outputs = [
        models[1].compute_gradients(x, np.zeros((4, 6, 8)), key=key)[1].copy() for key in [(0, 0, 0, 0)] * 2 + [(0, 0, 1, 0)]
    ]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert np.abs(outputs[0] - outputs[2]).max() > 1e-3
    # The first step reads a state of 0, so nothing is dropped there.
    np.testing.assert_allclose(outputs[0][:, 0], models[0].predict(x)[:, 0], rtol=1e-6)


class Own(nn.layer.Recurrent):
    def operation(self) -> Any:
        return OwnOperation(self.return_sequences)


@pytest.mark.parametrize("length", [5, None])
def test_sequences_in_a_row_have_their_masks_in_a_row(length: int | None) -> None:
    """As if all of them were one that is masked; one without a mask counts whole."""
    draws = np.random.default_rng(4)
    first, second, whole = ((draws.normal(size=(6, 5, 3)) + 9).astype(np.float32) for _ in range(3))
    first[1, 2:], second[2, :], second[3, :2] = 0, 0, 0

    def model(*, apart: bool) -> Model:
        a, b, c = (nn.Input([-1, length, 3], name=name) for name in "abc")
        parts = [Masking()(a), Masking()(b), c] if apart else [a, b, c]
        joined: Any = nn.layer.Concatenate(axis=1)(parts)
        joined = joined if apart else Masking()(joined)
        made = Model([a, b, c], [GRU(4)(joined), Dense(2)(joined)])
        made.compile("sgd", "mse")
        return made

    one, other = model(apart=True), model(apart=False)
    other.set_weights(one.get_weights())
    x, y = [first, second, whole], [np.ones((6, 4)), np.ones((6, 15, 2))]
    for _ in range(2):
        assert all(map(np.array_equal, one.predict(x), other.predict(x)))
        assert one.train_on_batch(x, y) == other.train_on_batch(x, y)
    assert all(map(np.array_equal, Model.from_bytes(one.to_bytes()).predict(x), one.predict(x)))


class OwnOperation(nn.operation.recurrent.Recurrence):
    def prepare(self, dtype: Any) -> None:
        pass

    def forward(self, inputs: Any, out: Any) -> None:
        out.fill(0)

    def backward(self, inputs: Any, output: Any, gradient: Any, wanted: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda x: LSTM(4, name="encoder")(x, initial_state=x[:, 0]), "LSTM 'encoder': 'initial_state' must be 2 values"),
        (lambda x: GRU(4)(x, initial_state=x[:, 0]), r"GRU: a state must have the shape \(-1, 4\), .* got \(-1, 3\)"),
        *((lambda x, state=state: GRU(4, name="odd")(x, initial_state=state), "GRU 'odd' 'initial_state' must be values")
          for state in (np.zeros((2, 4)), [np.zeros(4)], [], "zeros")),
        (lambda x: Own(4)(Masking()(x)), "Own: expected an operation with 'carries', .* got OwnOperation"),
        (lambda x: Masking()(x[:, 0]), r"Masking: expected inputs of shape \(batch, time, features\), got \(-1, 3\)"),
        (lambda x: Embedding(5, 2, mask_zero=True)(x), r"Embedding: 'mask_zero' is for ids of shape \(batch, time\), got"),
        (lambda x: LSTM(4, recurrent_dropout=1.0), "LSTM 'recurrent_dropout' must be"),
        (lambda x: Bidirectional(LSTM(4, return_state=True)), "Bidirectional takes layers without return_state"),
        (lambda x: nn.layer.Flatten(name="rows")(nn.Input([-1, None, 3])), "Flatten 'rows': .*None, a length that comes"),
        (lambda x: Dense(4)(nn.Input([-1, 3, None])), r"Dense: expected inputs of shape .* got \(-1, 3, None\)"),
        (lambda x: LSTM(4)(nn.Input([-1, 3, None])), r"LSTM: expected inputs of shape .* got \(-1, 3, None\)"),
        (lambda x: nn.Input([-1, -1, 3]), "'input_shape' must be a list of positive integers with at most one -1, and None"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make: Callable[[Value], Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        make(nn.Input([-1, 5, 3]))


def test_data_that_do_not_fit_are_refused() -> None:
    model = sequences()
    x, y = padded(5)
    for call, words in (
        (lambda: model.predict(x[:, :, :2]), r"input shape \(-1, None, 3\), got \(6, 5, 2\): axis 2 must have length 3"),
        (lambda: model.predict(x[:, :0]), "at least one step of each sample"),
        (lambda: model.evaluate(x, y[:, :4]), r"labels must be integers of shape \(6, 5\)"),
        (lambda: model.evaluate(x, y, sample_weight=np.ones((6, 4))), r"each position of outputs of shape \(6, 5, 2\), got"),
        (lambda: model.evaluate(x, y, sample_weight=-np.ones((6, 5))), "finite numbers of at least 0"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    short: Any = SequentialModel([-1, None, 3], [Conv1D(2, 4, name="narrow"), GlobalAveragePool(), Dense(1)])
    short.compile("sgd", "mse")
    assert short.predict(x).shape == (6, 1)
    with pytest.raises(ValueError, match=r"Conv1D 'narrow'.*at least 4 cells"):
        short.predict(x[:, :3])
    with pytest.raises(TypeError, match="Cross_Entropy 'ignore_index' must be an integer"):
        nn.loss.Cross_Entropy(ignore_index=0.5)  # type: ignore[arg-type]


def test_a_mask_that_ends_unused_is_told(caplog: pytest.LogCaptureFixture) -> None:
    x = Masking()(nn.Input([-1, None, 3]))
    with caplog.at_level(logging.WARNING):
        for used in (LSTM(2), GlobalAveragePool(), Dense(2), BatchNorm(), Dropout(0.5), MultiHeadAttention(1, 2)):
            used(x)
        assert not caplog.records
        Conv1D(4, 2, name="filters")(x)
    assert "Conv1D 'filters' neither uses nor hands on the mask" in caplog.text


def test_masks_go_through_operators_and_slices_of_time() -> None:
    x = Masking()(nn.Input([-1, 5, 3]))
    mask = x.mask
    assert mask is not None
    for value in (x * 2 + 1, -x, x @ nn.Variable([3, 2]), function.maximum(x, 0), x[:, :, 1:]):
        assert value.mask is mask
    assert x[:, ::-1].mask.shape == (-1, 5) and x[:, 1:3].mask.shape == (-1, 2)  # type: ignore[union-attr]
    assert x[:, 0].mask is None and x.transpose(0, 2, 1).mask is None and x.sum(axis=2).mask is None


def test_a_block_of_padding_alone_leaves_the_statistics() -> None:
    made: Any = nn.model.SequentialModel(
        [-1, None, 2], [nn.layer.Masking(), nn.layer.BatchNorm(0.5), nn.layer.Dense(1)], seed=1
    )
    made.compile("sgd", "mse")
    x = np.ones((4, 3, 2))
    made.fit(x + np.arange(24).reshape(4, 3, 2), np.zeros((4, 3, 1)), epochs=1, verbose=0)
    before = made.store.buffer_values.copy()
    made.fit(x * 0, np.zeros((4, 3, 1)), epochs=1, verbose=0)
    assert np.array_equal(made.store.buffer_values, before)

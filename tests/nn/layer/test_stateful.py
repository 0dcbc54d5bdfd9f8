"""Recurrent layers that carry their states from batch to batch, beside a loop in NumPy, and where that is refused."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn import function
from nn.arrays import Array
from nn.layer import GRU, LSTM, Bidirectional, Dense, Masking, SimpleRNN, TimeDistributed
from nn.model import Model, SequentialModel
from nn.random import keyed
from nn.testing import check_gradients
from tests.contract.nn_rows.recurrent import normal_bias
from tests.nn.layer.test_masks import KINDS

Cell = Callable[..., tuple[Array, ...]]
BATCH, STEPS, UNITS = 4, 5, 3


def parts(count: int = 3, key: str = "parts") -> list[Array]:
    """The parts of sequences, one after the other."""
    draw = keyed(0, key)
    return [draw.standard_normal((BATCH, STEPS, 2)) for _ in range(count)]


def made(kind: Any, **given: Any) -> Any:
    model = SequentialModel([-1, None, 2], [kind(UNITS, bias_initializer=normal_bias(), **given)], dtype="float64", seed=2)
    model.compile("sgd", "mse")
    return model


def run(cell: Cell, x: Array, states: tuple[Array, ...], variables: list[Array], mask: Array | None = None) -> Any:
    """Return the states after each step, and after the last one."""
    outputs = []
    for t in range(x.shape[1]):
        after = cell(x[:, t], states, *variables)
        if mask is not None:
            after = tuple(np.where(mask[:, t, None], new, old) for new, old in zip(after, states, strict=True))
        states = after
        outputs.append(states[0])
    return np.stack(outputs, axis=1), states


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("kind", "cell", "count"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_batch_begins_where_the_last_one_has_ended(kind: Any, cell: Cell, count: int, whole: bool) -> None:
    """Predictions, scores and training steps carry the same states: those of a loop over all steps, to the bit of one run."""
    carrying, plain = made(kind, stateful=True, return_sequences=whole), made(kind, return_sequences=whole)
    weights = carrying.get_weights()
    plain.set_weights(weights)
    states = (np.zeros((BATCH, UNITS)),) * count
    given = parts()
    at_once = plain.predict(np.concatenate(given, axis=1))
    for place, x in enumerate(given):
        outputs, states = run(cell, x, states, weights)
        expected = outputs if whole else outputs[:, -1]
        carrying.reset_states()
        for before in given[:place]:
            # Batches of training and of scoring leave the same states, bit by bit.
            carrying.compute_gradients(before, np.zeros_like(expected))
        found = carrying.predict(x)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        if whole:
            assert np.array_equal(found, at_once[:, STEPS * place : STEPS * (place + 1)])
        carrying.reset_states()
        for before in given[:place]:
            carrying.evaluate(before, np.zeros_like(expected))
        assert np.array_equal(carrying.predict(x), found)
    carrying.reset_states()
    assert np.array_equal(carrying.predict(given[0]), plain.predict(given[0]))


@pytest.mark.parametrize(("kind", "cell", "count"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_gradients_end_where_a_batch_begins(kind: Any, cell: Cell, count: int) -> None:
    """They are the difference quotients of the loss of the second batch, with the states of the first one as numbers."""
    model = made(kind, stateful=True, return_sequences=True)
    weights, (first, second) = model.get_weights(), parts(2)
    label = keyed(1, "label").standard_normal((BATCH, STEPS, UNITS))
    _, states = run(cell, first, (np.zeros((BATCH, UNITS)),) * count, weights)

    def loss(variables: list[Array]) -> float:
        return float(((run(cell, second, states, variables)[0] - label) ** 2).mean())

    model.predict(first)
    value, _ = model.compute_gradients(second, label)
    assert value == pytest.approx(loss(weights), rel=1e-12)
    for place, variable in enumerate(model.trainable_variables()):
        direction = keyed(2, "direction", place).standard_normal(variable.shape)
        moved = [[each + h * direction if at == place else each for at, each in enumerate(weights)] for h in (1e-5, -1e-5)]
        quotient = (loss(moved[0]) - loss(moved[1])) / 2e-5
        assert float((variable.get_gradient() * direction).sum()) == pytest.approx(quotient, rel=1e-6)


def test_stop_gradient_stops_it() -> None:
    check_gradients(lambda x: function.stop_gradient(x > 0) * x, (3,))
    entry = nn.Input([-1, 2])
    value = Dense(2, use_bias=False)(entry)
    model: Any = Model(entry, value + function.stop_gradient(value * 3), dtype="float64")
    model.compile("sgd", "mse")
    x = np.array([[1.0, 2.0]])
    _, found = model.compute_gradients(x, np.zeros((1, 2)))
    np.testing.assert_allclose(model.trainable_variables()[0].get_gradient(), x.T @ found)


@pytest.mark.parametrize("kind", [LSTM, GRU, SimpleRNN])
def test_fit_deals_batches_that_go_on(kind: Any) -> None:
    """An epoch of `fit` is its batches one by one, and those are steps of a model with the states as inputs and outputs."""
    x, y = np.concatenate(parts()), keyed(3, "labels").standard_normal((3 * BATCH, UNITS))
    fitted, stepped = made(kind, stateful=True), made(kind, stateful=True)
    entries = [
        nn.Input([-1, STEPS, 2], "x"),
        *[nn.Input([-1, UNITS], f"state_{number}") for number in range(len(_states(kind)))],
    ]
    open_layer = kind(UNITS, return_state=True)
    output, *states = open_layer(entries[0], initial_state=entries[1:])
    opened: Any = Model(entries, [output, *states], dtype="float64")
    opened.compile("sgd", ["mse", *[None] * len(states)])
    opened.set_weights(fitted.get_weights())
    fitted.fit(x, y, epochs=2, batch_size=BATCH, shuffle=False, verbose=0)
    kept = [np.zeros((BATCH, UNITS)) for _ in states]
    for _ in range(2):
        for start in range(0, len(x), BATCH):
            rows = slice(start, start + BATCH)
            stepped.train_on_batch(x[rows], y[rows])
            after = opened.predict([x[rows], *kept])[1:]
            opened.train_on_batch([x[rows], *kept], [y[rows], *[None] * len(states)])
            kept = after
    for one, other, third in zip(fitted.get_weights(), stepped.get_weights(), opened.get_weights(), strict=True):
        assert np.array_equal(one, other)
        assert np.array_equal(one, third)
    copy = deepcopy(fitted)
    assert np.array_equal(copy.predict(x[:BATCH]), fitted.predict(x[:BATCH]))
    fitted.reset_states()
    assert not np.array_equal(copy.predict(x[:BATCH]), fitted.predict(x[:BATCH]))


def _states(kind: Any) -> range:
    return range(2 if kind is LSTM else 1)


@pytest.mark.parametrize(("kind", "cell", "count"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_masks_and_lengths(kind: Any, cell: Cell, count: int) -> None:
    """What a mask leaves out changes no state; each batch may have its own number of steps."""
    model: Any = SequentialModel([-1, None, 2], [Masking(), kind(UNITS, return_sequences=True, stateful=True)], dtype="float64")
    model.compile("sgd", "mse")
    states = (np.zeros((BATCH, UNITS)),) * count
    for length, x in zip((5, 2, 4), parts(), strict=True):
        mask = keyed(4, "mask", length).random((BATCH, length)) > 0.4
        x = x[:, :length] * mask[..., None]
        outputs, states = run(cell, x, states, model.get_weights(), mask)
        np.testing.assert_allclose(model.predict(x), outputs, rtol=1e-12)


def test_both_directions_carry_their_own_states() -> None:
    model: Any = SequentialModel(
        [-1, None, 2], [Bidirectional(GRU(UNITS, return_sequences=True, stateful=True))], dtype="float64"
    )
    model.compile("sgd", "mse")
    cell, weights = KINDS[1][1], model.get_weights()
    forward = backward = (np.zeros((BATCH, UNITS)),)
    given = parts()
    for x in given:
        ahead, forward = run(cell, x, forward, weights[:3])
        behind, backward = run(cell, x[:, ::-1], backward, weights[3:])
        np.testing.assert_allclose(model.predict(x), np.concatenate([ahead, behind[:, ::-1]], axis=2), rtol=1e-12)
    model.layers[0].reset_states()
    assert np.array_equal(model.predict(given[0]), Model.from_bytes(model.to_bytes()).predict(given[0]))


def test_files_copies_and_models_in_models() -> None:
    """A file has no states, a copy has those of the model; models that share the layer share its states."""
    entry = nn.Input([-1, STEPS, 2])
    output, h, c = LSTM(UNITS, stateful=True, return_state=True)(entry)
    inner: Any = Model(entry, [output, h, c], dtype="float64")
    around = nn.Input([-1, STEPS, 2])
    outer: Any = Model(around, Dense(2)(inner(around)[0]), dtype="float64")
    outer.compile("sgd", "mse")
    first, second, _ = parts()
    fresh, after = outer.predict(first), outer.predict(second)
    assert not np.array_equal(fresh, after)
    outer.reset_states()
    assert np.array_equal(outer.predict(first), fresh)
    copy, again = deepcopy(outer), Model.from_bytes(outer.to_bytes())
    assert np.array_equal(copy.predict(second), after)
    assert np.array_equal(again.predict(first), fresh)
    assert np.array_equal(again.predict(second), after)
    # The layer has one state, whichever model runs it.
    outer.reset_states()
    outer.predict(first)
    plain: Any = SequentialModel([-1, 2 * STEPS, 2], [LSTM(UNITS)], dtype="float64")
    plain.compile("sgd", "mse")
    plain.set_weights(inner.get_weights())
    assert np.array_equal(inner.predict(second)[0], plain.predict(np.concatenate([first, second], axis=1)))


def test_an_output_without_a_loss_carries_its_state_in_prediction_alone() -> None:
    entry = nn.Input([-1, STEPS, 2])
    model: Any = Model(entry, [LSTM(UNITS, stateful=True)(entry), GRU(UNITS, stateful=True)(entry)], dtype="float64")
    model.compile("sgd", ["mse", None])
    first = parts(1)[0]
    kept = model.predict(first)
    model.reset_states()
    model.compute_gradients(first, [np.zeros((BATCH, UNITS)), None])
    found = model.predict(first)
    assert not np.array_equal(found[0], kept[0])
    assert np.array_equal(found[1], kept[1])


def batches(model: Any, x: Array) -> None:
    model.predict(x)
    model.predict(x[:2])


def twice(kind: Any) -> None:
    layer, entry = kind(UNITS, return_sequences=True, stateful=True, name="memory"), nn.Input([-1, STEPS, 2])
    Model(entry, layer(layer(entry)[:, :, :2]))


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (
            batches,
            r"LSTM 'lstm_1' carries the states of 4 samples, got a batch of 2; batches must have one size until reset_states",
        ),
        (
            lambda m, x: m.predict(x, batch_size=3),
            r"predict\(\) needs batches of one size, .* 4 samples in batches of 3 leave one of 1",
        ),
        (
            lambda m, x: m.evaluate(x, x[:, 0, :1], batch_size=3),
            r"evaluate\(\) needs batches of one size, as LSTM 'lstm_1' has",
        ),
        (lambda m, x: m.fit(x, x[:, 0, :1], batch_size=3, shuffle=False, verbose=0), r"fit\(\) needs batches of one size"),
        (
            lambda m, x: m.fit(x, x[:, 0, :1], batch_size=2, verbose=0),
            r"fit\(\) needs shuffle=False, as LSTM 'lstm_1' has stateful",
        ),
        (
            lambda m, x: m.fit(x, x[:, 0, :1], 1, 2, (x[:3], x[:3, 0, :1]), shuffle=False, verbose=0),
            r"fit\(\) needs batches of one size, .* 3 samples in batches of 2",
        ),
        (lambda m, x: m.split(1), r"split\(\) cuts models without states between batches, got LSTM 'lstm_1'"),
        (lambda m, x: nn.onnx.save(m, Path("model.onnx")), r"nn.onnx.save\(\) 'model' must carry no states .* LSTM 'lstm_1'"),
        (lambda m, x: twice(GRU), "GRU 'memory' carries its state from batch to batch, so a model calls it once, got 2 calls"),
        (
            lambda m, x: LSTM(3, stateful=True)(nn.Input([-1, 4, 2]), [nn.Input([-1, 3])] * 2),
            "LSTM: 'initial_state' begins every",
        ),
        (lambda m, x: TimeDistributed(GRU(3, stateful=True)), "TimeDistributed 'layer' must carry no states"),
    ],
)
def test_what_would_lose_states_is_refused(act: Callable[..., Any], words: str) -> None:
    model: Any = SequentialModel([-1, STEPS, 2], [LSTM(UNITS, stateful=True), Dense(1)], dtype="float64")
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=words):
        act(model, parts(1)[0])


def test_validation_goes_on_in_batches_of_the_size_of_training() -> None:
    model, other = made(LSTM, stateful=True), made(LSTM, stateful=True)
    x, y = np.concatenate(parts()), np.zeros((3 * BATCH, UNITS))
    history = model.fit(x, y, 1, BATCH, (x, y), shuffle=False, verbose=0)
    other.fit(x, y, 1, BATCH, shuffle=False, verbose=0)
    assert history["val_Loss"] == [other.evaluate(x, y, batch_size=BATCH)["Loss"]]
    assert np.array_equal(model.predict(x, batch_size=BATCH), other.predict(x, batch_size=BATCH))

"""Cross-check with Keras of states that recurrent layers carry: in prediction, scores, steps and `fit`, and after a reset."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.layer import GRU, LSTM, Bidirectional, Dense, Masking, SimpleRNN
from nn.model import SequentialModel
from nn.random import keyed
from tests.contract.nn_rows.recurrent import normal_bias
from tests.nn.golden import Golden, optional

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = optional("keras")
KINDS = {"SimpleRNN": SimpleRNN, "LSTM": LSTM, "GRU": GRU}
BATCH, STEPS, UNITS, RATE = 4, 5, 3, 0.1


def ours(kind: str, form: str) -> Any:
    layer = KINDS[kind](UNITS, return_sequences=form != "last", stateful=True, bias_initializer=normal_bias())
    layers = [Masking()] if form in ("masked", "both") else []
    made = Bidirectional(layer) if form == "both" else layer
    model: Any = SequentialModel([-1, None, 2], [*layers, made, Dense(1)], seed=2)
    model.compile(nn.gradient_descent.SGDOptimizer(RATE), "mse")
    return model


def theirs(kind: str, form: str, weights: list[Array]) -> Any:
    layers = keras.layers
    x = entry = keras.Input(batch_shape=(BATCH, None, 2))
    x = layers.Masking()(x) if form in ("masked", "both") else x
    layer = getattr(layers, kind)(UNITS, return_sequences=form != "last", stateful=True)
    model = keras.Model(entry, layers.Dense(1)((layers.Bidirectional(layer) if form == "both" else layer)(x)))
    # States are variables, too, which are not trained.
    for variable, weight in zip(model.trainable_variables, weights, strict=True):
        variable.assign(weight)
    model.compile(keras.optimizers.SGD(RATE), "mse")
    return model


def keep_states_for_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Keras put new states beside the former ones: on torch it writes over those, which backward of LSTM and GRU needs."""
    assign = keras.Variable._direct_assign

    def beside(variable: Any, value: Any) -> None:
        if variable.trainable:
            assign(variable, value)
        else:
            variable._value = value.detach().clone()

    monkeypatch.setattr(keras.Variable, "_direct_assign", beside)


def reset(model: Any) -> None:
    """Begin with states of 0 in a model of Keras."""
    for layer in model.layers:
        if hasattr(layer, "reset_states"):
            layer.reset_states()
        elif hasattr(layer, "reset_state"):
            layer.reset_state()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Keras's own
@pytest.mark.parametrize("form", ["last", "whole", "masked", "both"])
@pytest.mark.parametrize("kind", KINDS)
def test_states_go_from_batch_to_batch_as_in_keras(
    kind: str, form: str, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = keyed(0, "stateful golden")
    x = draw.standard_normal((3, BATCH, STEPS, 2)).astype(np.float32)
    if form in ("masked", "both"):
        # A different number of steps for each sample, also none in a batch, and gaps.
        x *= (draw.random((3, BATCH, STEPS, 1)) > 0.4) * (np.arange(BATCH) != 1)[None, :, None, None].repeat(3, 0)
        x[1, 1, 2:] = 0.5
    y = draw.standard_normal((3, BATCH, 1) if form == "last" else (3, BATCH, STEPS, 1)).astype(np.float32)
    # What Keras gives at steps that are left out, before the first that is there, is 0 and not the state. Nothing counts it.
    there = x.any(axis=-1, keepdims=True) if form in ("masked", "both") else np.ones_like(y, bool)
    whole_x, whole_y = x.reshape(-1, STEPS, 2), y.reshape(3 * BATCH, *y.shape[2:])
    model = ours(kind, form)

    def compute() -> list[Any]:
        keep_states_for_backward(monkeypatch)
        other = theirs(kind, form, model.get_weights())

        def predicted(given: Array, kept: Array) -> Array:
            return np.where(kept, other.predict(given, batch_size=BATCH, verbose=0), 0)

        found = [predicted(*each) for each in zip(x, there, strict=True)]
        reset(other)
        found.append(predicted(whole_x, there.reshape(whole_y.shape)))
        reset(other)
        found.append(np.float32([other.test_on_batch(*each) for each in zip(x, y, strict=True)]))
        found.append(predicted(x[0], there[0]))
        reset(other)
        found.append(np.float32([other.train_on_batch(*each) for each in zip(x, y, strict=True)]))
        found.append(predicted(x[0], there[0]))
        reset(other)
        history = other.fit(whole_x, whole_y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0)
        found.append(np.float32(history.history["loss"]))
        return [*found, predicted(x[2], there[2])]

    def predicted(given: Array, kept: Array) -> Array:
        return np.where(kept, model.predict(given, batch_size=BATCH), 0)

    answers = golden(compute, x, y, *model.get_weights(), needs=keras)
    found: list[Any] = [predicted(*each) for each in zip(x, there, strict=True)]
    model.reset_states()
    found.append(predicted(whole_x, there.reshape(whole_y.shape)))
    model.reset_states()
    found.append(np.array([model.test_on_batch(*each)["Loss"] for each in zip(x, y, strict=True)]))
    found.append(predicted(x[0], there[0]))
    model.reset_states()
    found.append(np.array([model.train_on_batch(*each)["Loss"] for each in zip(x, y, strict=True)]))
    found.append(predicted(x[0], there[0]))
    model.reset_states()
    found.append(np.array(model.fit(whole_x, whole_y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0)["Loss"]))
    found.append(predicted(x[2], there[2]))
    for answer, each in zip(answers, found, strict=True):
        answer.close(each, rtol=2e-5, atol=2e-6)
    # The second batch does not begin with 0, so that a state that is dropped would show.
    fresh = ours(kind, form)
    assert not np.allclose(np.where(there[1], fresh.predict(x[1]), 0), found[1], atol=1e-3)

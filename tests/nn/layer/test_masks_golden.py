"""Cross-check with Keras of masks, ignored labels, weights of positions and states: outputs, losses and gradients."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.layer import GRU, LSTM, BatchNorm, Dense, Embedding, GlobalAveragePool, Masking, MultiHeadAttention, SimpleRNN
from nn.model import Model, SequentialModel
from nn.random import keyed
from tests.nn.golden import Golden, optional

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = optional("keras")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Keras's own
LENGTHS = [6, 4, 1, 5, 3]


def ids() -> Array:
    draw = keyed(4, "masks golden").integers(1, 12, (5, 6))
    return np.where(np.arange(6) < np.array(LENGTHS)[:, None], draw, 0)


def gradients(model: Any, x: Any, y: Any, weight: Any = None, loss: Any = None) -> list[Any]:
    """Return loss and gradients that Keras computes in training, in the order of its weights."""
    loss = loss or keras.losses.SparseCategoricalCrossentropy()
    found = loss(y, model(x, training=True), sample_weight=weight)
    model.zero_grad()
    found.backward()
    return [found, *[variable.value.grad for variable in model.trainable_variables]]


def pair(kind: str) -> tuple[Any, Any]:
    """Return a model of ours, and a function that makes the same of Keras with our weights."""
    recurrent = {"LSTM": LSTM, "GRU": GRU, "SimpleRNN": SimpleRNN}
    parts = {
        "attention": [MultiHeadAttention(2, 3), BatchNorm(0.9)],
        "pooling": [Dense(5, "tanh"), GlobalAveragePool()],
        **{name: [made(5, return_sequences=True)] for name, made in recurrent.items()},
    }
    ours: Any = SequentialModel([-1, None], [Embedding(12, 4, mask_zero=True), *parts[kind], Dense(3, "softmax")], seed=2)
    ours.compile("sgd", "crossentropy")

    def theirs() -> Any:
        layers = keras.layers
        x = entry = keras.Input((None,))
        x = layers.Embedding(12, 4, mask_zero=True)(x)
        if kind == "attention":
            x = layers.BatchNormalization(momentum=0.9)(layers.MultiHeadAttention(2, 3)(x, x))
        elif kind == "pooling":
            x = layers.GlobalAveragePooling1D()(layers.Dense(5, "tanh")(x))
        else:
            x = getattr(layers, kind)(5, return_sequences=True)(x)
        model = keras.Model(entry, layers.Dense(3, "softmax")(x))
        model.set_weights(ours.get_weights())
        return model

    return ours, theirs


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN", "attention", "pooling"])
def test_masked_models(kind: str, weighed: bool, golden: Golden) -> None:
    """Loss and gradients of training, and predictions, of padded ids; with weights of positions as well."""
    ours, theirs = pair(kind)
    x, draw = ids(), keyed(5, "labels")
    y = draw.integers(0, 3, (5,) if kind == "pooling" else (5, 6))
    weight = draw.random(y.shape) if weighed else None

    def compute() -> list[Any]:
        model = theirs()
        return [model.predict(x, verbose=0), *gradients(model, x, y, weight)]

    answers = golden(compute, x, y, *([] if weight is None else [weight]), needs=keras)
    kept = np.ones(5, bool) if kind == "pooling" else x > 0
    # Queries that are padding give other numbers here, which nothing counts.
    answers[0].close(ours.predict(x), 2e-5, 1e-6, where=kept)
    loss, _ = ours.compute_gradients(x, y, sample_weight=weight)
    answers[1].close(loss, 2e-5)
    for variable, answer in zip(ours.store.variables, answers[2:], strict=True):
        answer.close(variable.gradient, 2e-4, 2e-6, message=variable.name)


def test_ignored_classes(golden: Golden) -> None:
    draw = keyed(6, "ignored")
    x, y = draw.standard_normal((5, 6, 4)), draw.integers(0, 4, (5, 6))
    ours: Any = SequentialModel([-1, None, 4], [Dense(3)], seed=2)
    ours.compile("sgd", nn.loss.Cross_Entropy_With_Softmax(ignore_index=3))

    def compute() -> list[Any]:
        entry = keras.Input((None, 4))
        model = keras.Model(entry, keras.layers.Dense(3)(entry))
        model.set_weights(ours.get_weights())
        return gradients(model, x, y, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=3))

    value, *slopes = golden(compute, x, y, needs=keras)
    value.close(ours.compute_gradients(x, y)[0], 1e-5)
    for variable, answer in zip(ours.store.variables, slopes, strict=True):
        answer.close(variable.gradient, 1e-4, 1e-6)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
def test_states(kind: str, golden: Golden) -> None:
    """An encoder's states begin a decoder; the states after it are outputs, too."""
    ours_kind = {"LSTM": LSTM, "GRU": GRU, "SimpleRNN": SimpleRNN}[kind]
    draw = keyed(7, "states golden")
    source, target = draw.standard_normal((5, 6, 3)), draw.standard_normal((5, 4, 2))
    for sample, length in enumerate(LENGTHS):
        source[sample, length:] = 0
    first, second = nn.Input([-1, None, 3]), nn.Input([-1, None, 2])
    _, *states = ours_kind(4, name="encoder", return_state=True)(Masking()(first))
    decoded, *last = ours_kind(4, name="decoder", return_sequences=True, return_state=True)(second, initial_state=states)
    ours: Any = Model([first, second], [decoded, *last], seed=3)
    ours.compile("sgd", "mse")

    def compute() -> list[Any]:
        one, two = keras.Input((None, 3)), keras.Input((None, 2))
        made = getattr(keras.layers, kind)
        encoder, decoder = made(4, return_state=True), made(4, return_sequences=True, return_state=True)
        _, *between = encoder(keras.layers.Masking()(one))
        model = keras.Model([one, two], decoder(two, initial_state=between))
        for layer, name in ((encoder, "encoder"), (decoder, "decoder")):
            layer.set_weights([each.get_value() for each in ours.get_layer(name).variables])
        return list(model.predict([source, target], verbose=0))

    answers = golden(compute, source, target, needs=keras)
    for answer, found in zip(answers, ours.predict([source, target]), strict=True):
        answer.close(found, 2e-5, 1e-6)

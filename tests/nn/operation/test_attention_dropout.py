"""Attention of which training leaves out single weights."""

from __future__ import annotations

import numpy as np
import pytest

import nn
from nn.arrays import OwnMemory
from nn.layer import Dense, MultiHeadAttention
from nn.operation import Attention, DropoutAttention, DropoutOperation, GaussianNoiseOperation, Mode, NormalDraw
from nn.random import keyed
from nn.testing import check_gradients
from tests.contract.nn_rows.graph_row import softmax

SHAPES = [(3, 5, 2, 4), (3, 6, 2, 4), (3, 6, 2, 3)]
DRAW = np.random.default_rng(0)
INPUTS = [DRAW.standard_normal(shape) for shape in SHAPES]


def made(part: Attention, training: bool = True) -> np.ndarray:
    part.allocate(SHAPES, (3, 5, 2, 3), np.dtype(np.float64))
    part.begin(Mode(training=training, key=(1, 2, 3, 4)), 5)
    out = np.empty((3, 5, 2, 3))
    part.forward(INPUTS, out)
    return out


@pytest.mark.parametrize("causal", [False, True])
def test_the_means_are_those_by_the_weights_that_are_left(causal):
    part = DropoutAttention(causal, 0.4)
    found = made(part)
    q, k, v = (each.swapaxes(1, 2) for each in INPUTS)
    scores = q @ k.swapaxes(2, 3) / 2
    if causal:
        scores = np.where(np.tri(5, 6, dtype=bool), scores, -np.inf)
    assert set(np.unique(part._dropped)) == {0, 1 / 0.6}
    np.testing.assert_allclose(found, ((softmax(scores) * part._dropped) @ v).swapaxes(1, 2), rtol=1e-12, atol=1e-12)


def test_outside_training_nothing_is_left_out():
    plain = made(Attention())
    assert np.array_equal(made(DropoutAttention(rate=0.4), training=False), plain)
    assert not np.array_equal(made(DropoutAttention(rate=0.4)), plain)
    assert np.array_equal(made(DropoutAttention(rate=0.4)), made(DropoutAttention(rate=0.4)))


def test_the_share_that_is_left_out():
    part = DropoutAttention(rate=0.3)
    shapes = [(50, 20, 4, 1)] * 3
    part.allocate(shapes, shapes[0], np.dtype(np.float32))
    part.begin(Mode(training=True, key=(0, 0, 0, 0)), 1)
    assert np.mean(part._dropped == 0) == pytest.approx(0.3, abs=0.005)


class Counting(OwnMemory):
    """Memory that counts its bytes."""

    def __init__(self):
        self.bytes = 0

    def empty(self, shape, dtype):
        found = super().empty(shape, dtype)
        self.bytes += found.nbytes
        return found


def lasting(part, shapes, output, training):
    """Return the bytes that an operation keeps from forward to backward."""
    part._lasting, part.training = Counting(), training
    part.allocate(shapes, output, np.dtype(np.float64))
    return part._lasting.bytes


def test_draws_take_memory_in_training_alone_and_once():
    shapes = [(6, 50, 4, 2)] * 3
    plain, weights = lasting(Attention(), shapes, shapes[0], True), 6 * 4 * 50 * 50 * 8
    assert lasting(DropoutAttention(rate=0.1), shapes, shapes[0], True) == plain + weights
    assert lasting(DropoutAttention(rate=0.1), shapes, shapes[0], False) == plain
    for noise in (DropoutOperation, GaussianNoiseOperation):
        assert lasting(noise(0.1), shapes[:1], shapes[0], True) == 6 * 50 * 4 * 2 * 8
        assert lasting(noise(0.1), shapes[:1], shapes[0], False) == 0
    assert lasting(NormalDraw(), shapes[:1], shapes[0], False) == 0


@pytest.mark.parametrize("shape", [(3, 5), (2, 8192), (1, 16_385), (70, 40, 33), (0, 4)])
def test_masks_that_are_drawn_in_parts_are_those_of_one_draw(shape):
    part = DropoutOperation(0.3)
    part.allocate([shape], shape, np.dtype(np.float32))
    part.begin(Mode(training=True, key=(1, 2, 3, 4)), 5)
    drawn = keyed(1, "dropout", 2, 3, 4, 5).random(dtype=np.float32, size=shape)
    assert np.array_equal(part._noise, (drawn >= 0.3) * np.float32(1 / 0.7))


@pytest.mark.parametrize("causal", [False, True])
def test_gradients(causal):
    check_gradients(MultiHeadAttention(2, 3, causal=causal, dropout=0.4), (5, 4))


def model(seed: int = 0) -> nn.model.Model:
    x = nn.Input([-1, 6, 4])
    found = nn.model.Model(x, Dense(1)(MultiHeadAttention(2, 3, dropout=0.5)(x)), seed=seed)
    found.compile("sgd", "mse")
    return found


def test_models_draw_by_their_seed_and_keep_the_rate_in_files():
    x, y = DRAW.standard_normal((16, 6, 4)), DRAW.standard_normal((16, 6, 1))
    first, second = model(), model()
    for each in (first, second):
        each.fit(x, y, epochs=2, batch_size=4, verbose=0)
    assert all(map(np.array_equal, first.get_weights(), second.get_weights()))
    back = nn.model.Model.from_bytes(first.to_bytes())
    assert back.get_layer("multiheadattention_1").dropout == 0.5
    for each in (first, back):
        each.fit(x, y, epochs=1, batch_size=4, verbose=0)
    assert all(map(np.array_equal, first.get_weights(), back.get_weights()))
    np.testing.assert_array_equal(first.predict(x), back.predict(x))
    foreign = nn.onnx.from_bytes(nn.onnx.to_bytes(first))
    np.testing.assert_allclose(foreign.predict(x), first.predict(x), atol=1e-5)


def test_the_rate_is_checked():
    with pytest.raises(ValueError, match="MultiHeadAttention 'dropout' must be a number >= 0 and < 1, got 1"):
        MultiHeadAttention(2, 3, dropout=1)

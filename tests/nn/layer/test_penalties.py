"""Regularisers and constraints of layers: part of loss and gradient, kept after each update, in files and on workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
from nn import constraint, regularizer
from nn.arrays import Array
from nn.layer import (
    GRU,
    LSTM,
    Conv1DTranspose,
    Conv2D,
    Dense,
    DepthwiseConv1D,
    Embedding,
    Flatten,
    SeparableConv1D,
    SimpleRNN,
)  # fmt: skip
from parallel_sgd.profiles import FixedBlockAssignment
from tests.parallel_sgd.digits_job import DigitsJob, digits, plan_of

X = np.random.default_rng(0).standard_normal((12, 5))
Y = np.random.default_rng(1).standard_normal((12, 3))


def network(**arguments: object) -> nn.model.SequentialModel:
    model = nn.model.SequentialModel([-1, 5], [Dense(4, "tanh", **arguments), Dense(3)], dtype="float64", seed=2)  # type: ignore[arg-type]
    model.compile(nn.gradient_descent.SGDOptimizer(0.1), "mse")
    return model


def gradients(model: nn.model.SequentialModel) -> tuple[float, list[Array]]:
    loss, _ = model.compute_gradients(X, Y)
    return loss, [variable.get_gradient() for variable in model.trainable_variables()]


@pytest.mark.parametrize(
    ("given", "penalty", "slope"),
    [
        ("l1", lambda w: 0.01 * np.abs(w).sum(), lambda w: 0.01 * np.sign(w)),
        (regularizer.L2(0.3), lambda w: 0.3 * (w * w).sum(), lambda w: 0.6 * w),
        (regularizer.L1L2(0.1, 0.2), lambda w: (0.1 * np.abs(w) + 0.2 * w * w).sum(), lambda w: 0.1 * np.sign(w) + 0.4 * w),
    ],
    ids=["l1", "l2", "both"],
)
def test_loss_and_gradient_have_the_penalty(given: object, penalty: object, slope: object) -> None:
    plain, model = network(), network(kernel_regularizer=given)
    kernel = model.layers[0].kernel.get_value()  # type: ignore[attr-defined]
    (loss, others), (found, mine) = gradients(plain), gradients(model)
    assert found == pytest.approx(loss + penalty(kernel), rel=1e-12)  # type: ignore[operator]
    np.testing.assert_allclose(mine[0], others[0] + slope(kernel), rtol=1e-12)  # type: ignore[operator]
    assert all(map(np.array_equal, mine[1:], others[1:]))
    assert model.evaluate(X, Y)["Loss"] == pytest.approx(plain.evaluate(X, Y)["Loss"] + penalty(kernel))  # type: ignore[operator]
    assert np.array_equal(model.predict(X), plain.predict(X))


def test_a_layer_that_is_used_twice_is_penalised_once_and_a_frozen_one_in_the_loss_alone() -> None:
    class Twice(nn.model.Model):
        def call(self, x: nn.Value) -> nn.Value:
            dense = Dense(5, use_bias=False, kernel_regularizer=self.given)
            return dense(dense(x))

        def __init__(self, given: object) -> None:
            super().__init__([-1, 5], dtype="float64")
            self.given = given

    with_penalty, without = Twice("l2"), Twice(None)
    for model in (with_penalty, without):
        model.setup("mse")
    (loss, _), (other, _) = (model.compute_gradients(X, np.ones((12, 5))) for model in (with_penalty, without))
    kernel, plain = (model.trainable_variables()[0] for model in (with_penalty, without))
    np.testing.assert_allclose(kernel.gradient, plain.gradient + 0.02 * kernel.value, rtol=1e-12)
    assert loss - other == pytest.approx(0.01 * np.square(kernel.value).sum())

    frozen = nn.model.SequentialModel([-1, 5], [Dense(5, kernel_regularizer="l2"), Dense(3)], seed=1)
    frozen.layers[0].trainable = False
    frozen.setup("mse")
    before = np.square(frozen.layers[0].kernel.value).sum()  # type: ignore[attr-defined]
    residue = np.square(frozen.predict(X) - Y).mean()
    assert frozen.evaluate(X, Y)["Loss"] == pytest.approx(residue + 0.01 * before, rel=1e-5)


@pytest.mark.parametrize(
    ("given", "holds"),
    [
        ("non_neg", lambda w: (w >= 0).all()),
        (constraint.MaxNorm(0.5), lambda w: (np.linalg.norm(w, axis=0) <= 0.5 + 1e-6).all()),
        ("unit_norm", lambda w: np.allclose(np.linalg.norm(w, axis=0), 1, atol=1e-6)),
        (constraint.MinMaxNorm(0.6, 0.7, axis=[0, 1]), lambda w: 0.6 - 1e-6 <= np.linalg.norm(w) <= 0.7 + 1e-6),
    ],
    ids=["non_neg", "max_norm", "unit_norm", "min_max_norm"],
)
def test_constraints_hold_after_every_update(given: object, holds: object) -> None:
    model = network(kernel_constraint=given)
    assert not holds(model.layers[0].kernel.value)  # type: ignore[operator, attr-defined]
    for _ in range(3):
        model.fit(X, Y, epochs=1, batch_size=6, verbose=0)
        assert holds(model.layers[0].kernel.value)  # type: ignore[operator, attr-defined]
    again = nn.model.Model.from_bytes(model.to_bytes())
    for each in (model, again):
        each.fit(X, Y, epochs=1, batch_size=6, verbose=0)
    assert all(map(np.array_equal, model.get_weights(), again.get_weights()))


def test_embeddings_and_kernels_of_images_take_them_too() -> None:
    for layers, shape in (
        ([Embedding(4, 3, embeddings_regularizer="l2", embeddings_constraint="unit_norm"), Flatten()], [2]),
        ([Conv2D(2, 2, kernel_regularizer="l1", bias_constraint="non_neg"), Flatten()], [3, 3, 1]),
    ):
        model = nn.model.SequentialModel([-1, *shape], [*layers, Dense(2)])
        model.compile("sgd", "mse")
        loss = model.fit(np.ones((4, *shape)), np.ones((4, 2)), epochs=1, verbose=0)["Loss"][-1]
        assert loss > np.square(model.predict(np.ones((4, *shape))) - 1).mean() - 1
        described = [variable.regularizer for variable in nn.model.Model.from_bytes(model.to_bytes()).trainable_variables()]
        assert sum(each is not None for each in described) == 1


def test_workers_train_to_the_same_bits() -> None:
    x, y, *test = digits()
    found = []
    for nodes in (1, 2, 4):
        model = nn.model.SequentialModel([-1, 64], seed=5)
        model.add(Dense(8, "tanh", kernel_regularizer="l2", kernel_constraint=constraint.MaxNorm(0.5)))
        model.add(Dense(10, "softmax", kernel_regularizer="l1"))
        model.setup("crossentropy_with_softmax")
        plan = plan_of(FixedBlockAssignment(nodes, 1, 4), block_size=16, epoch=1, seed=11)
        job = DigitsJob(plan, model, data=(x[:200], y[:200], *test)).run()
        found += job.weights()
    assert len(found) == 7
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("Dense 'kernel_regularizer' must be one of l1, l1_l2, l2, got 'l3'", lambda: Dense(2, kernel_regularizer="l3")),
        ("Dense 'kernel_constraint' must be one of max_norm, .*, got 'max'", lambda: Dense(2, kernel_constraint="max")),
        ("Dense 'bias_regularizer' must be an instance of Regularizer, got float", lambda: Dense(2, bias_regularizer=0.1)),
        ("L2 'l2' must be a number >= 0, got -1", lambda: regularizer.L2(-1)),
        ("MaxNorm 'max_value' must be a number >= 0, got -1", lambda: constraint.MaxNorm(-1)),
        ("MinMaxNorm 'max_value' must be a number >= 2, got 1", lambda: constraint.MinMaxNorm(2, 1)),
        ("MaxNorm 'axis' must name axes of shape .2,., got 1", lambda: constraint.MaxNorm(axis=1).project(np.ones(2))),
    ],
)
def test_wrong_ones_are_refused(message: str, call: object) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("layer", "shape", "variables"),
    [
        (Conv1DTranspose(2, 3, kernel_regularizer="l2", bias_constraint="non_neg"), (5, 3), ("kernel", "bias")),
        (DepthwiseConv1D(3, depthwise_regularizer="l2", bias_constraint="non_neg"), (5, 3), ("kernel", "bias")),
        (SeparableConv1D(2, pointwise_regularizer="l2", depthwise_constraint="non_neg"), (5, 3),
         ("pointwise_kernel", "depthwise_kernel")),
        (LSTM(2, recurrent_regularizer="l2", kernel_constraint="non_neg"), (5, 3), ("recurrent_kernel", "kernel")),
        (GRU(2, kernel_regularizer="l2", recurrent_constraint="non_neg"), (5, 3), ("kernel", "recurrent_kernel")),
        (SimpleRNN(2, bias_regularizer="l2", recurrent_constraint="non_neg"), (5, 3), ("bias", "recurrent_kernel")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.layer.Layer) else "",
)  # fmt: skip
def test_layers_with_several_kernels_give_each_its_own(layer: nn.layer.Layer, shape: Any, variables: tuple[str, str]) -> None:
    model = nn.model.SequentialModel([-1, *shape], [layer, Flatten(), Dense(1)], seed=1)
    model.compile("sgd", "mse")
    penalised, bound = (getattr(layer, name) for name in variables)
    x = np.random.default_rng(3).standard_normal((6, *shape))
    y = np.ones((6, 1))
    penalty = 0.01 * np.square(penalised.value).sum()
    assert model.evaluate(x, y)["Loss"] == pytest.approx(np.square(model.predict(x) - y).mean() + penalty, rel=1e-5)
    model.fit(x, y, epochs=1, verbose=0)
    assert (bound.value >= 0).all()
    again = nn.model.Model.from_bytes(model.to_bytes())
    assert again.evaluate(x, y) == model.evaluate(x, y)

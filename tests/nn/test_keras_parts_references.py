"""Cross-check with Keras of rules that look at matrices, and of connectionist temporal classification."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
from nn import gradient_descent as gd
from nn.random import keyed
from tests.nn.golden import Golden, optional

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = optional("keras")
SHAPES = [(6, 9), (9,), (9, 4), (3, 5, 2), (4, 1)]
SIZES = [int(np.prod(shape)) for shape in SHAPES]
STEPS = 12

RULES: list[tuple[gd.IGradientDescent, Callable[[], Any]]] = [
    (gd.AdafactorOptimizer(0.02), lambda: keras.optimizers.Adafactor(0.02)),
    (
        gd.AdafactorOptimizer(0.9, -0.6, epsilon2=0.1, clip_threshold=0.7),
        lambda: keras.optimizers.Adafactor(0.9, -0.6, epsilon_2=0.1, clip_threshold=0.7),
    ),
    (gd.MuonOptimizer(0.02), lambda: keras.optimizers.Muon(0.02, epsilon=1e-8)),
    (
        gd.MuonOptimizer(0.02, 0.8, 3, 0.5, nesterov=False, weight_decay=0.0),
        lambda: keras.optimizers.Muon(
            0.02,
            momentum=0.8,
            ns_steps=3,
            rms_rate=0.5,
            nesterov=False,
            weight_decay=None,
            adam_weight_decay=None,
            epsilon=1e-8,
        ),
    ),
]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras's own
@pytest.mark.parametrize("number", range(len(RULES)), ids=lambda number: f"{number} {type(RULES[number][0]).__name__}")
def test_rules_of_matrices_are_those_of_keras(golden: Golden, number: int) -> None:
    rule, make = RULES[number]
    total = sum(SIZES)
    start = keyed(0, "matrices").standard_normal(total).astype(np.float32)
    gradients = keyed(1, "matrices").standard_normal((STEPS, total)).astype(np.float32)
    borders = np.cumsum(SIZES)[:-1]

    def compute() -> list[Any]:
        cut = zip(np.split(start, borders), SHAPES, strict=True)
        tensors, optimizer = [keras.Variable(part.reshape(shape)) for part, shape in cut], make()
        for gradient in gradients:
            parts = zip(np.split(gradient, borders), SHAPES, strict=True)
            optimizer.apply([keras.ops.convert_to_tensor(part.reshape(shape)) for part, shape in parts], tensors)
        return [np.concatenate([keras.ops.convert_to_numpy(tensor.value).reshape(-1) for tensor in tensors])]

    [expected] = golden(compute, start, gradients, needs=keras)
    rule.partition(SIZES, SHAPES)
    found = start.copy()
    for gradient in gradients:
        rule.update(found, gradient)
    # Epsilon stands in front of Adam's corrections in Keras.
    expected.close(found, rtol=2e-4, atol=2e-5)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_connectionist_temporal_classification_is_that_of_keras(golden: Golden) -> None:
    scores = keyed(0, "ctc").standard_normal((6, 12, 7)).astype(np.float32) * 2
    label = np.array([[1, 2, 3, 4], [5, 5, 0, 0], [6, 0, 0, 0], [1, 1, 1, 1], [2, 3, 2, 0], [4, 4, 5, 0]])

    def compute() -> list[Any]:
        tensor = keras.ops.convert_to_tensor(scores).requires_grad_()
        loss = keras.losses.CTC()(keras.ops.convert_to_tensor(label), tensor)
        loss.backward()
        return [loss.detach().numpy(), tensor.grad.numpy()]

    value, gradient = golden(compute, scores, label, needs=keras)
    loss = nn.loss.CTC()
    prepared = loss.prepare(label, scores.shape, scores.dtype)
    loss.allocate(scores.shape, scores.dtype)
    value.close(np.float32(loss.value(prepared, scores)), rtol=1e-5)
    found = np.empty_like(scores)
    loss.gradient(prepared, scores, found)
    gradient.close(found, rtol=1e-4, atol=1e-6)


def test_rules_of_matrices_need_shapes() -> None:
    rule = gd.MuonOptimizer()
    rule.partition([4])
    with pytest.raises(ValueError, match="must be told the shapes of the variables by partition"):
        rule.update(np.ones(4), np.ones(4))
    with pytest.raises(ValueError, match="got MuonOptimizer"):
        nn.optimizer.ShardedPSGDOptimizer.admit(rule)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ([[1, 0, 1]], "behind their ends only, got .1 0 1."),
        ([[1, 1, 1]], "fit into the 4 steps of the outputs, got one for sample 0 that needs 5"),
        ([[1, 7, 0]], r"classes in 0..2, got 7"),
        ([1], r"\(batch, length\), got int64 of shape \(1,\)"),
    ],
)
def test_labels_that_no_way_gives_are_refused(label: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nn.loss.CTC().prepare(np.array(label), (1, 4, 3), np.dtype("float32"))


def test_a_model_learns_to_read_and_decodes() -> None:
    draw = keyed(0, "read")
    label = draw.integers(1, 4, (64, 3))
    # Each class for two steps, and nothing between.
    x = np.eye(4)[np.stack([label, np.zeros_like(label)], axis=2).reshape(64, 6).repeat(2, axis=1)]
    x = x + 0.1 * draw.standard_normal(x.shape)
    model = nn.model.SequentialModel([-1, None, 4], [nn.layer.Dense(4, "softmax")])
    model.compile(nn.gradient_descent.ADAMOptimizer(0.1), "ctc")
    history = model.fit(x, label, epochs=30, batch_size=16, verbose=0)
    assert history["Loss"][-1] < 0.5 < history["Loss"][0]
    again = nn.model.Model.from_bytes(model.to_bytes())
    read = nn.loss.CTC().decode(again.predict(x))
    assert (read[:, :3] == label).all(axis=1).mean() > 0.9
    assert (read[:, 3:] == 0).all()

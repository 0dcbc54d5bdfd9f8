"""Cross-check with torch of a functional model: two inputs, a shared tower, two losses and an added one, over steps of SGD."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
from nn.layer import Concatenate, Dense, Dot
from nn.model import Model
from nn.random import keyed
from tests.nn.golden import Golden, optional

torch = optional("torch")
STEPS, RATE = 20, 0.1


def network() -> Any:
    left, right = nn.Input([-1, 5], name="left"), nn.Input([-1, 5], name="right")
    first, second = Dense(4, "tanh"), Dense(3)
    a, b = second(first(left)), second(first(right))
    x = Concatenate()([a, b, Dot(normalize=True)([a, b])])
    same = Dense(1, "sigmoid", name="same")(x)
    kind = Dense(3, "softmax", name="kind")(Concatenate()([x, same * 2 - 1]))
    model: Any = Model([left, right], [same, kind], dtype="float64", seed=3)
    model.add_loss((a**2).sum(axis=1) * 0.01)
    model.compile(
        nn.gradient_descent.SGDOptimizer(RATE),
        ["binary_crossentropy", "categorical_crossentropy"],
        loss_weights={"same": 0.4},
    )
    return model


def test_steps_of_a_functional_model(golden: Golden) -> None:
    model, draw = network(), keyed(0, "functional golden")
    left, right = draw.standard_normal((24, 5)), draw.standard_normal((24, 5))
    same, kind = draw.integers(0, 2, (24, 1)), draw.integers(0, 3, 24)
    names = [variable.name for variable in model.store.variables]
    assert names == [f"{layer}/{part}" for layer in ("dense_1", "dense_2", "same", "kind") for part in ("kernel", "bias")]
    first = [variable.get_value() for variable in model.store.variables]

    def compute() -> list[Any]:
        weights = [torch.tensor(array, requires_grad=True) for array in first]
        losses = []
        for _ in range(STEPS):
            w1, b1, w2, b2, w3, b3, w4, b4 = weights
            a, b = (torch.tanh(torch.tensor(x) @ w1 + b1) @ w2 + b2 for x in (left, right))
            cosine = torch.nn.functional.cosine_similarity(a, b, dim=1)[:, None]
            x = torch.cat([a, b, cosine], dim=1)
            probability = torch.sigmoid(x @ w3 + b3)
            scores = torch.cat([x, probability * 2 - 1], dim=1) @ w4 + b4
            loss = (
                0.4 * torch.nn.functional.binary_cross_entropy(probability, torch.tensor(same, dtype=torch.float64))
                + torch.nn.functional.cross_entropy(scores, torch.tensor(kind))
                + 0.01 * (a**2).sum(dim=1).mean()
            )
            losses.append(loss.item())
            loss.backward()
            with torch.no_grad():
                weights = [(each - RATE * each.grad).requires_grad_() for each in weights]
        return [np.array(losses), *weights]

    losses, *weights = golden(compute, left, right, same, kind, *first, needs=torch)
    found = [model.train_on_batch([left, right], [same, kind])["Loss"] for _ in range(STEPS)]
    losses.close(np.array(found), rtol=1e-9)
    for variable, weight in zip(model.store.variables, weights, strict=True):
        weight.close(variable.value, rtol=1e-8, atol=1e-9)
    assert found[-1] < found[0]


def test_the_answers_are_of_this_model(golden: Golden) -> None:
    """A comparison that cannot fail would tell nothing: with another factor of a loss the first gradient is another one."""
    model = network()
    model.compile("sgd", ["binary_crossentropy", "categorical_crossentropy"], loss_weights={"same": 0.5})
    draw = keyed(0, "functional golden")
    data = (
        [draw.standard_normal((24, 5)), draw.standard_normal((24, 5))],
        [draw.integers(0, 2, (24, 1)), draw.integers(0, 3, 24)],
    )
    other = network()
    assert model.evaluate(*data)["Loss"] != pytest.approx(other.evaluate(*data)["Loss"], rel=1e-3)

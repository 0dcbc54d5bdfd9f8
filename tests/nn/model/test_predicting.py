"""A call of `predict` for samples like those of the call before takes the short way, and tells the same."""

from __future__ import annotations

import copy
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.model import Model
from tests.kernels import check_products

MOST_CALLS = 26
"""Of Python functions, for one row through two dense layers; the long way takes some forty."""


def network(rows: int = 2) -> tuple[Model, Array]:
    """A network of two layers that has predicted, and its samples."""
    model = nn.model.SequentialModel([-1, 6], seed=3)
    model.add(nn.layer.Dense(5, activation="relu"))
    model.add(nn.layer.Dense(3))
    model.setup(nn.loss.MSELoss())
    x = np.random.default_rng(1).standard_normal((rows, 6)).astype(np.float32)
    model.predict(x)
    return model, x


def calls_of(work: Any) -> int:
    count = 0

    def note(frame: FrameType, kind: str, about: object) -> None:
        nonlocal count
        count += kind == "call" and frame.f_globals["__name__"].startswith("nn.")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_a_row_like_the_one_before_costs_little() -> None:
    model, x = network(1)
    assert calls_of(lambda: model.predict(x)) <= MOST_CALLS


def test_each_call_looks_at_the_numbers() -> None:
    model, x = network()
    x[1, 4] = np.nan
    with pytest.raises(ValueError, match=r"predict\(\) 'x' must hold finite numbers: sample 1 has nan at x\[1, 4\]"):
        model.predict(x)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"x": np.zeros((2, 7), np.float32)}, "axis 1 must have length 6, got 7"),
        ({"x": np.zeros((2, 6), "U1")}, "must hold numbers"),
        ({"batch_size": 0}, "'batch_size' must be a positive integer, got 0"),
        ({"batch_size": True}, "'batch_size' must be a positive integer, got True"),
        ({"unknown": "none"}, "may go with 'unknown' where the model has a plan of columns"),
        ({"buckets": [3]}, "sequences are cut for a model with an input of any length"),
    ],
)
def test_all_else_is_refused_as_in_the_first_call(wrong: dict[str, Any], message: str) -> None:
    model, x = network()
    with pytest.raises((ValueError, TypeError), match=message):
        model.predict(**{"x": x, **wrong})


def test_what_changes_between_two_calls_counts() -> None:
    """Other numbers, other weights, another loss, fewer samples at a time, another type, a plan of inputs, a copy."""
    model, x = network()
    before = model.predict(x)
    assert model.predict(x) is not before, "an array of its own"
    twice = model.predict(2 * x)
    assert not np.array_equal(twice, before) and np.array_equal(model.predict(x), before)
    check_products(model.predict(x, 1), before)
    assert np.array_equal(model.predict(x.astype(np.float64)), before)
    assert np.array_equal(copy.deepcopy(model).predict(x), before)
    model.set_weights([2 * each for each in model.get_weights()])
    assert not np.array_equal(model.predict(x), before)
    model.set_weights([each / 2 for each in model.get_weights()])
    assert np.array_equal(model.predict(x), before)
    model.setup(nn.loss.MAELoss())
    assert np.array_equal(model.predict(x), before)
    model.inputs = nn.dataset.transforms.ImageCls()
    pixels = np.full((2, 6), 51, np.uint8)
    assert np.array_equal(model.predict(pixels), model.predict(np.full((2, 6), 0.2, np.float32)))

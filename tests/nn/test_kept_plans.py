"""Plans that a model keeps for the shapes of its batches: by their bytes, not by their number."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Block
from nn.layer import LSTM, BatchNorm, Conv2D, Dense, Dropout, Flatten, MaxPool, MultiHeadAttention
from nn.model import SequentialModel, runner
from nn.plan.plan import Plan, bytes_held


def dense() -> SequentialModel:
    model = SequentialModel([-1, 64], seed=1)
    for layer in (Dense(32, activation="relu"), Dropout(0.5), Dense(10, activation="softmax")):
        model.add(layer)
    model.compile("sgd", "crossentropy")
    return model


def images() -> SequentialModel:
    model = SequentialModel([-1, 14, 14, 1], seed=1)
    for layer in (
        Conv2D(8, [3, 3], activation="relu"),
        BatchNorm(),
        MaxPool([2, 2]),
        Flatten(),
        Dense(10, activation="softmax"),
    ):
        model.add(layer)
    model.compile("sgd", "crossentropy")
    return model


def step(model: SequentialModel, samples: int) -> None:
    rng = np.random.default_rng(samples)
    x = rng.normal(size=(samples, *model.input_shape[1:])).astype("float32")  # type: ignore[index]
    model.compute_gradients(x, rng.integers(0, 10, samples))
    model.apply_gradients()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Return a list to which the shape of each plan that is made is added."""
    shapes: list[tuple[int, ...]] = []
    make: Callable[..., None] = Plan.__init__

    def counted(self: Plan, graph: Any, shapes_of: list[tuple[int, ...]], *args: Any, **given: Any) -> None:
        shapes.append(shapes_of[0])
        make(self, graph, shapes_of, *args, **given)

    monkeypatch.setattr(Plan, "__init__", counted)
    return shapes


@pytest.mark.parametrize("build", [dense, images])
def test_plans_of_twenty_tails_are_made_once(build: Callable[[], SequentialModel], made: list[tuple[int, ...]]) -> None:
    """As of clients of a federation, whose last batches have every length."""
    model = build()
    for _ in range(3):
        for samples in range(1, 21):
            step(model, samples)
    assert len(made) == len(set(made)) == 20


def test_large_plans_are_given_up_and_the_least_are_kept(monkeypatch: pytest.MonkeyPatch, made: list[tuple[int, ...]]) -> None:
    """Where plans are larger than the limit, the four that were used last stay; below it all do."""
    monkeypatch.setattr(runner, "KEPT_BYTES", 1)
    model = dense()
    for samples in (1, 2, 3, 4, 1, 2, 3, 4):
        step(model, samples)
    assert len(made) == 4
    for samples in (5, 2, 3, 4, 5, 1):  # 5 takes the place of 1
        step(model, samples)
    assert [shape[0] for shape in made] == [1, 2, 3, 4, 5, 1]


def test_the_limit_is_one_of_bytes(monkeypatch: pytest.MonkeyPatch, made: list[tuple[int, ...]]) -> None:
    model = dense()
    sizes = [model_bytes(model, samples) for samples in range(1, 13)]
    monkeypatch.setattr(runner, "KEPT_BYTES", sum(sizes[6:]))  # the last six
    model = dense()
    for samples in range(1, 13):
        step(model, samples)
    made.clear()
    for samples in range(12, 6, -1):
        step(model, samples)
    assert not made
    step(model, 1)
    assert [shape[0] for shape in made] == [1]


def model_bytes(model: SequentialModel, samples: int) -> int:
    step(model, samples)
    return model.runner._compiled["train", samples].bytes


@pytest.mark.parametrize("build", [dense, images])
@pytest.mark.parametrize("samples", [16, 300])
def test_the_bytes_of_a_plan_are_those_that_it_allocates(build: Callable[[], SequentialModel], samples: int) -> None:
    """Python's own count of what the allocation of a plan takes is that of its arrays, and some for its objects."""
    model = build()
    step(model, 3)  # what all plans share is there
    shape = (samples, *model.input_shape[1:])  # type: ignore[index]
    own = [array for each in model.store.everything for array in (each.value, each.gradient)]
    block = Block()
    vars(model.runner)["_block"] = block  # one that is empty, so that it grows as the plan wants
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        plan = model.runner._make("train", [shape])
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    held = bytes_held((plan.plan, plan.losses), [*own, *block.pieces])
    assert held + block.size <= taken <= held + block.size + 200_000
    assert plan.bytes == bytes_held((plan.plan, plan.losses), [*own, *block.pieces], runner.ARRAY_OBJECT) + runner.PLAN_OBJECTS
    assert block.size > samples * 32 * 4


def sequences() -> SequentialModel:
    model = SequentialModel([-1, None, 8], seed=1)
    for layer in (LSTM(16, return_sequences=True), MultiHeadAttention(2, 8), Dropout(0.2), Dense(10, activation="softmax")):
        model.add(layer)
    model.compile("sgd", "crossentropy")
    return model


def read(model: SequentialModel, time: int) -> None:
    draw = np.random.default_rng(time)
    x = draw.normal(size=(8, time, 8)).astype("float32")
    model.compute_gradients(x, draw.integers(0, 10, (8, time)))
    model.apply_gradients()


def test_forty_lengths_lie_in_the_memory_of_a_few_of_the_longest(made: list[tuple[int, ...]]) -> None:
    """Sequences of forty lengths, from short to long, the order that asks for most: each plan is made once."""
    model, alone = sequences(), sequences()
    for time in [*range(3, 123, 3), *range(120, 0, -3)]:
        read(model, time)
    assert len(made) == len(set(made)) == 40
    read(alone, 120)
    assert model.runner._block is not None and alone.runner._block is not None
    assert model.runner._block.size <= 4 * alone.runner._block.size
    # Besides that a plan takes objects, and little that is of its shape.
    for purpose, shape in list(model.runner._compiled):
        found = model.runner._compiled[purpose, shape]
        held = bytes_held((found.plan, found.losses), [*model.runner._block.pieces])
        assert held < alone.runner._block.size / 5, shape


def test_plans_in_one_memory_compute_what_those_apart_do() -> None:
    model, apart = sequences(), sequences()
    vars(apart.runner)["_block"] = None
    for time in (4, 9, 2, 9, 4, 30, 2):
        for each in (model, apart):
            read(each, time)
            each.predict(np.ones((3, time + 1, 8)))
    for mine, other in zip(model.get_weights(), apart.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_memory_that_arrays_share_counts_once() -> None:
    memory = np.zeros(1000, np.uint8)
    strided = np.lib.stride_tricks.as_strided(memory, (10, 10), (1, 1))
    assert bytes_held([memory[:10], memory[500:].view(np.float32), strided, {"a": (memory,)}]) == 1000
    assert bytes_held([memory, np.zeros(3)], [strided]) == 24
    assert bytes_held(nn.Variable([3])) == 0


def test_bytes_are_counted_where_a_plan_may_have_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model with no more plans than all keep, none is counted: that takes a third of the time in which one is made."""
    counted: list[int] = []
    monkeypatch.setattr(runner, "bytes_held", lambda *args: counted.append(1) or bytes_held(*args))
    model = dense()
    for samples in (1, 2, 3, 4):
        step(model, samples)
    assert not counted
    step(model, 5)
    step(model, 6)
    assert len(counted) == 6, "each once"

"""What composed codecs remember: error feedback, states saved and loaded, random draws, identities of single codecs."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from nn.gradient_descent import NesterovOptimizer
from parallel_sgd.codec import Codec, GlobalSettings
from parallel_sgd.codec.compose import PS, AllToAll, Every, Gossip, Ring, ServerOpt, ShardedPS, Tree
from parallel_sgd.codec.pipeline import (
    QSGD,
    DGCMemory,
    DiffRef,
    ErrorFeedback,
    Int8,
    Momentum,
    PowerSGD,
    RandomK,
    Sign,
    Tern,
    TopK,
)
from parallel_sgd.profiles import FixedBlockAssignment, IIDBlockAssignment
from parallel_sgd.testing.array_job import SHAPES, expected, gradient
from tests.parallel_sgd.codec.compositions import ByHand, bits, codec_of, run


def numbers(batch: int, workers: int) -> list[np.ndarray]:
    rng = np.random.default_rng(batch)
    return [rng.standard_normal((5, 8)).astype(np.float32) for _ in range(workers)]


REMEMBERING = [
    Codec.of(AllToAll(), up=ErrorFeedback(TopK(0.2))),
    Codec.of(AllToAll(), up=Momentum(0.9) | ErrorFeedback(Sign())),
    Codec.of(AllToAll(), up=DGCMemory(0.9, TopK(0.2, warmup=8))),
    Codec.of(AllToAll(), up=DiffRef(TopK(0.2))),
    Codec.of(PS(), up=ErrorFeedback(TopK(0.2)), down=ErrorFeedback(Sign())),
    Codec.of(PS(), up=DiffRef(Int8(8))),
    Codec.of(PS(), send="delta", merge=ServerOpt(NesterovOptimizer(0.7, 0.9)), trigger=Every(2)),
    Codec.of(ShardedPS(smallest=8), up=ErrorFeedback(TopK(0.2) | Int8(8)), down=ErrorFeedback(Int8(8))),
    Codec.of(AllToAll(), send="delta", up=ErrorFeedback(Int8(8)), trigger=Every(2)),
    Codec.of(ShardedPS(smallest=8), send="delta", merge=ServerOpt(NesterovOptimizer(0.7, 0.9))),
    Codec.of(Ring(smallest=8), up=PowerSGD(1)),
    Codec.of(Ring(smallest=8), up=ErrorFeedback(RandomK(0.3, scaled=False))),
    Codec.of(Tree(), up=PowerSGD(1)),
    Codec.of(Gossip(gamma=0.5), up=DiffRef(TopK(0.2)), send="weights"),
]


@pytest.mark.parametrize("kind", REMEMBERING, ids=lambda kind: f"{kind.__doc__[19:60]}")
def test_a_saved_state_goes_on_to_the_bit(kind: type[Codec]) -> None:
    """Law 5: save and load in the middle of a run."""
    first, second = ByHand(kind, 3), ByHand(kind, 3)
    for batch in range(5):
        first.exchange(numbers(batch, 3))
    saved = {node: deepcopy(codec.state_dict()) for node, codec in first.codecs.items()}
    rest = [first.exchange(numbers(batch, 3)) for batch in range(5, 10)]
    assert all(len(state) > 1 for node, state in saved.items() if node >= 0 or len(saved) == 1)
    second.batch = 5
    for node, codec in second.codecs.items():
        codec.load_state_dict(saved[node])
    again = [second.exchange(numbers(batch, 3)) for batch in range(5, 10)]
    for before, after in zip(rest, again, strict=True):
        assert [value.tobytes() for value in before] == [value.tobytes() for value in after]


def test_a_foreign_state_is_refused() -> None:
    with GlobalSettings.use(IIDBlockAssignment(2)), pytest.raises(ValueError, match="remembers nothing, got colour"):
        Codec.of(AllToAll())(0).load_state_dict({"colour": 1})


@pytest.mark.parametrize("stage", [TopK(0.2), Sign(), TopK(0.3) | Int8(8)], ids=repr)
def test_what_is_left_out_comes_later(stage: Any) -> None:
    """Law 5: the sum of all results and the mean of the residuals are the sum of all means."""
    table = ByHand(Codec.of(AllToAll(), up=ErrorFeedback(stage)), 3)
    given, got = np.zeros((5, 8)), np.zeros((5, 8))
    for batch in range(200):
        values = numbers(batch, 3)
        given += np.mean(values, axis=0, dtype=np.float64)
        got += table.exchange(values)[0]
    states = [codec.state_dict() for codec in table.codecs.values()]
    left = [next(value for name, value in state.items() if name.endswith("residual")) for state in states]
    np.testing.assert_allclose(got + np.mean(left, axis=0).reshape(5, 8), given, atol=1e-4)


@pytest.mark.parametrize("exchange", [PS(), ShardedPS(smallest=8), ShardedPS(smallest=40)], ids=repr)
def test_what_is_left_out_on_the_way_back_comes_later_too(exchange: Any) -> None:
    """codecs.md, EF-Sign (2-sided): the residual where it is merged is what the results lack."""
    table = ByHand(Codec.of(exchange, up=ErrorFeedback(Sign()), down=ErrorFeedback(Sign())), 3)
    given, got = np.zeros(40), np.zeros(40)
    for batch in range(200):
        values = numbers(batch, 3)
        given += np.mean(values, axis=0, dtype=np.float64).reshape(-1)
        got += table.exchange(values)[0].reshape(-1)
    left, shards = np.zeros((2, 40)), exchange.shards(40, table.job.assignment, 0)
    for codec in table.codecs.values():
        for name, value in codec.state_dict().items():
            if name.endswith("residual"):
                way, numbers_, _ = name.split(".", 2)
                start, stop, _ = shards[int(numbers_.split(",")[-1])]
                left[int(way == "down"), start:stop] += value / (3 if way == "up" else 1)
    np.testing.assert_allclose(got + left.sum(axis=0), given, atol=1e-4)
    assert np.abs(left).max(axis=1).min() > 1e-2, "both residuals matter"


@pytest.mark.parametrize("exchange", [AllToAll(), ShardedPS(smallest=8)], ids=repr)
def test_draws_depend_on_batch_variable_and_worker(exchange: Any) -> None:
    """Law 2: equal in each run, different in each batch, on each worker and in each shard."""
    seen = set()
    for _ in range(2):
        table = ByHand(Codec.of(exchange, up=Tern(clip=None)), 2)
        value = np.full((5, 8), 0.5, np.float32)
        value[0, 0] = 1
        results = [table.exchange([value, value])[0].tobytes() for batch in range(8)]
        assert len(set(results)) == 8
        seen.add(tuple(results))
    assert len(seen) == 1


def test_a_seed_changes_the_draws() -> None:
    results = []
    for seed in (0, 1):
        table = ByHand(Codec.of(AllToAll(), up=QSGD(2, bucket=8)), 2)
        table.job.seed = seed
        results.append(table.exchange(numbers(0, 2))[0].tobytes())
    assert results[0] != results[1]


@pytest.mark.parametrize("exchange", [Ring(smallest=1), AllToAll(), PS(), Tree()], ids=repr)
def test_power_sgd_of_many_is_that_of_one_on_the_mean(exchange: Any) -> None:
    """codecs.md: powersgd#2, to 1e-5; full rank is exact."""
    many, one = ByHand(Codec.of(exchange, up=PowerSGD(2)), 4), ByHand(Codec.of(AllToAll(), up=PowerSGD(2)), 1)
    for batch in range(4):
        values = numbers(batch, 4)
        got = many.exchange(values)
        assert len({value.tobytes() for value in got}) == 1
        np.testing.assert_allclose(got[0], one.exchange([np.mean(values, axis=0)])[0], atol=1e-5)
    full = ByHand(Codec.of(exchange, up=PowerSGD(5)), 3)
    values = numbers(0, 3)
    np.testing.assert_allclose(full.exchange(values)[1], np.mean(values, axis=0), atol=1e-5)


def test_random_places_are_the_same_for_all() -> None:
    """codecs.md: a ring may add RandomK; the result is the scaled part of the mean."""
    job = run(Codec.of(Ring(smallest=1), up=RandomK(0.5)), IIDBlockAssignment(3))
    for batch in range(3):
        wanted, got = expected(batch, 3)[0], job.results[0][batch][0]
        places = got != 0
        assert places.sum() == 6
        np.testing.assert_allclose(got[places], 2 * wanted[places], rtol=1e-5)


def test_deep_gradient_compression_of_all_numbers_is_local_momentum() -> None:
    """codecs.md: rho = 1."""
    dgc = run(Codec.of(AllToAll(), up=DGCMemory(0.9, TopK(1.0))), IIDBlockAssignment(3), batches=6)
    momentum = run(Codec.of(AllToAll(), up=Momentum(0.9)), IIDBlockAssignment(3), batches=6)
    assert bits(dgc) == bits(momentum)
    velocity = np.zeros(SHAPES[0])
    for batch in range(6):
        velocity = 0.9 * velocity + np.mean([gradient(batch, block, 0) for block in range(3)], axis=0)
        np.testing.assert_allclose(dgc.results[0][batch][0], velocity, rtol=1e-4, atol=1e-2)


def test_the_gradient_s_side_sees_variables_as_a_whole() -> None:
    """Shards of what Momentum makes of the whole variable; its state is not cut."""
    job = run(Codec.of(ShardedPS(smallest=1), up=Momentum(0.5) | Int8()), IIDBlockAssignment(3))
    names = [name for name in codec_of(job).state_dict() if name.startswith("front.")]
    assert sorted(names) == ["front.0.0.step", "front.0.0.velocity"]


def test_workers_of_several_blocks_encode_their_mean() -> None:
    """Two workers of two blocks send one packet each; its scale is that of a mean."""
    job = run(Codec.of(AllToAll(), up=Int8()), FixedBlockAssignment(2, 1, 4))
    for batch in range(3):
        wanted = expected(batch, 4)[0]
        np.testing.assert_allclose(job.results[0][batch][0], wanted, atol=np.abs(gradient(batch, 0, 0)).max() + 10)
    assert sum(entry.packets for entry in job.exchanges[0].accounts.entries()) == 3 * 2 * 2

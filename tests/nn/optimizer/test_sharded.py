"""A sharded rule: the bits of PSGDOptimizer, states that can be taken apart and put together, and refusals."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from nn.arrays import Array
from nn.gradient_descent import ADAMOptimizer, Cosine, IGradientDescent, LAMBOptimizer, MomentumOptimizer, SGDOptimizer
from nn.optimizer import IOptimizer, OpContainer, PSGDOptimizer, ShardedPSGDOptimizer
from nn.optimizer.sharded import ALIGNMENT, shard_bounds
from nn.value import Variable, VariableStore
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, ISetting
from tests.parallel_sgd.digits_job import DigitsJob, plan_of
from tests.parallel_sgd.networks import mlp

BLOCK, EPOCHS = 32, 1


@functools.cache
def trained(
    kind: type[IOptimizer], rule: type[IGradientDescent], assignment: ISetting, units: int = 32, **arguments: Any
) -> tuple[bytes, ...]:
    plan = plan_of(assignment, block_size=BLOCK, epoch=EPOCHS, seed=7, optimizer=OpContainer(kind, rule, arguments))
    return tuple(DigitsJob(plan, mlp(units=units)).run().weights())


FOUR_BLOCKS = [FixedBlockAssignment(workers, 1, 4) for workers in (1, 2, 3, 4)]


@pytest.mark.parametrize("rule", [SGDOptimizer, MomentumOptimizer, ADAMOptimizer])
def test_the_bits_are_those_of_parallel_sgd(rule: type[IGradientDescent]) -> None:
    schedule = Cosine(0.01, 11)
    (expected,) = trained(PSGDOptimizer, rule, FOUR_BLOCKS[0], learn_rate=schedule, clip_value=0.01, weight_decay=1e-3)
    for assignment in FOUR_BLOCKS:
        found = trained(ShardedPSGDOptimizer, rule, assignment, learn_rate=schedule, clip_value=0.01, weight_decay=1e-3)
        assert set(found) == {expected}


def test_redundant_blocks_count_once() -> None:
    assignment = DuplicateAssignment(4, 2)
    assert set(trained(ShardedPSGDOptimizer, ADAMOptimizer, assignment)) == set(
        trained(PSGDOptimizer, ADAMOptimizer, assignment)
    )


def test_a_model_of_fewer_parameters_than_a_cache_line_per_worker() -> None:
    """All workers but the first have nothing to own."""
    wire = Wire(3)
    replicas = [Replica(wire, shard, SGDOptimizer(0.5)) for shard in range(3)]
    run([replica.step(np.full(SIZE, shard + 1.0)) for shard, replica in enumerate(replicas)])
    for replica in replicas:
        np.testing.assert_array_equal(replica.store.values, replicas[0].start - 0.5 * 2.0)


@pytest.mark.parametrize(("size", "count"), [(0, 2), (1, 3), (16, 2), (17, 2), (118_282, 2), (118_282, 7), (1000, 64)])
def test_shards_cover_the_vector(size: int, count: int) -> None:
    bounds = shard_bounds(size, count)
    assert bounds[0] == 0 and bounds[-1] == size and len(bounds) == count + 1
    assert sorted(bounds) == bounds
    assert all(start % ALIGNMENT == 0 or start == size for start in bounds)
    assert max(b - a for a, b in pairwise(bounds)) <= -(-size // count) + ALIGNMENT


# ---- replicas that exchange in memory

SHAPES = [(2, 3), (3,), (1, 4)]
SIZE = 13


class Wire:
    """Gradients and parameters of all shards of one batch at a time."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self.contents: list[dict[int, list[Array]]] = [{} for _ in range(1000)]


class Shards:
    """One worker's side of it."""

    def __init__(self, wire: Wire, shard: int) -> None:
        self.wire, self.shards, self.shard, self.batch = wire, wire.shards, shard, -1

    def put(self, variable_id: int, block_id: int, content: Array) -> None:
        self.wire.contents[self.batch].setdefault(variable_id, []).append(content.copy())

    def ready(self, variable_id: int) -> bool:
        there = self.wire.contents[self.batch].get(variable_id, [])
        return len(there) == (self.shards if variable_id < self.shards else 1)

    def get(self, variable_id: int) -> Array:
        there = self.wire.contents[self.batch][variable_id]
        return np.asarray(sum(there) / len(there))


class Replica:
    def __init__(self, wire: Wire, shard: int, rule: IGradientDescent, shapes: list[Any] = SHAPES) -> None:
        self.store = VariableStore([Variable(shape) for shape in shapes], [], np.dtype("float64"), 0)
        self.start = self.store.values.copy()
        self.exchange = Shards(wire, shard)
        self.optimizer = ShardedPSGDOptimizer(rule, self.store, self.exchange)

    def step(self, gradient: Array) -> Iterator[int]:
        self.exchange.batch += 1
        self.store.gradients[:] = gradient
        for variable in reversed(self.store.variables):
            self.optimizer.gradient_ready(variable, self.exchange.shard)
        return self.optimizer.finish_batch()

    def gather(self) -> Iterator[int]:
        self.exchange.batch += 1
        return self.optimizer.gather_state()


def run(processes: list[Iterator[int]]) -> None:
    """Let all go on in turns until all are through."""
    for _ in range(1000):
        processes = [process for process in processes if next(process, None) is not None]
        if not processes:
            return
    raise AssertionError("they wait for each other")


def gradients(step: int) -> Array:
    """Short numbers, of which the mean over three equal ones is exact."""
    return np.round(64 * np.random.default_rng(step).standard_normal(60)) / 64


def replicas_of(count: int, wire: Wire | None = None) -> list[Replica]:
    wire = wire or Wire(count)
    return [Replica(wire, shard, ADAMOptimizer(0.1), [(7, 7), (11,)]) for shard in range(count)]


def test_the_state_for_the_whole_vector_can_be_taken_up_by_any_number_of_workers() -> None:
    """Contract: rule state gathered for checkpoints. Resumed on 1, 2 or 4 workers is never stopped, bit for bit."""
    three = replicas_of(3)
    for step in range(4):
        run([replica.step(gradients(step)) for replica in three])
    own = [replica.optimizer.state_dict() for replica in three]
    assert [len(np.atleast_1d(state["rule:momentum"])) for state in own] == [32, 28, 0]
    run([replica.gather() for replica in three])
    states = [replica.optimizer.state_dict() for replica in three]
    for state in states:
        assert sorted(state) == ["rule:momentum", "rule:square", "rule:step"] and state["rule:step"] == 4
        for name in ("rule:momentum", "rule:square"):
            np.testing.assert_array_equal(state[name], np.concatenate([part[name] for part in own]))
    kept = {name: np.copy(value) if np.ndim(value) else value for name, value in states[0].items()}
    values = three[0].store.values.copy()
    for step in range(4, 7):
        run([replica.step(gradients(step)) for replica in three])
    assert len(np.atleast_1d(three[1].optimizer.state_dict()["rule:momentum"])) == 28, "what was gathered is out of date"
    for count in (1, 2, 4):
        again = replicas_of(count)
        for replica in again:
            replica.store.values[:] = values
            replica.optimizer.load_state_dict(kept)
        for step in range(4, 7):
            run([replica.step(gradients(step)) for replica in again])
        for replica in again:
            np.testing.assert_array_equal(replica.store.values, three[0].store.values)


def test_the_state_of_the_own_shard_is_enough_to_go_on_in_its_place() -> None:
    two = replicas_of(2)
    for step in range(3):
        run([replica.step(gradients(step)) for replica in two])
    again = replicas_of(2)
    for old, new in zip(two, again, strict=True):
        new.store.values[:] = old.store.values
        new.optimizer.load_state_dict(old.optimizer.state_dict())
    for pair in (two, again):
        run([replica.step(gradients(3)) for replica in pair])
    np.testing.assert_array_equal(two[0].store.values, again[0].store.values)


def test_nothing_has_to_be_gathered_before_the_first_step() -> None:
    two = replicas_of(2)
    run([replica.gather() for replica in two])
    assert two[0].optimizer.state_dict() == {"rule:step": 0}


def test_states_of_other_lengths_are_refused() -> None:
    optimizer = replicas_of(2)[1].optimizer
    with pytest.raises(ValueError, match=r"'rule:square' must be a vector for all 60 .* for the 28 of shard 1 of 2, got 32"):
        optimizer.load_state_dict({"rule:step": 1, "rule:momentum": np.zeros(28), "rule:square": np.zeros(32)})


REFUSED = [
    (LAMBOptimizer(), "LAMBOptimizer whose step depends on whole variables"),
    (SGDOptimizer(0.1, clip_norm=1.0), "SGDOptimizer with 'clip_norm'"),
]


@pytest.mark.parametrize(("rule", "reason"), REFUSED, ids=["LAMB", "clip_norm"])
def test_rules_that_look_at_more_than_one_parameter_are_refused(rule: IGradientDescent, reason: str) -> None:
    with pytest.raises(ValueError, match=f"ShardedPSGDOptimizer needs a rule .* got {reason}; use PSGD"):
        Replica(Wire(2), 0, rule)


def test_without_an_exchange() -> None:
    store = VariableStore([Variable((3,))], [], np.dtype("float32"), 0)
    with pytest.raises(ValueError, match="ShardedPSGDOptimizer exchanges gradients and needs an exchange"):
        ShardedPSGDOptimizer(SGDOptimizer(0.1), store)

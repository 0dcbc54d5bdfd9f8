"""Every sample is trained on in every epoch, in an order of the epoch's own, and every way of training sees the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.gradient_descent import MomentumOptimizer, SGDOptimizer
from nn.model import Model, SequentialModel
from nn.optimizer import (
    DoubleBufferingOptimizer,
    IOptimizer,
    LocalUpdateOptimizer,
    ParameterAveragingOptimizer,
    ShardedPSGDOptimizer,
)
from parallel_sgd import JobResult, ParallelSGD, in_process
from parallel_sgd.batch_sync import AsynchronizedSGD, StaleSynchronous
from parallel_sgd.codec import BlockWeight, DummyCodec, GradCode, Plain, SyncPS
from parallel_sgd.engine.batches import SHUFFLED, Batches, BlockFeeder
from parallel_sgd.profiles import CyclicAssignment, FixedBlockAssignment
from tests.parallel_sgd.dealing import dealt, factors

from ..statements import covers

SAMPLES, BLOCK, BLOCKS, EPOCHS, SEED = 101, 8, 4, 3, 5  # three whole batches of 32, and one of five
SIX = FixedBlockAssignment.of(blocks=6)
Seen = dict[tuple[int, int], list[np.ndarray]]


def unit_rows(samples: int = SAMPLES) -> nn.dataset.ArrayDataset:
    """Sample i has a weight of its own, row i of the kernel: the gradient of a block tells which samples it holds."""
    x, y = np.eye(samples, dtype=np.float32), np.arange(samples) % 3
    return nn.dataset.ArrayDataset(x, y, x[:3], y[:3])


def linear(samples: int = SAMPLES) -> Model:
    model = SequentialModel(input_shape=[-1, samples], seed=2)
    model.add(nn.layer.Dense(3, activation=nn.activation.Softmax(), use_bias=False))
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    return model


class Logged(Plain):
    """Keeps what every node puts, by node and block."""

    seen: Seen = defaultdict(list)

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        self.seen[self.node_id, block_weight.block_id].append(block_weight.content.copy())
        return super().update_blocks(block_weight)


class AlonePut(DummyCodec):
    """Keeps what every node puts, and exchanges nothing."""

    seen: Seen = Logged.seen

    def update_blocks(self, block_weight: BlockWeight) -> None:
        self.seen[self.node_id, block_weight.block_id].append(block_weight.content.copy())
        super().update_blocks(block_weight)


@pytest.fixture(autouse=True)
def nothing_seen() -> Iterator[None]:
    Logged.seen.clear()
    yield


def train(directory: Path, workers: int, *, ps: bool = False, **settings: Any) -> JobResult:
    given = {"epoch": EPOCHS, "block_size": BLOCK, "seed": SEED, "directory": directory, "gd_type": SGDOptimizer, **settings}
    given.setdefault("assignment_type", FixedBlockAssignment.of(blocks=BLOCKS))
    with in_process(workers, ps=ps) as nodes:
        return ParallelSGD(linear(), unit_rows(), None).parallel(nodes, **given)


def rows_of(content: np.ndarray) -> list[int]:
    return np.flatnonzero(content.any(axis=1)).tolist()


def bits(result: JobResult) -> set[bytes]:
    return {model.store.values.tobytes() for model in result.models.values()}


@covers("SUB-30", "SUB-45")
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_sample_once_in_every_epoch(tmp_path: Path, workers: int, shuffle: bool) -> None:
    """Blocks are disjoint, batches and the shorter last one cover the training set; orders are those of one
    worker and, unless `shuffle=False`, of each epoch's own."""
    result = train(tmp_path, workers, codec=Logged, shuffle=shuffle)
    assert result.ledger is not None and result.ledger.problems == () and len(result.ledger.committed) == EPOCHS * 4 * BLOCKS
    blocks = {block: contents for (_, block), contents in Logged.seen.items()}
    assert sorted(blocks) == list(range(BLOCKS)) and {len(contents) for contents in blocks.values()} == {EPOCHS * 4}
    orders = []
    for epoch in range(EPOCHS):
        order = []
        for batch, parts in enumerate(dealt(SAMPLES, BLOCK, BLOCKS, epoch, SEED if shuffle else None)):
            for block, places in enumerate(parts):
                assert rows_of(blocks[block][epoch * 4 + batch]) == sorted(places)
                order += sorted(places.tolist())
        assert sorted(order) == list(range(SAMPLES))
        orders.append(tuple(order))
    assert len(set(orders)) == (EPOCHS if shuffle else 1)


@covers("SUB-45")
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize(("workers", "size"), [(1, 64), (2, 40)])
def test_every_weight_moves(tmp_path: Path, workers: int, size: int, epochs: int) -> None:
    """Where 64 or 80 of 100 had moved when what fills no batch was left out."""
    with in_process(workers) as nodes:
        result = ParallelSGD(linear(100), unit_rows(100), None).parallel(
            nodes, block_size=size, epoch=epochs, gd_type=SGDOptimizer, directory=tmp_path
        )
    moved = (result.models[0].store.values != linear(100).store.values).reshape(100, 3).any(axis=1)
    assert np.count_nonzero(moved) == 100


def test_one_worker_trains_as_fit_does(tmp_path: Path) -> None:
    """The order of an epoch is that of `Model.fit`, and so is the last, shorter batch."""
    result = train(tmp_path, 1, assignment_type=FixedBlockAssignment.of(blocks=1), gd_params=(0.1,))
    model = linear()
    data = unit_rows().load()
    model.compile(SGDOptimizer(0.1))
    model.fit(data[0], data[1], batch_size=BLOCK, epoch=EPOCHS, seed=SEED, verbose=0)
    assert bits(result) == {model.store.values.tobytes()}


@pytest.mark.parametrize("shuffle", [True, False])
def test_class_weights_are_those_of_fit(shuffle: bool, tmp_path: Path) -> None:
    """The losses of a class count so many times, in the tail too; on any number of workers, of equal bits."""
    weights = {0: 0.25, 2: 3}
    settings = {"class_weight": weights, "gd_params": (0.1,), "shuffle": shuffle}
    alone = train(tmp_path, 1, assignment_type=FixedBlockAssignment.of(blocks=1), **settings)
    model = linear()
    data = unit_rows().load()
    model.compile(SGDOptimizer(0.1))
    fit = {"batch_size": BLOCK, "epoch": EPOCHS, "seed": SEED, "verbose": 0, "shuffle": shuffle}
    model.fit(data[0], data[1], class_weight=weights, **fit)
    assert bits(alone) == {model.store.values.tobytes()}
    several = [train(tmp_path, workers, **settings) for workers in (1, 2, 4)]
    assert len(set.union(*map(bits, several))) == 1
    assert bits(several[0]) != bits(train(tmp_path, 1, **{**settings, "class_weight": None}))


def test_gradients_of_the_tail_are_weighed_by_their_samples(tmp_path: Path) -> None:
    """By (samples of the block) B / t, and an empty one is zeros; those of whole batches are not."""
    train(tmp_path, 2, codec=Logged, assignment_type=SIX, block_size=16, epoch=1, gd_params=(0.0,))
    x, y, _, _ = unit_rows().load()
    model = linear()
    whole, tail = dealt(SAMPLES, 16, 6, 0, SEED)
    assert sorted(map(len, tail)) == [0, 1, 1, 1, 1, 1]
    for batch, blocks, scales in ((0, whole, [np.float32(1)] * 6), (1, tail, factors(tail))):
        for block, (places, scale) in enumerate(zip(blocks, scales, strict=True)):
            model.store.gradients[:] = 0
            if len(places):
                model.compute_gradients(x[places], y[places])
            (found,) = (contents[batch] for (_, b), contents in Logged.seen.items() if b == block)
            assert np.array_equal(found.reshape(-1), model.store.gradients * scale)


@pytest.mark.parametrize(("kind", "starts"), [(LocalUpdateOptimizer, False), (ParameterAveragingOptimizer, True)])
def test_updates_and_weights_of_the_tail_are_not_scaled(tmp_path: Path, kind: type[IOptimizer], starts: bool) -> None:
    """A worker steps by the mean over its own samples of the tail, by nothing where it has none."""
    settings: dict[str, Any] = {"op_type": kind, "codec": Logged, "epoch": 1, "gd_params": (0.5,), "shuffle": False}
    train(tmp_path, 3, assignment_type=SIX, block_size=16, **settings)  # 5 samples: one, two and two for the workers
    first = train(tmp_path, 3, assignment_type=SIX, block_size=16, **{**settings, "gd_params": (0.0,)})
    assert len(bits(first)) == 1
    x, y, _, _ = unit_rows().load()
    contents = {node: Logged.seen[node, 2 * node][1] for node in range(3)}
    before = linear()
    blocks = dealt(SAMPLES, 16, 6, 0, None)[0]
    means = []
    for places in blocks:
        before.compute_gradients(x[places], y[places])
        means.append(before.store.gradients.copy())
    before.store.values -= np.float32(0.5) * np.mean(means, axis=0)
    tail = dealt(SAMPLES, 16, 6, 0, None)[1]
    for node in range(3):
        places = np.concatenate(tail[2 * node : 2 * node + 2])
        assert len(places) == (1 if node == 0 else 2)
        before.compute_gradients(x[places], y[places])
        step = np.float32(-0.5) * before.store.gradients
        expected = before.store.values + step if starts else step
        np.testing.assert_allclose(contents[node].reshape(-1), expected, atol=1e-6)


CASES: dict[str, dict[str, Any]] = {
    "momentum": {"gd_type": MomentumOptimizer},
    "double buffering": {"op_type": DoubleBufferingOptimizer},
    "sharded": {"op_type": ShardedPSGDOptimizer},
    "server": {"ps": True, "codec": SyncPS},
}


@covers("SUB-45")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [3, 7])
@pytest.mark.share(8)
def test_bits_do_not_depend_on_the_number_of_workers(tmp_path: Path, case: str, size: int) -> None:
    """With tails of 11 and of 17 samples for six blocks; redundant blocks too, where they may be."""
    settings = {"assignment_type": SIX, "block_size": size, **CASES[case]}
    found = [train(tmp_path, workers, **settings) for workers in (1, 2, 3)]
    if case != "sharded":
        found.append(train(tmp_path, 4, **{**settings, "redundancy": 2}))
    assert len(set().union(*map(bits, found))) == 1
    assert all(result.ledger is not None and result.ledger.problems == () for result in found)


def test_coded_gradients_have_the_tail_too(tmp_path: Path) -> None:
    """A sum of coded blocks is that of the blocks; every sample counts as without a code, up to rounding."""
    coded = train(tmp_path, 3, ps=True, codec=GradCode, assignment_type=CyclicAssignment, redundancy=1, gd_params=(0.1,))
    plain = train(tmp_path, 3, assignment_type=FixedBlockAssignment.of(blocks=3), gd_params=(0.1,))
    np.testing.assert_allclose(coded.models[0].store.values, plain.models[0].store.values, atol=1e-6)


@covers("SUB-45")
@pytest.mark.parametrize("sync_type", [AsynchronizedSGD, StaleSynchronous(2)])
def test_asynchronous_workers_see_their_share_too(tmp_path: Path, sync_type: Any) -> None:
    """Each worker the same samples as under synchronous types."""
    train(tmp_path, 2, codec=AlonePut, sync_type=sync_type)
    for (_, block), contents in AlonePut.seen.items():
        wanted = [batch[block] for epoch in range(EPOCHS) for batch in dealt(SAMPLES, BLOCK, BLOCKS, epoch, SEED)]
        assert [rows_of(content) for content in contents] == [sorted(places) for places in wanted]
    assert sorted(block for _, block in AlonePut.seen) == list(range(BLOCKS))


def test_the_cost_of_an_order_is_a_number_per_sample() -> None:
    """No copy of the training set is made for an epoch: what is dealt lies in the memory of one block."""
    x, y = np.zeros((1000, 50), np.float32), np.zeros((1000, 3), np.float32)
    feeder = BlockFeeder(Batches(1000, 10, 3), (x,), (y,), SHUFFLED, seed=1)
    feeder.begin(0)
    places = {feeder.deal(batch, block)[0][0].__array_interface__["data"] for batch in range(34) for block in range(3)}
    assert len(places) == 1

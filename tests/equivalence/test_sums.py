"""Gradients of two blocks that are added up in the store: the bits of blocks that are merged one by one, and fewer calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.model import Model, SequentialModel
from nn.operation import matmul
from nn.optimizer import GAOptimizer, IOptimizer, OpContainer, PSGDOptimizer, ShardedPSGDOptimizer
from nn.value import Value, Variable
from parallel_sgd import JobResult, ParallelSGD, in_process
from parallel_sgd.batch_sync import SynchronizedSGD
from parallel_sgd.codec import FP16, BlockWeight, Codec, FirstCopy, Plain, Ring, SyncPS, Tree
from parallel_sgd.codec.bank import CodecBank
from parallel_sgd.codec.compose import AllToAll
from parallel_sgd.engine.exchange import BlockExchange
from parallel_sgd.engine.merge import TreeSum
from parallel_sgd.profiles import FixedBlockAssignment
from parallel_sgd.simulation.immediate import Link, reliable
from tests.parallel_sgd.digits_job import DigitsJob, digits, plan_of
from tests.parallel_sgd.links import lost_once
from tests.parallel_sgd.networks import mlp

SAMPLES = 8
LAYER = nn.layer
Spans = list[tuple[int, int, tuple[int, int]]]


class Twice(Model):
    """One layer, and so its variables, is used twice."""

    def call(self, x: Value) -> Value:
        again = LAYER.Dense(64, activation=nn.activation.Tanh())
        return LAYER.Dense(10, activation=nn.activation.Softmax())(again(again(x)))

    def get_config(self) -> dict[str, object]:
        return {}


def dense(dtype: str = "float32") -> Model:
    layers = [LAYER.Dense(96, activation=nn.activation.Tanh()), LAYER.Dropout(0.25)]
    return SequentialModel([-1, 64], [*layers, LAYER.Dense(64), *top()], seed=5, dtype=dtype)


def top() -> list[LAYER.Layer]:
    return [LAYER.Dense(10, activation=nn.activation.Softmax())]


MODELS: dict[str, Callable[[], Model]] = {
    "dense": dense,
    "float64": lambda: dense("float64"),
    "conv": lambda: SequentialModel(
        [-1, 64], [LAYER.Reshape((8, 8, 1)), LAYER.Conv2D(4, 3, padding=1), LAYER.Flatten(), LAYER.Dense(64), *top()]
    ),
    "lstm": lambda: SequentialModel([-1, 64], [LAYER.Reshape((8, 8)), LAYER.LSTM(16), LAYER.Dense(300), *top()]),
    "norm": lambda: SequentialModel([-1, 64], [LAYER.Dense(96), LAYER.BatchNorm(momentum=0.9), *top()]),
    "twice": lambda: Twice(input_shape=[-1, 64], seed=5),
}


def train(folder: Path, model: Model, workers: int = 1, blocks: int = 4, ps: bool = False, **options: Any) -> JobResult:
    """Two whole batches and a tail in which blocks have more, fewer and no samples."""
    rng = np.random.default_rng(2)
    count = 2 * SAMPLES * blocks + SAMPLES + 1
    x = rng.standard_normal((count, 64)).astype(model.dtype)
    y = np.eye(10, dtype=np.float32)[rng.integers(0, 10, count)]
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    job = ParallelSGD(model, nn.dataset.ArrayDataset(x, y, x[:8], y[:8]))
    given = {"assignment_type": FixedBlockAssignment.of(blocks=blocks), "gd_type": nn.gradient_descent.ADAMOptimizer}
    with in_process(workers, ps=ps) as nodes:
        return job.parallel(nodes, **{"epoch": 2, "block_size": SAMPLES, "directory": folder, "seed": 7, **given, **options})


def bits(result: JobResult) -> list[bytes]:
    stores = [model.store for model in result.models.values()]
    return [store.values.tobytes() + store.buffer_values.tobytes() for store in stores]


@contextmanager
def one_by_one() -> Iterator[None]:
    """No two blocks are added up in the store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BlockExchange, "pairs", lambda *_: frozenset())
        yield


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """Node, vector and blocks of all that codecs are given."""
    given: Spans = []
    update = CodecBank.update

    def seen(bank: CodecBank, variable: int, block: int, content: Any, kind: type[BlockWeight] = BlockWeight) -> None:
        given.append((bank.node_id, variable, kind(content, block).span))
        update(bank, variable, block, content, kind)

    monkeypatch.setattr(CodecBank, "update", seen)
    return given


@pytest.mark.parametrize("probe", ["right", "wrong"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.share(9)
def test_every_model_has_the_bits_of_blocks_one_by_one(
    name: str, probe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spans: Spans
) -> None:
    """On one worker, with a copy of the first sum, and on two, without any; also where the BLAS gives other bits."""
    find, products = matmul._find_sum, []

    def told(*shape: Any) -> Any:
        add = find(*shape) if probe == "right" else None
        return None if add is None else lambda *arrays: (products.append(shape), add(*arrays))

    monkeypatch.setattr(matmul, "_find_sum", told)
    with one_by_one():
        (expected,) = bits(train(tmp_path, MODELS[name]()))
    assert not products and all(high - low == 1 for _, _, (low, high) in spans)
    spans.clear()
    for workers in (1, 2):
        assert bits(train(tmp_path, MODELS[name](), workers)) == [expected] * workers
        assert {span for _, _, span in spans if span[1] - span[0] == 2} == {(0, 2), (2, 4)}
    small = name == "twice"  # which is used twice, or has fewer numbers
    assert bool(products) == (probe == "right" and not small)
    assert {shape[3].name for shape in products} <= {"float64" if name == "float64" else "float32"}


WAYS: dict[str, dict[str, Any]] = {
    "Plain": {"codec": Plain},
    "two codecs": {"codec": {variable: Plain if variable % 2 else Codec.of(AllToAll()) for variable in range(6)}},
    "sharded": {"op_type": ShardedPSGDOptimizer},
    "ascent": {"op_type": GAOptimizer},
    "Ring": {"codec": Ring},
    "Tree": {"codec": Tree},
    "SyncPS": {"codec": SyncPS, "ps_codec": SyncPS, "ps": True},
}


@pytest.mark.parametrize("blocks", [3, 5, 8])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.share(9)
def test_every_exchange_has_the_bits_of_blocks_one_by_one(way: str, blocks: int, tmp_path: Path, spans: Spans) -> None:
    options = WAYS[way]
    with one_by_one():
        (expected,) = bits(train(tmp_path, dense(), blocks=blocks, **options))
    for workers in (1, 2):
        spans.clear()
        assert bits(train(tmp_path, dense(), workers, blocks, **options)) == [expected] * workers
        pairs = {span for _, _, span in spans if span[1] - span[0] == 2}
        assert pairs == {3: {(0, 2)}, 5: {(0, 2), (3, 5)}, 8: {(0, 2), (2, 4), (4, 6), (6, 8)}}[blocks]


def test_redundant_blocks_and_a_copy_that_comes_first_change_no_bit(tmp_path: Path, spans: Spans) -> None:
    with one_by_one():
        (expected,) = bits(train(tmp_path, dense()))
    for way in ("Plain", "SyncPS"):
        assert bits(train(tmp_path, dense(), 4, redundancy=2, **WAYS[way])) == [expected] * 4
    assert {node for node, _, span in spans if span == (0, 2)} >= {0, 1}


@pytest.mark.parametrize("kind", [PSGDOptimizer, ShardedPSGDOptimizer])
def test_sums_that_are_lost_are_sent_again(kind: type[IOptimizer], spans: Spans) -> None:
    def run(nodes: int, link: Link) -> DigitsJob:
        x, y, *test = digits()
        optimizer = OpContainer(kind, nn.gradient_descent.ADAMOptimizer, (1e-3,))
        plan = plan_of(FixedBlockAssignment(nodes, 1, 4), optimizer=optimizer, block_size=SAMPLES, epoch=1, seed=7)
        return DigitsJob(plan, mlp(units=96), link=link, data=(x[:200], y[:200], *test)).run()

    (expected,) = run(1, reliable).weights()
    losing = lost_once(lambda sender, _receiver, key: key[2] == 1 and sender == 0)
    spans.clear()
    assert run(2, losing).weights() == [expected] * 2
    assert {span for _, _, span in spans} >= {(0, 2), (2, 4)}


def test_nothing_is_put_or_copied_for_the_first_of_two(tmp_path: Path, spans: Spans, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a batch in which a worker has two blocks; in the tail, where blocks have factors, each is put by itself."""
    copies: list[int] = []
    copy = TreeSum._copy
    monkeypatch.setattr(TreeSum, "_copy", lambda self, value: (copies.append(value.size), copy(self, value))[1])
    train(tmp_path, dense(), 2, epoch=1)
    vectors = {variable for _, variable, _ in spans}
    whole = [span for node, _, span in spans if node == 0][: 2 * len(vectors)]
    assert whole == [(0, 2)] * 2 * len(vectors)
    assert len(spans) == 2 * len(vectors) * (1 + 1 + 2)
    assert len(copies) == 2 * len(vectors)  # in the tail


class Seen(Plain):
    """A codec of a user, on top of one that takes sums."""

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        content, block = block_weight
        assert block_weight.span == (block, block + 1)
        return super().update_blocks(BlockWeight(content, block))


class Own(PSGDOptimizer):
    """An optimizer of a user, which looks at the gradient of every block."""

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        np.clip(variable.gradient, -0.01, 0.01, out=variable.gradient)
        super().gradient_ready(variable, block_id)


class Watching(SynchronizedSGD):
    """A sync type that does more with a block."""

    def put(self, variable: int, block_id: int, content: Any) -> None:
        super().put(variable, block_id, content)


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "options",
    [
        {"codec": Seen},
        {"codec": {0: Seen, **dict.fromkeys(range(1, 6), Plain)}},
        {"codec": FP16},
        {"codec": FirstCopy},
        {"op_type": Own},
        {"sync_type": Watching},
        {"op_type": ShardedPSGDOptimizer, "callbacks": [nn.callback.Callback()]},
    ],
    ids=str,
)
def test_who_does_not_say_that_it_takes_sums_gets_each_block(options: dict[str, Any], tmp_path: Path, spans: Spans) -> None:
    train(tmp_path, dense(), 2, **options)
    assert {span for _, _, span in spans} >= {(block, block + 1) for block in range(4)}
    assert all(high - low == 1 for _, _, (low, high) in spans)

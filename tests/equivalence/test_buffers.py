"""The statistics of BatchNorm: equal on all workers, to the bit those of one worker, whatever codec the gradients use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nn
from nn.gradient_descent import MomentumOptimizer
from nn.model import Model
from nn.optimizer import (
    DoubleBufferingOptimizer,
    FederatedOptimizer,
    IOptimizer,
    LocalUpdateOptimizer,
    OpContainer,
    ParameterAveragingOptimizer,
    PSGDOptimizer,
    ShardedPSGDOptimizer,
)
from nn.value import Value
from parallel_sgd import ParallelSGD, Parameter_Server, in_process
from parallel_sgd.batch_sync import AsynchronizedSGD
from parallel_sgd.codec import BlockWeight, Codec, DiLoCo, DummyCodec, GlobalSettings, Plain, netEncapsulation
from parallel_sgd.codec.fedavg import FedAvg, LocalSGD
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, ISetting
from tests.parallel_sgd.dealing import dealt, factors
from tests.parallel_sgd.digits_job import DigitsJob, digits, plan_of

BLOCK, BLOCKS, EPOCHS, SEED = 16, 4, 1, 11
BATCHES = EPOCHS * -(-1500 // (BLOCK * BLOCKS))
VARIABLES = 8  # the buffers come after them


class Residual(Model):
    """ReLU(x + BN(conv(ReLU(BN(conv(x)))))) and scores."""

    def call(self, x: Value) -> Value:
        x = nn.layer.Reshape((4, 4, 4))(x)
        branch = nn.activation.ReLU()(nn.layer.BatchNorm(momentum=0.9)(nn.layer.Conv2D(4, 3, padding=1, use_bias=False)(x)))
        branch = nn.layer.BatchNorm(momentum=0.9)(nn.layer.Conv2D(4, 3, padding=1, use_bias=False)(branch))
        x = nn.layer.Flatten()(nn.activation.ReLU()(nn.layer.Add()([x, branch])))
        return nn.layer.Dense(10, activation=nn.activation.Softmax())(x)

    def get_config(self) -> dict[str, object]:
        return {}


class Repeated(Model):
    """One norm for three places."""

    def call(self, x: Value) -> Value:
        norm = nn.layer.BatchNorm(momentum=0.2)
        x = norm(nn.layer.Dense(16)(x))
        return nn.layer.Dense(10, nn.activation.Softmax())(norm(norm(nn.layer.Dense(16)(x))))

    def get_config(self) -> dict[str, object]:
        return {}


def residual() -> Model:
    model = Residual(input_shape=[-1, 64], seed=5)
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return model


class Job(DigitsJob):
    """The plan of a test, on the residual model."""

    def __init__(
        self, assignment: ISetting, kind: type[IOptimizer] = PSGDOptimizer, samples: int = 1500, **changes: object
    ) -> None:
        given = {
            "block_size": BLOCK,
            "epoch": EPOCHS,
            "seed": SEED,
            "optimizer": OpContainer(kind, MomentumOptimizer, (0.02,)),
            **changes,
        }
        x, y, *test = digits()
        super().__init__(
            plan_of(assignment, **given),  # type: ignore[arg-type]
            residual(),
            data=(x[:samples], y[:samples], *test),
            classes={"Residual": Residual},
        )

    def buffers(self) -> list[bytes]:
        return [model.store.buffer_values.tobytes() for model in self.models.values()]


def one_loop(samples: int = 1500) -> Model:
    """The four blocks of every batch one after the other, merged by hand, without any part of the engine."""
    x, y, _, _ = digits()
    model, rule = residual(), MomentumOptimizer(0.02)
    store = model.store
    for epoch in range(EPOCHS):
        for batch, blocks in enumerate(dealt(samples, BLOCK, BLOCKS, epoch, SEED)):
            gradients, changes = [], []
            for block, (places, factor) in enumerate(zip(blocks, factors(blocks), strict=True)):
                store.gradients[:], store.buffer_changes[:] = 0, 0
                if len(places):
                    model.compute_gradients(x[places], y[places], key=(SEED, epoch, batch, block))
                gradients.append(store.gradients * factor)
                changes.append(store.buffer_changes.copy())
            mean = ((gradients[0] + gradients[1]) + (gradients[2] + gradients[3])) / np.float32(4)
            rule.update(store.values, mean)
            store.buffer_values += ((changes[0] + changes[1]) + (changes[2] + changes[3])) / np.float32(4)
    return model


def test_any_number_of_workers_gives_the_bits_of_one_loop() -> None:
    reference = one_loop()
    start = residual().store.buffer_values
    assert not np.allclose(reference.store.buffer_values, start, atol=0.01)
    for nodes, copies in [(1, 1), (2, 1), (3, 1), (4, 1), (4, 2)]:
        job = Job(FixedBlockAssignment(nodes, copies, BLOCKS)).run()
        assert job.weights() == [reference.store.values.tobytes()] * nodes
        assert job.buffers() == [reference.store.buffer_values.tobytes()] * nodes
        assert len({tuple(result.items()) for result in job.results.values()}) == 1


@pytest.mark.parametrize("tail", [29, 3])
def test_statistics_pass_over_empty_blocks(tail: int) -> None:
    """The tail is 7, 7, 7 and 8 samples, or one, one, one and none, which changes no statistic."""
    samples = 5 * BLOCK * BLOCKS + tail
    reference = one_loop(samples)
    for nodes in (1, 2, 4):
        job = Job(FixedBlockAssignment(nodes, 1, BLOCKS), samples=samples).run()
        assert job.weights() == [reference.store.values.tobytes()] * nodes
        assert job.buffers() == [reference.store.buffer_values.tobytes()] * nodes
        assert np.isfinite(job.models[0].store.buffer_values).all()


@pytest.mark.parametrize("nodes", [2, pytest.param(1, marks=pytest.mark.long), pytest.param(4, marks=pytest.mark.long)])
def test_a_sharded_rule_gives_the_same_bits(nodes: int) -> None:
    reference = one_loop()
    job = Job(FixedBlockAssignment(nodes, 1, BLOCKS), ShardedPSGDOptimizer).run()
    assert job.weights() == [reference.store.values.tobytes()] * nodes
    assert job.buffers() == [reference.store.buffer_values.tobytes()] * nodes


@pytest.mark.long
def test_duplicate_blocks_count_once() -> None:
    job = Job(DuplicateAssignment(8, 2)).run()
    assert job.buffers() == [one_loop().store.buffer_values.tobytes()] * 8


class Once(FederatedOptimizer):
    """In the last batch."""

    local_batches = BATCHES


class EveryFifth(FederatedOptimizer):
    local_batches = 5


@pytest.mark.parametrize("kind", [LocalUpdateOptimizer, ParameterAveragingOptimizer, DoubleBufferingOptimizer])
def test_every_optimizer_leaves_equal_replicas(kind: type[IOptimizer]) -> None:
    job = Job(FixedBlockAssignment(3, 1, BLOCKS), kind).run()
    assert len(set(job.buffers())) == len(set(job.weights())) == 1
    np.testing.assert_allclose(job.models[0].store.buffer_values, one_loop().store.buffer_values, atol=0.2)


@pytest.mark.long
def test_double_buffering_has_the_bits_of_one_worker() -> None:
    jobs = [Job(FixedBlockAssignment(nodes, 1, BLOCKS), DoubleBufferingOptimizer).run() for nodes in (1, 2, 4)]
    assert len({content for job in jobs for content in job.buffers()}) == 1


def test_federated_workers_meet_with_their_buffers_too() -> None:
    assert BATCHES % EveryFifth.local_batches
    assert len(set(Job(FixedBlockAssignment(2, 1, BLOCKS), EveryFifth).run().buffers())) == 2
    assert len(set(Job(FixedBlockAssignment(2, 1, BLOCKS), Once).run().buffers())) == 1


@pytest.mark.share(3)
@pytest.mark.parametrize(("codec", "ps"), [(LocalSGD, False), (FedAvg, True), (DiLoCo, False)])
def test_codecs_that_exchange_now_and_then_take_the_buffers_with_them(codec: type[Codec], ps: bool, tmp_path: Path) -> None:
    found = []
    for every in (BATCHES, BATCHES - 1):
        with in_process(2, ps=ps) as nodes:
            result = ParallelSGD(residual(), nn.dataset.Digits(), nn.dataset.transforms.ImageCls()).parallel(
                nodes,
                block_size=BLOCK,
                epoch=1,
                op_type=ParameterAveragingOptimizer,
                codec=codec,
                codec_extra_parameters={"local_batches": every},
                assignment_type=FixedBlockAssignment.of(BLOCKS),
                directory=tmp_path,
            )
        stores = [model.store for model in result.models.values()]
        found.append([len({store.values.tobytes() for store in stores}), len({s.buffer_values.tobytes() for s in stores})])
        packets = {entry.packets for entry in result.accounts[0] if entry.variable == VARIABLES}
        assert packets == {1}, "in one batch"
    assert found == [[1, 1], [2, 2]]


class Halves(Codec):
    """Loses half of the bits of every gradient."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.parts: dict[int, np.ndarray] = {}

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation:
        content, block = block_weight
        self._add(block, content.astype(np.float16))
        return netEncapsulation(GlobalSettings.get_default().get_adversary(block), (block, self.parts[block]))

    def receive_blocks(self, content: tuple[int, np.ndarray]) -> None:
        self._add(*content)

    def _add(self, block: int, part: np.ndarray) -> None:
        self.parts[block] = part
        if len(self.parts) == BLOCKS:
            self.set_result(sum(self.parts[block].astype(np.float32) for block in range(BLOCKS)) / BLOCKS)

    def get_result(self) -> np.ndarray | None:
        self.parts = {}
        return super().get_result()


def test_buffers_are_exchanged_losslessly_beside_any_codec() -> None:
    jobs = [Job(FixedBlockAssignment(nodes, 1, BLOCKS), codec=Halves).run() for nodes in (1, 4)]
    assert jobs[0].weights()[0] != one_loop().store.values.tobytes()
    assert len({content for job in jobs for content in job.buffers()}) == 1
    entries = jobs[1].workers[0].exchange.accounts.entries()
    assert {(entry.codec, entry.variable == VARIABLES) for entry in entries} == {("Halves", False), ("Plain", True)}
    sent = [entry for entry in entries if entry.codec == "Plain" and entry.direction == "sent"]
    size = jobs[1].models[0].store.buffer_values.nbytes
    assert [(entry.packets, entry.raw) for entry in sent] == [(BATCHES, BATCHES * size)] * 3


@pytest.mark.parametrize("changes", [{"codec": DummyCodec}, {"codec": DummyCodec, "sync_type": AsynchronizedSGD}])
def test_workers_that_train_different_models_keep_their_own_buffers(changes: dict[str, object]) -> None:
    job = Job(FixedBlockAssignment(2, 1, BLOCKS), **changes).run()
    assert len(set(job.buffers())) == 2
    assert job.workers[0].exchange.accounts.entries() == []


@pytest.mark.parametrize("codec", [None, Plain])
def test_a_parameter_server_merges_them_too(codec: type[Codec] | None, tmp_path: Path) -> None:
    model = residual()
    with in_process(2, ps=True) as nodes:
        result = ParallelSGD(model, nn.dataset.Digits(), nn.dataset.transforms.ImageCls()).parallel(
            nodes,
            block_size=32,
            epoch=1,
            codec=codec,
            assignment_type=FixedBlockAssignment.of(2),
            directory=tmp_path,
        )
    one, two = (trained.store.buffer_values for trained in result.models.values())
    assert one.tobytes() == two.tobytes() != model.store.buffer_values.tobytes()
    assert {entry.codec for entry in result.accounts[Parameter_Server] if entry.variable == VARIABLES} == {"SyncPS"}


def test_one_block_is_what_fit_does() -> None:
    """One worker with one block per batch, in the order of the epoch."""
    x, y, _, _ = digits()
    alone = residual()
    rule = MomentumOptimizer(0.02)
    for batch, (places,) in enumerate(dealt(len(x), BLOCK, 1, 0, SEED)):
        alone.compute_gradients(x[places], y[places], key=(SEED, 0, batch, 0))
        rule.update(alone.store.values, alone.store.gradients)
        alone.store.apply_changes()
    job = Job(FixedBlockAssignment(1, 1, 1)).run()
    assert job.buffers() == [alone.store.buffer_values.tobytes()]
    assert job.weights() == [alone.store.values.tobytes()]


@pytest.mark.parametrize(("workers", "late"), [(1, False), (2, True), (3, False)])
def test_statistics_of_a_frozen_layer_stay(workers: int, late: bool, tmp_path: Path) -> None:
    """So do its gamma and beta, frozen before `setup` or after it; the rest has the bits of one worker."""
    results = []
    for count in {1, workers}:
        norm = nn.layer.BatchNorm(momentum=0.5)
        norm.trainable = late
        model = nn.model.SequentialModel([-1, 64], [nn.layer.Dense(16), norm, nn.layer.Dense(10, nn.activation.Softmax())])
        model.setup(nn.loss.Cross_Entropy_With_Softmax())
        if late:
            norm.trainable = False
            with in_process(1) as nodes, pytest.raises(ValueError, match=r"parallel\(\) of SequentialModel needs another"):
                ParallelSGD(model, nn.dataset.Digits(), nn.dataset.transforms.ImageCls()).parallel(nodes)
            model.setup(nn.loss.Cross_Entropy_With_Softmax())
        norm.moving_mean.set_value(np.linspace(-1, 1, 16))
        with in_process(count) as nodes:
            result = ParallelSGD(model, nn.dataset.Digits(), nn.dataset.transforms.ImageCls()).parallel(
                nodes, block_size=BLOCK, epoch=1, assignment_type=FixedBlockAssignment.of(BLOCKS), directory=tmp_path
            )
        for trained in result.models.values():
            assert trained.store.buffer_values.tobytes() == model.store.buffer_values.tobytes()
            assert trained.get_weights()[2].tobytes() == model.get_weights()[2].tobytes()
            results.append(trained.store.values.tobytes())
    assert len(set(results)) == 1
    assert results[0] != model.store.values.tobytes()


@pytest.mark.long
def test_a_layer_that_is_used_several_times_has_the_bits_of_one_worker(tmp_path: Path) -> None:
    """With this momentum the sum of the changes of three uses would leave what was seen, and then all bounds."""
    found = set()
    for count in (1, 2, 3):
        model = Repeated([-1, 64])
        model.setup(nn.loss.Cross_Entropy_With_Softmax())
        with in_process(count) as nodes:
            result = ParallelSGD(model, nn.dataset.Digits(), nn.dataset.transforms.ImageCls()).parallel(
                nodes, block_size=BLOCK, epoch=2, assignment_type=FixedBlockAssignment.of(BLOCKS), directory=tmp_path
            )
        for trained in result.models.values():
            mean, variance = trained.store.buffer_values.reshape(2, 16)
            assert (variance > 0).all()
            assert (np.abs(mean) < 10).all()
            found.add(trained.store.buffer_values.tobytes() + trained.store.values.tobytes())
    assert len(found) == 1

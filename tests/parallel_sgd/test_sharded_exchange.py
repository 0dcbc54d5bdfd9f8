"""The exchange of shards: what travels, what happens to lost, late and repeated packets, and which jobs are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from nn.gradient_descent import ADAMOptimizer, LAMBOptimizer
from nn.optimizer import OpContainer, PSGDOptimizer, ShardedPSGDOptimizer
from nn.optimizer.sharded import shard_bounds
from parallel_sgd import in_process
from parallel_sgd.batch_sync import AsynchronizedSGD
from parallel_sgd.codec import BlockWeight, DummyCodec, GlobalSettings
from parallel_sgd.engine.accounts import SENT
from parallel_sgd.engine.channel import Key
from parallel_sgd.engine.sharded_exchange import GradientShard, ParameterShard
from parallel_sgd.engine.unusable import Unusable
from parallel_sgd.profiles import FixedBlockAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.simulation.immediate import Link, reliable
from tests.parallel_sgd.digits_job import DigitsJob, plan_of
from tests.parallel_sgd.networks import mlp
from tests.processes.training.jobs import digits_job

from ..statements import covers

TIMEOUT_MS = 500.0


def job_of(assignment: ISetting, link: Link = reliable, kind: type[Any] = ShardedPSGDOptimizer) -> DigitsJob:
    plan = plan_of(
        assignment, block_size=32, epoch=1, seed=7, optimizer=OpContainer(kind, ADAMOptimizer), ssgd_timeout_limit=TIMEOUT_MS
    )
    return DigitsJob(plan, mlp(), link=link).run()


@pytest.mark.parametrize("workers", [2, 3])
def test_every_worker_sends_the_bytes_of_a_ring(workers: int) -> None:
    """2 (W - 1) / W times the vector per step, two packets for each other worker, each with its accounts."""
    job = job_of(IIDBlockAssignment(workers))
    size = job.models[0].store.values.nbytes
    steps = -(-1500 // (32 * workers))
    raw = [worker.exchange.accounts.total(SENT).raw for worker in job.workers.values()]
    assert sum(raw) == 2 * (workers - 1) * size * steps
    assert max(raw) - min(raw) < 0.03 * max(raw), "shards begin at cache lines"
    for node, worker in job.workers.items():
        sent = [entry for entry in worker.exchange.accounts.entries() if entry.direction == SENT]
        packets = {(entry.codec, entry.variable, entry.peer): entry.packets for entry in sent}
        expected = {("GradientShard", other, other): steps for other in range(workers) if other != node}
        expected |= {("ParameterShard", workers + node, other): steps for other in range(workers) if other != node}
        assert packets == expected


def repeated() -> Link:
    return lambda *_: (0.0, 0.0)


def delayed() -> Link:
    rng = np.random.default_rng(1)
    return lambda *_: (float(rng.random()) * 0.1,)


def losing(which: str) -> Callable[[], Link]:
    """Every third packet of these shards goes astray the first time; questions get through, and so do the last batches."""

    def make() -> Link:
        seen: set[tuple[int, int, Key]] = set()
        count = 0

        def link(sender: int, receiver: int, key: Key) -> Sequence[float]:
            nonlocal count
            owner = key[3] % 3
            kind = "gradients" if key[3] < 3 and sender != owner else "parameters" if key[3] >= 3 and sender == owner else ""
            if (sender, receiver, key) in seen or kind != which or key[2] > 8:
                return (0.0,)
            seen.add((sender, receiver, key))
            count += 1
            return () if count % 3 == 0 else (0.0,)

        return link

    return make


@pytest.mark.share(4)
@covers("SUB-22", "SUB-23")
@pytest.mark.parametrize(
    "link",
    [repeated, delayed, losing("gradients"), losing("parameters")],
    ids=["repeated", "delayed", "gradients lost", "parameters lost"],
)
@pytest.mark.parametrize("assignment", [IIDBlockAssignment(3), FixedBlockAssignment(3, 1, 4)], ids=["3 blocks", "4 blocks"])
def test_the_way_of_packets_changes_nothing(assignment: ISetting, link: Callable[[], Link]) -> None:
    """Order, duplicates, and lost packets that a rescue replaces."""
    expected = job_of(assignment, kind=PSGDOptimizer).weights()
    assert job_of(assignment, link()).weights() == expected


@covers("SEC-24")
def test_a_sum_that_is_not_finite_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two gradients is; the rule reads their mean in stretches, and no state with half of a step is left."""
    update = GradientShard.update_blocks

    def enlarged(self: GradientShard, block_weight: BlockWeight) -> Any:
        return update(self, block_weight._replace(content=np.full_like(block_weight.content, 3e38)))

    monkeypatch.setattr(GradientShard, "update_blocks", enlarged)
    said = r"somebody's are too large. It is for GradientShard, variable \d \(gradient of the shard of node"
    with np.errstate(over="ignore"), pytest.raises(FloatingPointError, match=said):
        job_of(IIDBlockAssignment(2))


def test_a_rule_of_the_users_gets_an_array() -> None:
    """One that defines `update` anew may do with its gradients whatever one does with arrays."""

    class Own(ADAMOptimizer):
        def update(self, parameters: np.ndarray, gradients: np.ndarray) -> None:
            super().update(parameters, gradients.clip(-1e9, 1e9))

    def weights(rule: type[ADAMOptimizer], kind: type[Any]) -> list[bytes]:
        plan = plan_of(IIDBlockAssignment(2), block_size=32, epoch=1, seed=7, optimizer=OpContainer(kind, rule))
        return DigitsJob(plan, mlp()).run().weights()

    assert weights(Own, ShardedPSGDOptimizer) == weights(ADAMOptimizer, PSGDOptimizer)


def test_a_silent_worker_is_named() -> None:
    def mute(sender: int, receiver: int, key: Key) -> Sequence[float]:
        return () if sender == 1 else (0.0,)

    with pytest.raises(
        TimeoutError, match=r"gradient of the shard of node 0\) of epoch 1, batch 1: missing block\(s\) 1 of node"
    ):
        job_of(IIDBlockAssignment(2), mute)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"codec": DummyCodec}, "'op_type' ShardedPSGDOptimizer .* takes no other 'codec' than Plain, got DummyCodec"),
    ({"codec": {0: DummyCodec}}, "'op_type' ShardedPSGDOptimizer .* takes no other 'codec' than Plain, got {0: <class"),
    ({"sync_type": AsynchronizedSGD}, "ShardedPSGDOptimizer.*AsynchronizedSGD|AsynchronizedSGD.*ShardedPSGDOptimizer"),
    ({"gd_type": LAMBOptimizer}, "ShardedPSGDOptimizer needs a rule that .* got LAMBOptimizer"),
    ({"gd_params": {"clip_norm": 1.0}}, "ShardedPSGDOptimizer needs a rule that .* got ADAMOptimizer with 'clip_norm'"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED, ids=[str(next(iter(settings))) for settings, _ in REFUSED])
def test_what_does_not_suit_is_refused_before_anything_is_sent(settings: dict[str, Any], message: str) -> None:
    with in_process(2) as nodes, pytest.raises(ValueError, match=message):
        digits_job().parallel(nodes, op_type=ShardedPSGDOptimizer, **settings)


def test_a_parameter_server_is_refused() -> None:
    with (
        in_process(2, ps=True) as nodes,
        pytest.raises(ValueError, match="ShardedPSGDOptimizer exchanges among the workers alone"),
    ):
        digits_job().parallel(nodes, op_type=ShardedPSGDOptimizer)


@covers("SEC-24")
def test_what_is_no_shard_is_refused() -> None:
    """Of 70 parameters on two workers, for the merge of gradients and for the parameters that come back."""
    with GlobalSettings.use(IIDBlockAssignment(2), values=[np.zeros((10, 7), np.float32)]) as job:
        first, *_ = shard_bounds(70, 2)[1:]
        gradients = GradientShard(0)
        job.variable = 2
        parameters = ParameterShard(1)
        good = np.ones(first, np.float32)
        gradients.check((0, 1, good), None)
        parameters.check(good, None)
        parameters.check(np.ones(2 * first, np.float32), None)  # two slots, when states are gathered
        for bad in (good[:0], good[:1], good[0], np.ones(()), good.astype(np.float64), good[None], good * np.nan, 1.0, None):
            with pytest.raises(Unusable):
                gradients.check((0, 1, bad), None)
            with pytest.raises(Unusable):
                parameters.check(bad, None)

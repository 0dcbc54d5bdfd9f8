"""AsynchronizedSGD (SUB-32): nobody waits for another worker's batch. Time is virtual."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from network.frames import Message
from nn.dataset.transforms import ImageCls, Shuffle
from nn.gradient_descent import SGDOptimizer
from nn.optimizer import GradientAveragingOptimizer, IOptimizer, ParameterAveragingOptimizer, PSGDOptimizer
from parallel_sgd import JobResult, ParallelSGD, Parameter_Server, in_process
from parallel_sgd.batch_sync import AsynchronizedSGD, ISyncType, StaleSynchronous, SynchronizedSGD
from parallel_sgd.codec import AsyncPS, BlockWeight, Codec, DummyCodec, GlobalSettings, Plain, SyncPS, netEncapsulation
from parallel_sgd.profiles import FixedBlockAssignment, IIDBlockAssignment
from parallel_sgd.testing.array_job import ArrayJob, gradient, tree_mean
from tests.parallel_sgd.networks import mlp
from tests.parallel_sgd.paced_job import PacedJob, given

from ..statements import covers


class Gossip(Codec):
    """Sends to the next worker, and takes what the one before has sent until now, if anything: never waits."""

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation:
        return netEncapsulation((self.node_id + 1) % GlobalSettings.get_default().node_count, block_weight.content)

    def receive_blocks(self, content: Any) -> None:
        self.set_result(content)


def asynchronous(**settings: Any) -> PacedJob:
    settings = {"codec": AsyncPS, "server": AsyncPS, "sync_type": AsynchronizedSGD, **settings}
    return PacedJob(settings.pop("assignment", IIDBlockAssignment(4)), **settings)


@covers("SUB-32")
@pytest.mark.parametrize(("codec", "server"), [(AsyncPS, AsyncPS), (Gossip, None), (DummyCodec, None)])
def test_a_slow_worker_slows_nobody(codec: type[Codec], server: type[Codec] | None) -> None:
    """With one worker slowed 10 x the others' steps per second drop by less than 5 %."""
    settings: dict[str, Any] = {"batches": 20, "codec": codec, "server": server, "link": lambda *_: (0.01,)}
    even = asynchronous(**settings).run()
    uneven = asynchronous(**settings, seconds=lambda node, batch: 10.0 if node == 1 else 1.0).run()
    for node in (0, 2, 3):
        assert uneven.ended[node][-1] < 1.05 * even.ended[node][-1]
    assert uneven.ended[1][-1] > 190


@covers("SUB-32")
def test_without_a_result_a_worker_goes_on_with_its_own_value() -> None:
    """The mean over its blocks, no assertion; what has come is taken at the next batch."""
    slow = lambda *_: (1.5,)  # noqa: E731
    job = asynchronous(assignment=IIDBlockAssignment(2), codec=Gossip, server=None, link=slow, gradient_of=given).run()
    for variable in (0, 1):
        results = [batch[variable] for batch in job.results[0]]
        assert results[0].tobytes() == gradient(0, 0, variable).tobytes()
        assert results[1].tobytes() == gradient(1, 0, variable).tobytes()
        assert results[2].tobytes() == gradient(0, 1, variable).tobytes()


def test_the_own_value_is_the_mean_over_all_own_blocks() -> None:
    silent = lambda *_: ()  # noqa: E731
    job = ArrayJob(FixedBlockAssignment(2, 1, 6), codec=Gossip, sync_type=AsynchronizedSGD, link=silent).run()
    for batch in range(job.batches):
        for variable in (0, 1):
            wanted = tree_mean([gradient(batch, block, variable) for block in (3, 4, 5)])
            assert job.results[1][batch][variable].tobytes() == wanted.tobytes()


def test_messages_reach_codecs_on_arrival() -> None:
    """conventions.md, Codec: whatever batch they are of, but not before the first one has begun or after the last."""
    received: list[Any] = []

    class Noting(Gossip):
        def receive_blocks(self, content: Any) -> None:
            received.append(content)

    job = ArrayJob(IIDBlockAssignment(2), batches=0, codec=Noting, sync_type=AsynchronizedSGD).run()
    exchange = job.exchanges[0]
    exchange.deliver(1, Message((0, 0, 0, 0), "early", 0, 0))
    assert received == []
    exchange.begin(0, 0)
    assert received == ["early"]
    exchange.deliver(1, Message((0, 7, 3, 1), "of a later batch", 0, 0))
    assert received == ["early", "of a later batch"]
    exchange.close()
    exchange.deliver(1, Message((0, 7, 4, 1), "too late", 0, 0))
    assert len(received) == 2
    assert exchange.sync.late == 1


@covers("SUB-24")
@pytest.mark.parametrize("sender", [0, Parameter_Server])
@pytest.mark.parametrize("copies", [0, 2])
def test_a_packet_that_is_lost_or_doubled_changes_nothing(sender: int, copies: int) -> None:
    """Law 7 of codecs.md holds here too: each gradient is applied once, and each answer taken once."""
    seen: set[tuple[int, ...]] = set()

    def link(source: int, _receiver: int, key: tuple[int, ...]) -> tuple[float, ...]:
        again = key in seen
        if source == sender:
            seen.add(key)
        return (0.0,) * copies if source == sender and not again and key[2] == 1 else (0.0,)

    clean = asynchronous(assignment=IIDBlockAssignment(1), batches=4).run()
    disturbed = asynchronous(assignment=IIDBlockAssignment(1), batches=4, link=link).run()
    assert disturbed.clock.monotonic() - clean.clock.monotonic() == (0.0 if copies else 10.0)
    for variable in (0, 1):
        assert disturbed.results[0][-1][variable].tobytes() == clean.results[0][-1][variable].tobytes()


@covers("SUB-25", "SUB-26")
def test_a_silent_server_is_named() -> None:
    """No wait without a limit."""
    silent = lambda sender, *_: () if sender == Parameter_Server else (0.0,)  # noqa: E731
    with pytest.raises(TimeoutError, match=r"variable 1 \(dense/bias\) of epoch 1, batch 1: nothing came from node\(s\) -2"):
        asynchronous(link=silent).run()


REFUSED: list[tuple[type[Codec], type[IOptimizer], str]] = [
    (Plain, PSGDOptimizer, "'sync_type' AsynchronizedSGD cannot run 'codec' Plain, whose results"),
    (SyncPS, PSGDOptimizer, "'sync_type' AsynchronizedSGD cannot run 'codec' SyncPS, whose results"),
    (DummyCodec, GradientAveragingOptimizer, "'codec' DummyCodec has no result yet, but 'op_type' GradientAveragingOptimizer"),
]


@pytest.mark.parametrize(("codec", "op_type", "words"), REFUSED)
def test_refusals_name_both(codec: type[Codec], op_type: type[IOptimizer], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        AsynchronizedSGD.admit(codec, op_type)


def test_what_is_admitted() -> None:
    AsynchronizedSGD.admit(AsyncPS, GradientAveragingOptimizer)
    AsynchronizedSGD.admit(DummyCodec, PSGDOptimizer)
    AsynchronizedSGD.admit(Gossip, ParameterAveragingOptimizer)


def train(directory: Path, workers: int, *, ps: bool, **settings: Any) -> JobResult:
    job = ParallelSGD(mlp(), nn.dataset.Digits(), Shuffle().add(ImageCls()))
    with in_process(workers, ps=ps) as nodes:
        return job.parallel(
            nodes,
            **{"block_size": 16, "epoch": 3, "gd_type": SGDOptimizer, "gd_params": (0.1,), "directory": directory, **settings},
        )


SERVED: dict[str, Any] = {"codec": AsyncPS, "ps": True, "op_type": GradientAveragingOptimizer}


def test_one_worker_trains_as_without_a_server(tmp_path: Path) -> None:
    """codecs.md, AsyncPS: W=1 bit-exact to SGD, also with a rule that remembers."""
    for rule in (SGDOptimizer, nn.gradient_descent.ADAMOptimizer):
        settings = {"gd_type": rule, "gd_params": (0.01,), "epoch": 1}
        alone = train(tmp_path, 1, ps=False, **settings)
        served = train(tmp_path, 1, sync_type=AsynchronizedSGD, **SERVED, **settings)
        assert served.models[0].store.values.tobytes() == alone.models[0].store.values.tobytes()


@pytest.mark.parametrize("sync_type", [AsynchronizedSGD, StaleSynchronous(2)])
def test_a_model_learns(tmp_path: Path, sync_type: type[ISyncType] | StaleSynchronous) -> None:
    result = train(tmp_path, 4, sync_type=sync_type, **SERVED)
    assert result["accuracy"] > 0.8
    with pytest.raises(ValueError, match=r"cannot run 'codec' Plain"):
        train(tmp_path, 2, ps=False, sync_type=sync_type)


def test_own_values_train_models_of_their_own(tmp_path: Path) -> None:
    result = train(tmp_path, 2, ps=False, sync_type=AsynchronizedSGD, codec=DummyCodec)
    assert len({model.store.values.tobytes() for model in result.models.values()}) == 2
    assert np.isfinite(result["Loss"])


@covers("SUB-32")
def test_each_worker_reports_its_best_evaluation(tmp_path: Path) -> None:
    """With a rate at which the loss goes up and down; synchronous workers report the last one."""
    settings: dict[str, Any] = {"ps": False, "codec": DummyCodec, "gd_params": (3.0,), "epoch": 4}
    results = [train(tmp_path, 1, sync_type=sync, **settings) for sync in (AsynchronizedSGD, SynchronizedSGD)]
    lines = (tmp_path / "Node-0-Retrieve" / "EV-P-SGD-N(0).csv").read_text().splitlines()[1:]
    losses = [float(line.split(",")[0]) for line in lines]
    assert [result["Loss"] for result in results] == [min(losses), losses[-1]]
    assert min(losses) < losses[-1]

"""Codecs, sync types and sharded rules on real agents: the bits are those of one worker, and of the same job inside this
process; parameters of codecs may have any hashable key."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nn.gradient_descent import SGDOptimizer
from nn.optimizer import GradientAveragingOptimizer, LocalUpdateOptimizer, ShardedPSGDOptimizer
from parallel_sgd import Parameter_Server
from parallel_sgd.batch_sync import AsynchronizedSGD, StaleSynchronous, SyncChoice
from parallel_sgd.codec import (
    REQUIRED,
    AsyncPS,
    BlockWeight,
    Codec,
    GlobalSettings,
    GradCode,
    Plain,
    Ring,
    SyncPS,
    TopKInt8,
    netEncapsulation,
)
from parallel_sgd.engine.accounts import SENT
from parallel_sgd.nodes import LocalNodes
from parallel_sgd.profiles import CyclicAssignment
from tests.parallel_sgd.networks import mlp
from tests.processes.harness import wait_for
from tests.processes.training.jobs import (
    FOUR_BLOCKS,
    digits_job,
    here,
    line_job,
    log_of,
    only_weights,
    some,
    weights,
    with_server,
)

from ...statements import covers

SETTINGS: dict[str, Any] = {"gd_type": SGDOptimizer, "gd_params": (0.1,), "epoch": 3, "block_size": 16}


@covers("SUB-20")
@pytest.mark.parametrize(("codec", "workers"), [(Ring, 3), (SyncPS, 3)])
@pytest.mark.share(2)
def test_workers_have_the_bits_of_one(agents: LocalNodes, tmp_path: Path, codec: type[Codec], workers: int) -> None:
    """Ring and SyncPS: n workers with fixed blocks equal one worker."""
    settings: dict[str, Any] = {"epoch": 1, "block_size": 32, "assignment_type": FOUR_BLOCKS, "seed": 5}
    nodes = (with_server if codec.traits.needs_server else some)(agents, workers)
    result = digits_job(mlp(dropout=0.25)).parallel(nodes, codec=codec, directory=tmp_path, **settings)
    one = here(digits_job(mlp(dropout=0.25)), 1, tmp_path / "one", codec=Plain, **settings)
    assert sorted(result.models) == list(range(workers))
    assert only_weights(result) == only_weights(one)
    used = {(entry.codec, entry.peer) for entry in result.accounts[0] if entry.direction == SENT}
    assert used == {(codec.__name__, peer) for peer in ([Parameter_Server] if codec.traits.needs_server else range(1, workers))}


@covers("SUB-33")
def test_two_codecs_share_one_job(agents: LocalNodes, tmp_path: Path) -> None:
    """a lossy codec on one layer, a dense one on the other, in the same steps; the rest takes the default."""
    settings: dict[str, Any] = {"codec": {"dense_1/kernel": TopKInt8, "dense_2": Ring}, "op_type": LocalUpdateOptimizer}
    settings |= {"codec_extra_parameters": {"rho": 0.05}, "gd_type": SGDOptimizer, "gd_params": (0.3,)}
    settings |= {"epoch": 2, "block_size": 32}
    result = digits_job().parallel(some(agents, 2), directory=tmp_path, **settings)
    inside = here(digits_job(), 2, tmp_path / "here", **settings)
    assert weights(result) == weights(inside)
    dense = {**settings, "codec": Plain, "codec_extra_parameters": {}}
    assert only_weights(result) != only_weights(here(digits_job(), 2, tmp_path / "dense", **dense))
    sent = {entry.variable: (entry.codec, entry.raw) for entry in result.accounts[0] if entry.direction == SENT}
    codecs = ["TopKInt8", "Plain", "Ring", "Ring", "Plain", "Plain"]
    assert {variable: codec for variable, (codec, _) in sent.items()} == dict(enumerate(codecs))
    batches = 2 * -(-1500 // 64)
    k = 103  # of 64 x 32
    assert sent[0][1] == batches * (5 + k + 4 + min(4 * k, 2 * k + 4, 64 * 32 // 8))
    assert sent[4][1] == batches * 4 * 32 * 10


@covers("SUB-32")
@pytest.mark.parametrize("sync_type", [AsynchronizedSGD, StaleSynchronous(1)])
@pytest.mark.share(4)
def test_workers_and_server_train_one_model(agents: LocalNodes, tmp_path: Path, sync_type: SyncChoice) -> None:
    """Every gradient is in the staleness histogram."""
    settings = {"codec": AsyncPS, "sync_type": sync_type, "op_type": GradientAveragingOptimizer, **SETTINGS}
    result = digits_job().parallel(with_server(agents, 3), directory=tmp_path, **settings)
    assert result["accuracy"] > 0.8
    batches = 3 * -(-1500 // (3 * 16))
    assert sum(result.accounts[Parameter_Server].staleness.values()) == 6 * 3 * batches  # variables, workers
    assert "Staleness of gradients in steps" in log_of(result.files, Parameter_Server)


LAST = (1, 19)  # epoch and batch from 0: 240 samples for three workers with blocks of 4


class Latest(Codec):
    """Takes what the next worker has sent last, if anything. Worker 1 is so slow that the others are at their last batch before
    it has ended its second one."""

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation:
        settings, folder = GlobalSettings.current(), Path(GlobalSettings.get_params("folder"))
        if self.node_id != 1 and settings.step == LAST:
            (folder / f"last-{self.node_id}").touch()
        elif self.node_id == 1 and settings.step == (0, 1):
            wait_for(lambda: len(list(folder.glob("last-*"))) == 2, "the others to be at their last batch")
        other = (self.node_id + 1) % GlobalSettings.get_default().node_count
        return netEncapsulation(other, (self.node_id, block_weight.content))

    def receive_blocks(self, content: Any) -> None:
        sender, array = content
        self.record(f"heard of {sender}")
        self.set_result(array, lambda _, new: new)


@covers("SUB-32")
def test_nobody_waits_for_a_slow_worker(agents: LocalNodes, tmp_path: Path) -> None:
    """And what comes is taken on arrival, also by workers that never wait."""
    settings: dict[str, Any] = {"codec": Latest, "codec_extra_parameters": {"folder": str(tmp_path)}, "epoch": 1 + LAST[0]}
    settings |= {"sync_type": AsynchronizedSGD, "block_size": 4, "stall_timeout": 60.0}
    result = line_job(240).parallel(some(agents, 3), directory=tmp_path, **settings)
    assert result.failures == {}
    assert "heard of 0" in log_of(result.files, 1)


@pytest.mark.long
def test_coded_gradients_have_the_mean(agents: LocalNodes, tmp_path: Path) -> None:
    """Cyclic: up to rounding the weights of SyncPS, the same on all workers."""
    settings = {"assignment_type": CyclicAssignment, "redundancy": 2, **SETTINGS}
    coded = digits_job().parallel(with_server(agents, 3), codec=GradCode, directory=tmp_path, **settings)
    exact = here(digits_job(), 3, tmp_path / "here", ps=True, codec=SyncPS, **settings)
    found, wanted = (np.frombuffer(only_weights(result), np.float32) for result in (coded, exact))
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_a_sharded_rule_has_the_bits_of_parallel_sgd(agents: LocalNodes, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epoch": 2, "block_size": 16, "assignment_type": FOUR_BLOCKS, "seed": 3}
    reference = here(digits_job(), 1, tmp_path / "here", **settings)
    sharded = digits_job().parallel(some(agents, 3), op_type=ShardedPSGDOptimizer, directory=tmp_path, **settings)
    assert set(weights(sharded).values()) == set(weights(reference).values())
    assert dict(sharded) == dict(reference)
    sent = [entry for entries in sharded.accounts.values() for entry in entries if entry.direction == SENT]
    assert {entry.codec for entry in sent if entry.packets} == {"GradientShard", "ParameterShard"}


class Side(enum.Enum):
    UP = 1
    DOWN = 2


@dataclass(frozen=True)
class Stage:
    number: int


TOKEN = object()
KEYS: list[Hashable] = [
    "text", 7, -1, 2.5, None, True, b"bytes", ("x", 1), ((), (2.5, None)), frozenset({1, 2}), 3j, Side.UP, Stage(3), Plain, len,
    np.float32(0.1), TOKEN,
]  # fmt: skip


class Keyed(Plain):
    """Its factor is made of all parameters, so that a wrong one changes every weight."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.factor = 0.0
        for place, key in enumerate(KEYS):
            self.factor += (place + 1) * GlobalSettings.get_params(key, REQUIRED)
        assert GlobalSettings.get_params(Side.DOWN) == GlobalSettings.get_params(Stage(4)) == 0

    def get_result(self) -> Any:
        result = super().get_result()
        return None if result is None else np.float32(self.factor) * result


@pytest.mark.long
def test_any_hashable_key(agents: LocalNodes, tmp_path: Path) -> None:
    """Numbers, texts, tuples, members and instances of the user's classes, classes, functions: as in process, so on agents."""
    settings: dict[str, Any] = {"codec": Keyed, "epoch": 1, "block_size": 6, "on_failure": "restart"}
    settings["codec_extra_parameters"] = {key: 1.0 / (place + 1) / len(KEYS) for place, key in enumerate(KEYS)}
    there = line_job().parallel(some(agents, 2), directory=tmp_path, **settings)
    assert weights(there) == weights(here(line_job(), 2, tmp_path, **settings))

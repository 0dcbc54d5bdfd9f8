"""Jobs without a common pace on real agents: asynchronous and stale synchronous types, and coded gradients."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nn.gradient_descent import SGDOptimizer
from nn.optimizer import GradientAveragingOptimizer
from parallel_sgd import Parameter_Server, in_process
from parallel_sgd.batch_sync import AsynchronizedSGD, StaleSynchronous, SyncChoice
from parallel_sgd.codec import AsyncPS, BlockWeight, Codec, GlobalSettings, GradCode, SyncPS, netEncapsulation
from parallel_sgd.nodes import LocalNodes
from parallel_sgd.profiles import CyclicAssignment
from tests.processes.training.jobs import digits_job, line_job, log_of, only_weights, some

from ...statements import covers

pytestmark = pytest.mark.processes
SETTINGS: dict[str, Any] = {"gd_type": SGDOptimizer, "gd_params": (0.1,), "epoch": 3, "block_size": 16}


def with_server(agents: LocalNodes, workers: int) -> LocalNodes:
    """The first agents as workers, the last one as parameter server."""
    return some(agents, workers).add(Parameter_Server, agents[3])  # type: ignore[return-value]


@covers("SUB-32")
@pytest.mark.parametrize("sync_type", [AsynchronizedSGD, StaleSynchronous(1)])
def test_workers_and_server_train_one_model(agents: LocalNodes, tmp_path: Path, sync_type: SyncChoice) -> None:
    """Every gradient is in the staleness histogram."""
    result = digits_job().parallel(
        with_server(agents, 3),
        codec=AsyncPS,
        sync_type=sync_type,
        op_type=GradientAveragingOptimizer,
        directory=tmp_path,
        **SETTINGS,
    )
    assert result["accuracy"] > 0.8
    batches = 3 * -(-1500 // (3 * 16))
    assert sum(result.accounts[Parameter_Server].staleness.values()) == 6 * 3 * batches  # variables, workers
    assert "Staleness of gradients in steps" in log_of(result.files, Parameter_Server)


class Latest(Codec):
    """Takes what the next worker has sent last, if anything. Worker 1 is slow; each one tells when it has ended a batch."""

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation:
        if self.node_id == 1:
            time.sleep(0.01)  # stands for the computing of a slow machine
        self.record(f"moment {time.monotonic()}")
        other = (self.node_id + 1) % GlobalSettings.get_default().node_count
        return netEncapsulation(other, (self.node_id, block_weight.content))

    def receive_blocks(self, content: Any) -> None:
        sender, array = content
        self.record(f"heard of {sender}")
        self.set_result(array, lambda _, new: new)


@covers("SUB-32")
def test_nobody_waits_for_a_slow_worker(agents: LocalNodes, tmp_path: Path) -> None:
    """And what comes is taken on arrival, also by workers that never wait."""
    result = line_job(240).parallel(
        some(agents, 3), codec=Latest, sync_type=AsynchronizedSGD, epoch=2, block_size=4, directory=tmp_path
    )
    ends = {}
    for node in range(3):
        ends[node] = float(log_of(result.files, node).rsplit("moment ", 1)[1].split()[0])
    assert max(ends[0], ends[2]) < ends[1]
    assert "heard of 0" in log_of(result.files, 1)


def test_coded_gradients_have_the_mean(agents: LocalNodes, tmp_path: Path) -> None:
    """codecs.md, Cyclic: up to rounding the weights of SyncPS, the same on all workers."""
    settings = {"assignment_type": CyclicAssignment, "redundancy": 2, **SETTINGS}
    coded = digits_job().parallel(with_server(agents, 3), codec=GradCode, directory=tmp_path, **settings)
    with in_process(3, ps=True) as nodes:
        exact = digits_job().parallel(nodes, codec=SyncPS, directory=tmp_path / "here", **settings)
    weights = np.frombuffer(only_weights(coded), np.float32)
    np.testing.assert_allclose(weights, np.frombuffer(only_weights(exact), np.float32), atol=1e-4)

"""Workers of a batch system whose time is up: they save their state and leave; the job goes on without them, or is resumed."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import parallel_sgd
from parallel_sgd.codec import GlobalSettings
from parallel_sgd.codec.plain import Plain
from rpc.launch import BatchLauncher
from tests.processes.harness import AgentProcess, Cluster, cluster, wait_for
from tests.processes.training.jobs import FOUR_BLOCKS, here, line_job, only_weights, said

STALE = {"system": "slurm", "run": "76.0", "size": 3, "slots": 1, "started": 1.0, "host": socket.gethostname()}


class Ending(Plain):
    """The worker's agent is told to go when its 10th block is computed, as Slurm does when the time is up: by SIGUSR1, or with
    `all` by SIGTERM to every process. From then on it takes its time, so that the order to stop comes within the epoch."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self._blocks, self._pause = 0, 0.005

    def update_blocks(self, block_weight: Any) -> Any:
        self._blocks += 1
        if self._blocks == 10 and self.node_id in GlobalSettings.get_params("ending"):
            marker = Path(GlobalSettings.get_params("markers")) / f"sent-{self.node_id}"
            if not marker.exists():
                marker.touch()
                if GlobalSettings.get_params("all"):
                    os.kill(os.getpid(), signal.SIGTERM)
                    os.kill(os.getppid(), signal.SIGTERM)
                else:
                    os.kill(os.getppid(), signal.SIGUSR1)
                self._pause = 0.2
        time.sleep(self._pause)
        return super().update_blocks(block_weight)


class Slurm:
    """What `srun` does: it starts agents with a rank in their environment."""

    def __init__(self, made: Cluster, folder: Path) -> None:
        self._cluster, self.folder = made, folder

    def start(self, rank: int) -> AgentProcess:
        variables = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_NTASKS": "3"}
        options = ["--from", "slurm", "--rendezvous", str(self.folder)]
        agent = AgentProcess(self._cluster.root / f"rank-{rank}", self._cluster.key_file, *options, **variables)
        self._cluster.agents.append(agent)
        return agent

    def registered(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("slurm-77*"))


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    """The folder holds what killed agents of an earlier job have left."""
    folder = tmp_path / "rendezvous"
    folder.mkdir()
    for rank in range(3):
        stale = json.dumps({**STALE, "rank": rank, "address": f"127.0.0.1:{rank + 1}"})
        (folder / f"slurm-76.0-{rank}.agent.json").write_text(stale)
    (folder / "slurm-76.0-9.agent.json").write_text('{"system": "sl')
    with cluster(tmp_path / "cluster") as made:
        yield Slurm(made, folder)


def run(slurm: Slurm, tmp_path: Path, count: int, ending: list[int], **further: Any) -> Any:
    settings: dict[str, Any] = {"assignment_type": FOUR_BLOCKS, "epoch": 3, "block_size": 2, "codec": Ending}
    settings["codec_extra_parameters"] = {"ending": ending, "markers": str(tmp_path), "all": "discovery" in further}
    launcher = BatchLauncher(slurm.folder, key_file=slurm.folder.parent / "cluster" / "key", limit=60.0)
    with parallel_sgd.nodes_from(launcher, count) as nodes:
        return line_job(96).parallel(nodes, directory=tmp_path, **settings | further)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    settings = {"assignment_type": FOUR_BLOCKS, "epoch": 3, "block_size": 2, "codec": Plain}
    return only_weights(here(line_job(96), 2, tmp_path_factory.mktemp("calm"), **settings))


@pytest.mark.long
def test_the_job_goes_on_without_a_worker_that_leaves(
    slurm: Slurm, tmp_path: Path, calm: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The submitter waits for workers that come later and leaves stale files out; whose time is up saves its state, leaves the
    folder, and the job shrinks: no batch is lost or computed twice."""
    caplog.set_level(logging.INFO)
    agents = [slurm.start(0)]
    threading.Timer(0.3, lambda: agents.append(slurm.start(1))).start()
    result = run(slurm, tmp_path, 2, [1], on_failure="shrink")
    assert only_weights(result) == calm
    assert (sorted(result.models), result.restarts) == ([0], 1)
    assert agents[1].process.wait(60) == 0
    assert slurm.registered() == ["slurm-77.0-0.agent.json"]
    assert "Worker leaves: told by SIGUSR1." in agents[1].console
    assert any(line.startswith("Node(1) left: ") and "SIGUSR1" in line for line in said(caplog.records))
    kept = {path.name for path in agents[1].work.rglob("checkpoint-*")}
    assert any(not name.endswith("-00000000.safetensors") for name in kept), f"the state within an epoch is not among {kept}"


@pytest.mark.long
def test_workers_in_the_folder_are_discovered(slurm: Slurm, tmp_path: Path, calm: bytes) -> None:
    """A folder as discovery: another worker that is registered takes the place of the one that leaves."""
    agents = [slurm.start(rank) for rank in range(3)]
    result = run(slurm, tmp_path, 2, [1], discovery=slurm.folder, min_workers=1, max_workers=2)
    assert only_weights(result) == calm
    assert sorted(result.models) == [0, 1]
    assert result.restarts <= 1  # none where the folder was looked at before the worker had ended
    wait_for(lambda: [agent.process.poll() is None for agent in agents].count(True) == 2, "the agent that leaves to have left")

"""Jobs on agents that go on from checkpoints: after a fault, after their end, on other nodes, from a file."""

from __future__ import annotations

import logging
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import parallel_sgd
from network import NodeAssignment
from network.transport import wait_sockets
from nn.gradient_descent import SGDOptimizer
from nn.optimizer import GradientAveragingOptimizer, ShardedPSGDOptimizer
from parallel_sgd import JobFailed, JobResult, Parameter_Server, codec
from parallel_sgd.checkpoint.store import file_name
from parallel_sgd.codec import GlobalSettings
from parallel_sgd.codec.plain import Plain
from parallel_sgd.engine.progress import Position
from parallel_sgd.nodes import LocalNodes
from rpc import SubmissionError
from rpc.launch.local import LocalAgents, local_agents
from tests.processes.training.jobs import digits_job, log_of, only_weights, rows, weights

from ..statements import covers

FATAL = (2, 3)  # epoch and batch, from 0, in which a node dies
BATCHES = 12  # of an epoch; the last has 92 samples
SETTINGS: dict[str, Any] = {"epoch": 4, "block_size": 64, "seed": 11}
SGD: dict[str, Any] = {"gd_type": SGDOptimizer, "gd_params": (0.05,)}
SERVED: dict[str, Any] = {"op_type": GradientAveragingOptimizer}


def await_saved(position: Position) -> None:
    """Wait until every node of this job has saved this position or a later one, if it saves any; the disk may be slow."""
    folder = Path.cwd()  # <agents>/agent-<n>/jobs/<job>.<node>
    nodes = list(folder.parents[2].glob(f"agent-*/jobs/{folder.stem}.*"))
    deadline = time.monotonic() + 60
    while not all(any(p.name >= file_name(position) for p in node.glob("checkpoints/*.safetensors")) for node in nodes):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no checkpoint after {position} in all of {nodes}")
        wait_sockets([], [], 0.005)


def die_once(step: tuple[int, int]) -> None:
    """SIGKILL to this process in the fatal batch; the note that it leaves saves the next attempt."""
    note = Path(GlobalSettings.get_params("note"))
    if step == FATAL and not note.exists():
        if GlobalSettings.get_params("saves", True):
            await_saved(Position(1, 8))
        note.touch()
        os.kill(os.getpid(), signal.SIGKILL)


class Mortal(Plain):
    """Worker 1 dies."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.job = GlobalSettings.current()

    def update_blocks(self, block_weight: Any) -> Any:
        if self.node_id == 1:
            die_once(self.job.step)
        return super().update_blocks(block_weight)


class MortalServer(codec.ServerAdam):
    """The parameter server dies."""

    def receive_blocks(self, content: Any) -> Any:
        if self.node_id == Parameter_Server and self.variable == 0:
            die_once(self.job.step)
        return super().receive_blocks(content)


class MortalShards(ShardedPSGDOptimizer):
    """Worker 1 dies; the place of its death is the 27th step of the rule."""

    def finish_batch(self) -> Any:
        if self.partners.shard == 1 and self.rule.step == FATAL[0] * BATCHES + FATAL[1]:  # type: ignore[attr-defined]
            die_once(FATAL)
        return super().finish_batch()


@pytest.fixture(scope="module")
def started() -> Iterator[LocalAgents]:
    with local_agents(3) as agents:
        yield agents


def nodes_on(started: LocalAgents, *agents: int, server: bool = False) -> LocalNodes:
    """Workers 0, 1, ... on these agents, the parameter server on the last one."""
    nodes = LocalNodes(key_file=started.key_file)
    if server:
        nodes.add(Parameter_Server, started.addresses[-1])
    for node, agent in enumerate(agents):
        nodes.add(node, started.addresses[agent])
    return nodes


def train(nodes: NodeAssignment, directory: Path, **settings: Any) -> JobResult:
    return digits_job().parallel(nodes, directory=directory, **{**SETTINGS, **settings})


CASES: dict[str, dict[str, Any]] = {
    "error feedback": {"codec": {0: Mortal, 2: codec.TopK}, **SGD},
    "shards": {"op_type": MortalShards},
    "server": {"codec": MortalServer, "ps_codec": MortalServer, **SERVED},
}


def undisturbed(directory: Path, *, server: bool = False, **settings: Any) -> JobResult:
    """The same job within this process, which has the same bits."""
    with parallel_sgd.in_process(2, ps=server) as nodes:
        return train(nodes, directory, **settings)


@covers("FD-8", "FD-9", "FD-11", "FLT-1", "FLT-15", "INV-2", "INV-3", "SUB-45")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.long
def test_a_killed_node_costs_a_few_batches(started: LocalAgents, tmp_path: Path, case: str) -> None:
    """With `on_failure="restart"` the second attempt goes on from a
    checkpoint in the middle of an epoch and gives the bits of an undisturbed run; the tables hold every block step and every
    epoch once, and the ledger every block."""
    server = case == "server"
    settings = {**CASES[case], "codec_extra_parameters": {"note": str(tmp_path / "died")}}
    nodes = nodes_on(started, 0, 1, server=server)
    result = train(nodes, tmp_path, on_failure="restart", checkpoint_every=5, **settings)
    assert result.restarts == 1 and (tmp_path / "died").exists()
    calm = undisturbed(tmp_path / "calm", server=server, **settings)
    assert only_weights(result) == only_weights(calm)
    assert result == calm
    assert result.ledger is not None and result.ledger.problems == ()
    for node in (0, 1):
        for kind in ("TR", "EV"):
            assert rows(tmp_path, kind, node) == rows(tmp_path / "calm", kind, node)
        log = log_of(result.files, node)
        found = re.search(r"Training goes on after (\d) epochs?(?: and (\d+) batch(?:es)?)?, with epoch (\d)", log)
        assert found, log
        done = int(found[1]) * BATCHES + int(found[2] or 0)
        assert done in (20, 25)  # the last one may not have been written yet


class Clumsy(Plain):
    """Worker 0 dies in the third batch of epoch 2, 3, ..., each time once."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.job = GlobalSettings.current()

    def update_blocks(self, block_weight: Any) -> Any:
        epoch, batch = self.job.step
        note = Path(GlobalSettings.get_params("note")) / str(epoch)
        if self.node_id == 0 and batch == 2 and 1 <= epoch <= 5 and not note.exists():
            await_saved(Position(epoch, 0))
            note.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().update_blocks(block_weight)


@covers("FD-10", "FD-12")
@pytest.mark.long
def test_five_restarts_in_a_row(started: LocalAgents, tmp_path: Path) -> None:
    """The epochs that remain come from the checkpoint's content, each time fewer."""
    settings: dict[str, Any] = {"codec": {0: Clumsy}, "codec_extra_parameters": {"note": str(tmp_path)}, "epoch": 6}
    result = train(nodes_on(started, 0, 1), tmp_path, on_failure="restart", max_restarts=5, **settings)
    assert result.restarts == 5
    begins = re.findall(r"Training goes on after (\d) epoch", log_of(result.files, 1))
    assert begins == ["1", "2", "3", "4", "5"]
    assert only_weights(result) == only_weights(undisturbed(tmp_path / "calm", epoch=6))
    assert result.ledger is not None and result.ledger.problems == ()
    assert len(rows(tmp_path, "EV", 1)) == 1 + 6 and len(rows(tmp_path, "TR", 1)) == 1 + 6 * BATCHES
    steps = [(int(row[0]), int(row[1])) for row in rows(tmp_path, "TR", 0)[1:]]  # it was killed before it had saved its last
    assert len(rows(tmp_path, "EV", 0)) == 1 + 6 and steps == sorted(set(steps))


@covers("FD-10", "INV-3")
@pytest.mark.long
def test_without_a_checkpoint_training_starts_again(started: LocalAgents, tmp_path: Path) -> None:
    """It says so, and does not start over silently; the ledger keeps what was done in vain, as not committed."""
    settings = {"codec": {0: Mortal}, "codec_extra_parameters": {"note": str(tmp_path / "died"), "saves": False}}
    result = train(nodes_on(started, 0, 1), tmp_path, on_failure="restart", checkpoint_every=None, **settings)
    assert result.restarts == 1
    assert "There is no checkpoint yet: training starts again from epoch 1." in log_of(result.files, 0)
    assert only_weights(result) == only_weights(undisturbed(tmp_path / "calm"))
    assert result.ledger is not None and result.ledger.problems == ()
    undone = result.ledger.rows[result.ledger.rows[:, 5] == 0]
    assert len(undone) >= 2 * 2 * BATCHES and set(undone[:, 4].tolist()) == {1}


@covers("SUB-44")
@pytest.mark.long
def test_an_ended_job_goes_on_by_its_id_on_other_nodes(
    started: LocalAgents, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`resume=<job id>`; the workers have changed places, so each sends the other what is its own. The
    last run in the directory of the first is its job, too."""
    caplog.set_level(logging.INFO)
    settings: dict[str, Any] = {"codec": codec.TopK, **SGD}
    first = train(nodes_on(started, 0, 1), tmp_path, checkpoint_every="epoch", **{**settings, "epoch": 2})
    calm = undisturbed(tmp_path / "calm", **settings)
    moved = train(nodes_on(started, 1, 0), tmp_path / "moved", resume=first.job_id, **settings)
    assert weights(moved) == weights(calm) and moved == calm
    assert "Training goes on after 2 epochs, with epoch 3." in log_of(moved.files, 1)
    assert f"Training goes on from the newest state of job {first.job_id}; logs tell which." in caplog.messages
    stayed = train(nodes_on(started, 0, 1), tmp_path, resume="last", **settings)
    assert weights(stayed) == weights(calm)
    assert rows(tmp_path, "TR", 0) == rows(tmp_path / "calm", "TR", 0)  # the earlier rows are on that node


@pytest.mark.long
@covers("FD-13")
def test_a_broken_checkpoint_is_passed_over(started: LocalAgents, tmp_path: Path) -> None:
    """The newest of one node lacks a byte; all go on from the one before, and the log names the file."""
    settings: dict[str, Any] = {"codec": codec.TopK, **SGD}
    first = train(nodes_on(started, 0, 1), tmp_path, checkpoint_every="epoch", **{**settings, "epoch": 3})
    broken = started.directory / "agent-1" / "jobs" / f"{first.job_id}.1" / "checkpoints" / file_name(Position(3, 0))
    os.truncate(broken, broken.stat().st_size - 1)
    calm = undisturbed(tmp_path / "calm", **settings)
    result = train(nodes_on(started, 0, 1), tmp_path / "again", resume=first.job_id, **settings)
    assert weights(result) == weights(calm)
    assert f"The checkpoint {broken} cannot be used" in log_of(result.files, 1)
    assert "The newest checkpoint, after 3 epochs, cannot be used as it is: the state of node(s) 1 is lacking" in log_of(
        result.files, 0
    )


def test_too_few_epochs_for_a_job_on_agents_are_refused_before_it_starts(started: LocalAgents, tmp_path: Path) -> None:
    first = train(nodes_on(started, 0, 1), tmp_path, epoch=2, checkpoint_every="epoch")
    with pytest.raises(
        SubmissionError,
        match=r"^The job was not started: The checkpoint is after 2 epochs, so 'epoch' must be at least 2, got 1\.$",
    ):
        train(nodes_on(started, 0, 1), tmp_path / "less", resume=first.job_id, epoch=1)


def test_an_unknown_job_cannot_go_on(started: LocalAgents, tmp_path: Path) -> None:
    """A job that none of the nodes knows is refused before anything starts; one that has left no checkpoint, by its nodes."""
    with pytest.raises(SubmissionError, match="'resume' names job nobody-knows-it, which none of its nodes knows"):
        train(nodes_on(started, 0, 1), tmp_path, resume="nobody-knows-it")
    earlier = train(nodes_on(started, 0, 1), tmp_path, epoch=1, checkpoint_every=None)
    with pytest.raises(JobFailed, match=f"'resume' names job {earlier.job_id}, of which no node of this job has a checkpoint"):
        train(nodes_on(started, 0, 1), tmp_path, resume=earlier.job_id)


@pytest.mark.long
def test_agents_go_on_with_what_one_process_began(
    started: LocalAgents, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`resume=<path>`: the submitter sends each node its checkpoint; the bits are those of either place."""
    caplog.set_level(logging.INFO)
    settings: dict[str, Any] = {"codec": codec.TopK, **SGD}
    undisturbed(tmp_path, checkpoint_every="epoch", **{**settings, "epoch": 2})
    calm = undisturbed(tmp_path / "calm", **settings)
    result = train(nodes_on(started, 0, 2), tmp_path / "agents", resume=tmp_path / "Node-1-Retrieve", **settings)
    assert weights(result) == weights(calm) and result == calm
    assert "Training goes on after 2 epochs" in log_of(result.files, 0)

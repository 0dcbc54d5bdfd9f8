"""Nodes that are busy, unreachable, foreign, or die: what `parallel()` says, how soon, and that the next job works."""

from __future__ import annotations

import logging
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import nn
import rpc
from network import NetworkError, NodeAssignment, Request
from network.key_files import create_key_file
from nn.dataset.transforms import ImageCls
from parallel_sgd import JobFailed, ParallelSGD, local_workers
from parallel_sgd import job as job_module
from parallel_sgd.codec import GlobalSettings
from parallel_sgd.codec.plain import Plain
from parallel_sgd.nodes import LocalNodes
from parallel_sgd.profiles import DuplicateAssignment, IIDBlockAssignment
from rpc.errors import NodeBusy
from rpc.launch.local import local_agents
from rpc.submit import list_jobs, refuse_busy
from tests.parallel_sgd.networks import mlp
from tests.processes.harness import LIMIT, AgentProcess, cluster, lasting_port, start_job, wait_for
from tests.processes.training.jobs import digits_job, hearing, here, line_job, marking, only_weights, rows, said, some

from ...statements import covers

LAST_BLOCK = 70  # in the middle of an epoch
QUICK: dict[str, Any] = {"epoch": 1, "block_size": 4}


class Mortal(Plain):
    """The worker named by the job kills itself, or its agent, when it has computed some blocks; its agent not before there is
    the file `runs`."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.seen = 0
        self.target = os.getppid() if GlobalSettings.get_params("agent") else os.getpid()
        self.doomed = node_id == GlobalSettings.get_params("victim", -1)

    def update_blocks(self, block_weight: Any) -> Any:
        self.seen += 1
        if self.doomed and self.seen == LAST_BLOCK:
            if runs := GlobalSettings.get_params("runs"):
                wait_for(Path(runs).exists, "the submitter to know that all run")
            os.kill(self.target, signal.SIGKILL)
        return super().update_blocks(block_weight)


class Holder(rpc.AbsSimpleExecutor):
    """Keeps its node until there is a file."""

    def run(self, com: rpc.Communication) -> None:
        wait_for(Path(self.shipped["free"]).exists, "the end", 60.0)


@covers("SUB-3", "SUB-4")
def test_waiting_for_a_busy_node(agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`wait=` seconds of patience: none here, where the answer names address, title and since when, and enough there."""
    caplog.set_level(logging.INFO)
    nodes, free = some(agents, 1), tmp_path / "free"
    with Request().request(nodes) as com:
        holding = start_job(com, Holder, tmp_path, title="Thesis", objects={"free": str(free)})
        with pytest.raises(NodeBusy, match=rf"The job was not started: .*{agents[0]}.*Thesis.*since"):
            line_job().parallel(nodes, wait=0.1, directory=tmp_path, **QUICK)
        with hearing(lambda text: free.touch() if "Trying again" in text else None):
            assert line_job().parallel(nodes, wait=60, directory=tmp_path, **QUICK)["Loss"] > 0
        assert not holding.join()[1]


def test_waiting_outlives_an_upgrade_and_costs_free_nodes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one node is busy, leaves, is away and comes back, the other one is not given the job again and again: each try
    would cost it a process, a record of a job, and in the end files of those before."""
    port, free, looks = lasting_port(), tmp_path / "free", 0
    with cluster(tmp_path / "pair") as pair:
        _, held = (*pair.start(1), *pair.start(1, "--port", str(port)))
        nodes = pair.nodes()
        with pair.request(NodeAssignment(pair.key_file).add(0, held.address)) as com:
            start_job(com, Holder, tmp_path, title="Thesis", objects={"free": str(free)})
            refused = []

            def look(of: NodeAssignment) -> None:
                """Upgrade the busy agent between looks at it."""
                nonlocal looks
                looks += 1
                if looks == 3:
                    held.end()
                if looks == 5:
                    pair.agents[1] = AgentProcess(held.console_path.parents[1] / "again", pair.key_file, "--port", str(port))
                    pair.agents[1].await_address()
                try:
                    refuse_busy(of)
                except NodeBusy as error:
                    refused.append(str(error))
                    raise

            monkeypatch.setattr(job_module, "refuse_busy", look)
            assert line_job().parallel(nodes, wait=LIMIT, directory=tmp_path, **QUICK)["Loss"] > 0
        assert "busy with job 'Thesis' since" in refused[0] and f"No worker is reached at 127.0.0.1:{port}" in refused[3], (
            refused
        )
        with pair.request() as com:
            known = [entry["state"] for entry in list_jobs(com)[0]]
        assert known == ["aborted", "done"], "the first try, and the job"


def test_an_agent_is_busy_for_a_job_that_needs_more_slots_than_are_left(tmp_path: Path) -> None:
    """Else each look would end with a submission, for which the agent starts a process and refuses another one."""
    free = tmp_path / "free"
    with cluster(tmp_path / "one") as one:
        (agent,) = one.start(1, "--slots", "2")
        first = NodeAssignment(one.key_file).add(0, agent.address)
        both = NodeAssignment(one.key_file).add(0, agent.address).add(1, agent.address)
        refuse_busy(both)
        with Request().request(first) as com:
            holding = start_job(com, Holder, tmp_path, title="Thesis", objects={"free": str(free)})
            refuse_busy(first)
            with pytest.raises(NodeBusy, match=rf"Node\(0\) at {agent.address}, Node\(1\) at .*: busy with job 'Thesis' since"):
                refuse_busy(both)
            free.touch()
            assert not holding.join()[1]


def test_a_wrong_key(agents: LocalNodes, tmp_path: Path) -> None:
    create_key_file(tmp_path / "other-key")
    nodes = NodeAssignment(tmp_path / "other-key").add(0, agents[0])
    with pytest.raises(NetworkError, match=rf"{agents[0]}.*key"):
        line_job().parallel(nodes, directory=tmp_path, **QUICK)


def test_a_missing_data_set(agents: LocalNodes, tmp_path: Path) -> None:
    """The files are named before anything is sent."""
    job = ParallelSGD(mlp(), nn.dataset.MNIST(directory=tmp_path), ImageCls())
    with pytest.raises(FileNotFoundError, match=r"MNIST needs 4 files in one directory.*train-images-idx3-ubyte"):
        job.parallel(some(agents, 1), directory=tmp_path)


def test_a_killed_agent(tmp_path: Path) -> None:
    """Its job process ends with it; the others say who is gone."""
    with local_agents(2) as agents:
        nodes = LocalNodes(agents.key_file).add(0, agents.addresses[0]).add(1, agents.addresses[1])
        with marking(tmp_path / "runs-now") as runs, pytest.raises(JobFailed) as info:
            parameters = {"victim": 1, "agent": 1, "runs": str(runs)}
            digits_job().parallel(nodes, codec=Mortal, codec_extra_parameters=parameters, epoch=100, directory=tmp_path)
        assert info.value.failures[1][0] == "lost"
        assert "PeerLost" in info.value.failures[0][1]
        assert re.search(r"failed\. Node\(1\) at \S+ is lost: ", str(info.value))
        only = LocalNodes(agents.key_file).add(0, agents.addresses[0])
        assert line_job().parallel(only, directory=tmp_path, **QUICK)["Loss"] > 0


@pytest.mark.long
@covers("SUB-31")
@pytest.mark.parametrize(
    ("assignment", "count", "victim"),
    [pytest.param(DuplicateAssignment, 4, 0, marks=pytest.mark.long), (IIDBlockAssignment, 3, 2)],
)
def test_redundancy_pays(
    agents: LocalNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture, assignment: Any, count: int, victim: int
) -> None:
    """Without the killed worker the others train the same weights, without any time-out."""
    settings: dict[str, Any] = {"redundancy": 2, "assignment_type": assignment, "codec": Mortal, "epoch": 4, "block_size": 16}
    undisturbed = here(digits_job(), count, tmp_path / "undisturbed", **settings)
    caplog.clear()
    start = time.monotonic()
    settings |= {"codec_extra_parameters": {"victim": victim}, "ssgd_timeout_limit": 60_000}
    result = digits_job().parallel(some(agents, count), directory=tmp_path, **settings)
    assert time.monotonic() - start < 60
    assert sorted(result.models) == [node for node in range(count) if node != victim]
    assert only_weights(result) == only_weights(undisturbed)
    assert result == undisturbed
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [line for line in warnings if f"Node({victim})" in line and "SIGKILL" in line], warnings
    for node in result.models:
        assert rows(tmp_path, "EV", node) == rows(tmp_path / "undisturbed", "EV", node)


@covers("SUB-31")
def test_the_last_copy_of_a_block_cannot_be_spared(agents: LocalNodes, tmp_path: Path) -> None:
    """Redundancy covers r - 1 losses, not the loss of all holders of a block."""

    class BothHolders(Plain):
        seen = 0

        def update_blocks(self, block_weight: Any) -> Any:
            self.seen += 1
            if self.node_id in (0, 1) and self.seen == LAST_BLOCK:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().update_blocks(block_weight)

    settings: dict[str, Any] = {"redundancy": 2, "assignment_type": DuplicateAssignment, "codec": BothHolders, "epoch": 50}
    with pytest.raises(JobFailed, match=r"SIGKILL"):
        digits_job().parallel(some(agents, 4), ssgd_timeout_limit=60_000, directory=tmp_path, **settings)


@covers("SUB-14")
def test_ctrl_c_in_local_workers_stops_the_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The agents are ours and end with us, so their job is stopped; also one that waits for nobody, by itself."""
    caplog.set_level(logging.INFO)
    interrupted: list[str] = []

    def interrupt(text: str) -> None:
        if "Current progress" in text and not interrupted:
            interrupted.append(text)
            signal.raise_signal(signal.SIGINT)

    with hearing(interrupt), local_workers(1) as nodes:
        with pytest.raises(KeyboardInterrupt):
            digits_job().parallel(nodes, epoch=4000, directory=tmp_path)
        assert "This job has been aborted." in caplog.text  # it was not killed, but stopped itself
        page = Path(tmp_path, "runs", "latest", "report.html").read_text("utf-8")
        assert "Nobody: the job was stopped by Ctrl-C." in page and "batches had been trained: " in page
        assert "All the tasks are done." not in said(caplog.records)
        assert line_job().parallel(nodes, directory=tmp_path, **QUICK)["Loss"] > 0  # at once: the job is stopped

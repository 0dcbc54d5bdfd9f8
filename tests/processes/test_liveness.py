"""The failure detector on real processes: who is stopped, killed, or exits is named in time, with moment and evidence."""

from __future__ import annotations

import ctypes
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from parallel_sgd import JobFailed, Parameter_Server
from parallel_sgd.codec import SyncPS
from parallel_sgd.codec.plain import Plain
from rpc import AbsSimpleExecutor, Communication
from rpc.liveness.limits import SILENT_SECONDS
from rpc.monitor import monitor_batch_begin, monitor_batch_end, monitor_epoch_end, monitor_train_end
from rpc.verdict import Verdict
from tests.processes.training.jobs import digits_job

from ..stated_time import in_time
from ..statements import covers
from .harness import Cluster, start_job, wait_for

pytestmark = pytest.mark.alone

STALL = 2.0
BATCHES = 10  # of an epoch


class Training(AbsSimpleExecutor):
    """Signals steps of 10 ms with a barrier in each; node 1 meets `shipped["fault"]` in epoch 2, batch 3."""

    signals = True

    def run(self, com: Communication) -> Any:
        for epoch in range(self.shipped["epochs"]):
            for batch in range(BATCHES):
                monitor_batch_begin()
                if (self.node_id, epoch, batch) == (1, 1, 2):
                    self.logger.info("the last words of node 1")
                    self.meet_fault(com)
                time.sleep(0.01)
                com.barrier()
                (com.output_directory / "begun").touch()
                monitor_batch_end()
            monitor_epoch_end()
        monitor_train_end()
        return os.getpid()

    def meet_fault(self, com: Communication) -> None:
        fault = self.shipped["fault"]
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault == "exit":
            sys.exit(3)
        elif fault == "raise":
            raise ArithmeticError("the seventh digit is wrong")
        elif fault == "segfault":
            ctypes.string_at(0)
        elif fault == "loop":
            while True:
                time.sleep(0.001)
        elif fault == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif fault == "pause":
            subprocess.Popen(["/bin/sh", "-c", f"sleep 1.4; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)


class StopsItself(Plain):
    """Node 1 stops in its third batch."""

    seen = 0

    def update_blocks(self, block_weight: Any) -> Any:
        self.seen += 1
        if self.node_id == 1 and self.seen == 3:
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().update_blocks(block_weight)


class StopsServer(SyncPS):
    """The parameter server stops at the fifth packet of a variable."""

    seen = 0

    def receive_blocks(self, content: Any) -> Any:
        self.seen += 1
        if self.node_id == Parameter_Server and self.seen == 5:
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().receive_blocks(content)


def train(trio: Cluster, folder: Path, fault: str, stall: float = STALL) -> tuple[dict[int, Any], list[Verdict]]:
    """Two epochs; results and verdicts."""
    with trio.request() as com:
        coordinator = start_job(com, Training, folder, objects={"fault": fault, "epochs": 2}, stall=stall)
        results, _ = coordinator.join()
        return results, coordinator.verdicts


@covers("FD-9", "FD-18")
@pytest.mark.parametrize(
    ("fault", "kind", "number", "code", "words"),
    [
        ("kill", "crashed", 9, -1, "killed by signal 9 (SIGKILL)"),
        ("exit", "exited", 0, 3, "exited with code 3"),
        ("raise", "crashed", 0, -1, "ArithmeticError: the seventh digit is wrong"),
        ("segfault", "crashed", 11, -1, "killed by signal 11 (SIGSEGV)"),
    ],
)
def test_crashes(trio: Cluster, tmp_path: Path, fault: str, kind: str, number: int, code: int, words: str) -> None:
    """a crash is seen within a second; the verdict names node, process, epoch, batch and phase, and why."""
    _, verdicts = train(trio, tmp_path, fault)
    first = verdicts[0]
    assert (first.node, first.kind, first.signal, first.exit_code) == (1, kind, number, code)
    assert (first.phase, first.epoch, first.batch, first.attempt) == ("step", 2, 3, 0)
    assert first.seconds >= 0 and first.pid > 0 and first.host == os.uname().nodename
    assert words in first.describe() and any("the last words of node 1" in line for line in first.log)
    assert all("PeerLost" in verdict.trace for verdict in verdicts[1:])  # what followed comes after what caused it
    in_time(first.seconds, 1.0)


@covers("FD-2", "FD-18")
def test_stuck_in_a_loop(trio: Cluster, tmp_path: Path) -> None:
    """a step that does not end is declared after N, and the verdict shows the line where the process is."""
    _, verdicts = train(trio, tmp_path, "loop")
    first = verdicts[0]
    assert (first.node, first.kind, first.phase, first.epoch, first.batch) == (1, "stuck", "step", 2, 3)
    assert first.seconds > STALL
    assert "in meet_fault" in first.trace and "the last words of node 1" in first.log[-1]
    in_time(first.seconds, STALL + 0.5)


@pytest.mark.share(2)
@covers("FD-2", "FD-6", "FD-18")
@pytest.mark.parametrize("stall", [0.7, STALL])
def test_stopped(trio: Cluster, tmp_path: Path, stall: float) -> None:
    """SIGSTOP within a step is declared at N < t <= N + 0.5 s for each N, as what it is, and nothing is left
    behind."""
    _, verdicts = train(trio, tmp_path, "stop", stall)
    first = verdicts[0]
    assert (first.node, first.kind, first.phase, first.epoch, first.batch) == (1, "stuck", "step", 2, 3)
    assert first.seconds > stall and "stopped by a signal (state T)" in first.detail
    in_time(first.seconds, stall + 0.5)


@covers("FD-19")
def test_stopped_and_continued(trio: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At N / 2 a warning that names node and batch; SIGCONT before N withdraws it, and the job ends well."""
    caplog.set_level(logging.WARNING)
    caplog.clear()
    results, verdicts = train(trio, tmp_path, "pause")
    if verdicts:  # it was continued later than it should have been
        in_time(verdicts[0].seconds, STALL)
    assert sorted(results) == [0, 1, 2] and verdicts == []
    told = [record.getMessage() for record in caplog.records if "Node(1), in epoch 2, batch 3" in record.getMessage()]
    assert len(told) == 2 and "recovered after 1." in told[1]
    silent = re.search(r"in epoch \d, batch \d: silent for (\d\.\d) s", told[0])
    assert silent is not None and STALL / 2 <= float(silent[1]) < STALL


@covers("FD-9")
def test_silent_agent(trio: Cluster, tmp_path: Path) -> None:
    """a host from which nothing comes, neither beats nor an end of the connection, is declared within 3 s."""
    with trio.request() as com:
        coordinator = start_job(com, Training, tmp_path, objects={"fault": "", "epochs": 30}, stall=STALL)
        wait_for(lambda: list(trio.agents[1].work.glob(f"jobs/{coordinator.job}*/out/begun")), "the first batch")
        trio.agents[1].process.send_signal(signal.SIGSTOP)
        try:
            results, _ = coordinator.join()
        finally:
            trio.agents[1].process.send_signal(signal.SIGCONT)
    verdict = coordinator.verdicts[0]
    assert (verdict.node, verdict.kind) == (1, "silent") and verdict.seconds > SILENT_SECONDS
    assert not results and "its host has been silent" in coordinator.failures[1][1]
    others = [coordinator.failures[node] for node in (0, 2)]  # they need not wait for a connection that stands
    assert all(state == "failed" and "PeerLost: Node(" in detail for state, detail in others)
    assert any("Node(1) at" in detail and "its host has been silent" in detail for _, detail in others)
    wait_for(trio.is_free, "the agent to give its job up")  # which a next try finds there
    in_time(verdict.seconds, 3.0)


@pytest.mark.long
@covers("FD-1", "FD-2")
def test_stopped_worker_of_parallel(trio: Cluster, tmp_path: Path) -> None:
    """a worker of `parallel()` signals by itself; stopped within its third batch it is the first cause."""
    with pytest.raises(JobFailed) as caught:
        digits_job().parallel(
            trio.nodes(2), block_size=32, epoch=2, codec={0: StopsItself}, stall_timeout=STALL, directory=tmp_path
        )
    first = caught.value.verdicts[0]
    assert (first.node, first.kind, first.phase, first.epoch, first.batch) == (1, "stuck", "step", 1, 3)
    in_time(first.seconds, STALL + 0.5)
    assert first.seconds > STALL and str(caught.value).index("Node(1)") < str(caught.value).index("Node(0)")


@pytest.mark.long
@covers("FD-2")
def test_stopped_parameter_server(trio: Cluster, tmp_path: Path) -> None:
    """a server signals one long batch, and shows that it lives whenever it waits; the workers that wait are not stuck."""
    codec: dict[str, Any] = {"codec": {0: StopsServer}, "ps_codec": {0: StopsServer}}
    with pytest.raises(JobFailed) as caught:
        digits_job().parallel(trio.nodes(ps=True), block_size=32, epoch=2, stall_timeout=STALL, directory=tmp_path, **codec)
    first = caught.value.verdicts[0]
    assert (first.node, first.kind) == (Parameter_Server, "stuck") and first.seconds > STALL
    assert {verdict.kind for verdict in caught.value.verdicts[1:]} <= {"crashed"}
    in_time(first.seconds, STALL + 0.5)

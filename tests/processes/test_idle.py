"""Who has nothing to do costs nothing: processor time as the kernel counts it, whatever else the machine does."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from network.faults.plan import FaultPlan, perform
from network.transport import wait_sockets
from parallel_sgd import JobResult
from parallel_sgd.codec import BlockWeight
from parallel_sgd.codec.plain import Plain
from tests.processes.training.jobs import line_job, only_weights

from ..statements import covers
from .harness import LIMIT, Cluster, start_job, wait_for
from .test_liveness import Training

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
SECONDS, SPANS = 2.0, 12
SHARE = 0.02  # of a core


def stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def used(pid: int) -> float:
    """Seconds of processor time so far, of all threads."""
    fields = stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def shares(pids: list[int]) -> dict[int, float]:
    """How much of a core each process uses over some seconds; where that is too much, in the best of some such spans, since on
    a machine that does other things the same work takes more time: caches are cold, and the other half of a core is taken."""
    found = dict.fromkeys(pids, 1.0)
    for _ in range(SPANS):
        start, before = time.monotonic(), [used(pid) for pid in pids]
        wait_sockets([], [], SECONDS)
        passed = time.monotonic() - start
        found = {pid: min(found[pid], (used(pid) - earlier) / passed) for pid, earlier in zip(pids, before, strict=True)}
        if max(found.values()) < SHARE:
            break
    return found


def test_the_measure_sees_work() -> None:
    """Seconds of a process that computes are counted."""
    before, start = used(os.getpid()), time.process_time()
    while time.process_time() - start < 0.1:
        pass
    assert 0.08 <= used(os.getpid()) - before <= 0.5


class StopsOnce(Plain):
    """The process of worker 1 stops in the middle of the training, until it is woken; worker 0 waits for it."""

    plan = FaultPlan.parse("stop 1@e1.b3")
    batches = 0

    def update_blocks(self, block_weight: BlockWeight) -> Any:
        packets = super().update_blocks(block_weight)
        for fault in self.plan.at(self.node_id, 0, self.batches):
            perform(fault)
        self.batches += 1
        return packets


@covers("FLT-2", "FD-16")
def test_waiting_for_a_stuck_peer_costs_nothing(own: Cluster, tmp_path: Path) -> None:
    """Agents that wait for work, agents that watch a job, and a worker that waits for a stopped one."""
    agents = own.start(3)
    results: list[JobResult] = []

    def submit() -> None:
        settings: dict[str, Any] = {
            "epoch": 1,
            "block_size": 4,
            "directory": tmp_path,
            "ssgd_timeout_limit": 60_000,
            "stall_timeout": LIMIT,
        }
        results.append(line_job().parallel(own.nodes(2), codec={0: StopsOnce}, **settings))

    def stopped() -> list[int]:
        return [pid for pid in agents[1].job_pids() if stat(pid)[0] == "T"]

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        wait_for(stopped, "worker 1 to be stopped")
        (waiting,) = agents[0].job_pids()
        found = shares([waiting, *(agent.pid for agent in agents)])
        assert stopped(), "it did not wait for a stopped peer all the time"
    finally:
        for pid in agents[1].job_pids():
            os.kill(pid, signal.SIGCONT)
        thread.join()
    assert max(found.values()) < SHARE, found
    only_weights(results[0])  # and the training went on


@covers("FD-3", "FD-16")
def test_watching_a_good_run_costs_little(trio: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No verdict, not a word, and an agent that watches takes at most 1 % of a core (best of three, as above)."""
    for _ in range(3):
        with trio.request() as com:
            coordinator = start_job(com, Training, tmp_path, objects={"fault": "", "epochs": 25})
            before, begin = [used(agent.pid) for agent in trio.agents], time.monotonic()
            wait_for(trio.idle, "the end of the job")
            after, end = [used(agent.pid) for agent in trio.agents], time.monotonic()
            results, error = coordinator.join()
        assert not error and sorted(results) == [0, 1, 2] and coordinator.verdicts == [] and "silent" not in caplog.text
        most = max(late - early for early, late in zip(before, after, strict=True))
        if most <= 0.01 * (end - begin) + 2 / os.sysconf("SC_CLK_TCK"):
            return
    pytest.fail(f"{most:.2f} s of {end - begin:.2f} s")

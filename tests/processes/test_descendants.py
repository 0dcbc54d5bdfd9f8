"""What a job has started goes with it, wherever it hides, also where its agent is gone; what other jobs started stays."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from rpc.liveness.heartbeat import process_status
from tests.proc import children_of, is_fork_server, is_gone

from ..statements import covers
from .executors import Stepping
from .harness import AgentProcess, Cluster, start_job, wait_for
from .host_executors import Multiprocessing, Scatters


def scattered(agent: AgentProcess, jobs: int = 1) -> list[list[int]]:
    """The sleepers of each job that has begun, as soon as there are so many; they live."""
    begun = wait_for(lambda: len(found := sorted(agent.work.glob("jobs/*/out/begun"))) == jobs and found, "the jobs to begin")
    pids = [list(map(int, (path.parent / "pids").read_text().split())) for path in begun]
    assert all(len(each) == 4 and not any(map(is_gone, each)) for each in pids)
    return pids


@covers("SEC-25")
@pytest.mark.parametrize("end", ["well", "killed", "stopped"])
@pytest.mark.share(3)
def test_they_are_gone_when_the_node_is_free(own: Cluster, tmp_path: Path, end: str) -> None:
    """Sessions and groups of their own, parents that have ended. When the submitter hears of the end, nothing is left,
    not even a zombie."""
    (agent,) = own.start(1)
    with own.request() as com:
        coordinator = start_job(com, Scatters, tmp_path, objects={"stays": end != "well"})
        (pids,) = scattered(agent) if end != "well" else ([],)
        if end == "killed":
            os.kill(agent.job_pids()[0], signal.SIGKILL)
        elif end == "stopped":
            coordinator.stop_executing()
        results, error = coordinator.join()
        pids = pids or results[0]
        assert error == (end != "well") and len(pids) == 4 and all(map(is_gone, pids))
        assert [pid for pid in children_of(agent.pid, with_ended=True) if not is_fork_server(pid)] == []


@covers("SEC-25")
def test_other_jobs_keep_theirs(own: Cluster, tmp_path: Path) -> None:
    """With two slots, the end of one job by a signal ends nothing of the other one."""
    (agent,) = own.start(1, "--slots", "2")
    with own.request() as one, own.request() as other:
        first = start_job(one, Scatters, tmp_path, objects={"stays": True})
        (pids,) = scattered(agent)
        (victim,) = agent.job_pids()
        second = start_job(other, Scatters, tmp_path, objects={"stays": True})
        both = scattered(agent, 2)
        (kept,) = (each for each in both if each != pids)
        os.kill(victim, signal.SIGKILL)
        assert first.join()[1]
        assert all(map(is_gone, pids)) and not any(map(is_gone, kept))
        assert len(agent.job_pids()) == 1
        second.stop_executing()
        second.join()
    assert all(map(is_gone, kept))


@covers("SEC-25")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.share(2)
def test_they_go_with_the_agent(own: Cluster, tmp_path: Path, number: int) -> None:
    """An agent that is killed takes them along, too: the job process ends what it has started."""
    (agent,) = own.start(1)
    with own.request() as com:
        start_job(com, Scatters, tmp_path, objects={"stays": True})
        (pids,) = scattered(agent)
        (job,) = agent.job_pids()
        agent.end(number)
        wait_for(lambda: all(map(is_gone, [*pids, job])), "all that the job has started to end")


def test_a_pool_of_processes_works(own: Cluster, tmp_path: Path) -> None:
    """Nobody takes exit codes or children from an executor that starts processes of its own."""
    own.start(1)
    outcome = own.run(Multiprocessing, tmp_path)
    assert not outcome.error and outcome.results == {0: ([1, 1, 2, 6, 24], 7)}


@covers("FLT-2", "INV-7")
def test_a_stopped_process_does_not_outlive_its_agent(own: Cluster, tmp_path: Path) -> None:
    """SIGSTOP to a job process, then SIGKILL to its agent: the system wakes the orphan, which ends itself."""
    (agent,) = own.start(1)
    with own.request() as com:
        start_job(com, Stepping, tmp_path)
        (pid,) = agent.job_pids()
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: process_status(pid).state == "T", "the process to stop")
        agent.end(signal.SIGKILL)
        wait_for(lambda: process_status(pid).state in ("", "Z"), "the orphan to end")

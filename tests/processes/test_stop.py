"""Stopping a job: wherever its executors are, they end, and their nodes are free."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from network.faults.proxy import Proxy
from rpc.agent import EVENT_LOG
from rpc.liveness.limits import HALT_SECONDS

from ..stated_time import in_time
from ..statements import covers
from .executors import Computing, Deaf, Receiving, Stepping, Sum
from .harness import LIMIT, Cluster, start_job, wait_for

ALONE = pytest.mark.alone


@covers("SUB-14")
@pytest.mark.parametrize(
    ("executor", "count", "limit"),
    [
        pytest.param(Receiving, 3, 1.0, marks=ALONE),
        pytest.param(Stepping, 3, 1.0, marks=ALONE),
        pytest.param(Computing, 3, 1.3, marks=ALONE),
        (Deaf, 1, HALT_SECONDS + LIMIT),
    ],
)
def test_stop_executing(trio: Cluster, tmp_path: Path, executor: Any, count: int, limit: float) -> None:
    """An interruption at the next receive or send; one that only computes is killed after five seconds. The nodes are
    free, which the fixture asserts, and take the next job."""
    with trio.request(trio.nodes(count)) as com:
        coordinator = start_job(com, executor, tmp_path)
        trio.begun(coordinator, count)
        begin = time.monotonic()
        coordinator.stop_executing()
        results, error = coordinator.join()
        in_time(time.monotonic() - begin, limit)
    assert error and not results
    assert {state for state, _ in coordinator.failures.values()} == {"stopped"}
    if executor is Receiving:
        assert {detail for _, detail in coordinator.failures.values()} == {
            "This job has been aborted. It was stopped by the submitter."
        }
    if executor is Deaf:  # after the others comes the next of these
        assert not trio.run(Sum, tmp_path).error


@covers("SUB-14")
@pytest.mark.parametrize("late", ["agent", "link"])
@pytest.mark.share(2)
def test_who_hears_of_a_stop_after_the_others_was_stopped_too(
    trio: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """Agent 1, or its link, stands still until its process has lost the others, who have obeyed, and has ended of that."""
    monkeypatch.setattr("rpc.liveness.cluster_monitor.SILENT_SECONDS", LIMIT)  # however long that takes, it is not given up
    nodes, agent = trio.nodes(1), trio.agents[1]
    with Proxy() as proxy:
        route = proxy.route(agent.address)
        assert route.address is not None
        with trio.request(nodes.add(1, route.address).add(2, trio.agents[2].address)) as com:
            coordinator = start_job(com, Receiving, tmp_path)
            trio.begun(coordinator, 3)
            if late == "agent":
                agent.process.send_signal(signal.SIGSTOP)
            else:
                route.there.stall()
            coordinator.stop_executing()
            noted = agent.work / f"jobs/{coordinator.job}.1" / EVENT_LOG  # nothing by an agent that stands still

            def lost_others() -> bool:
                coordinator.look_after()
                return '"failed"' in noted.read_text() if late == "link" else not agent.job_pids()

            wait_for(lost_others, "the end of the late process")
            agent.process.send_signal(signal.SIGCONT)
            route.there.stall(False)
            results, error = coordinator.join()
    assert error and not results
    assert [state for state, _ in coordinator.failures.values()] == ["stopped"] * 3
    heard = "This job has been aborted. It was stopped by the submitter."
    assert (coordinator.failures[1][1] == heard) == (late == "agent")

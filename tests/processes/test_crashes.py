"""Job processes that die, exit, raise or misbehave: the submitter hears why, the others end, and the next job works."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from pathlib import Path

import pytest

from ..stated_time import in_time
from ..statements import covers
from .executors import (
    Alone,
    DiskFull,
    Escaping,
    Exiting,
    FailsAtOnce,
    Hoarder,
    LeavesChild,
    LeavesChildAndDies,
    Raising,
    Segfault,
    Stepping,
    Sum,
    Wandering,
)
from .harness import Cluster, processes_below, start_job, wait_for


@covers("SUB-13")
@pytest.mark.alone
def test_killed_job_process(trio: Cluster, tmp_path: Path) -> None:
    """SIGKILL of one of three ends join within a second; the others fail with PeerLost that names node and address."""
    with trio.request() as com:
        coordinator = start_job(com, Stepping, tmp_path)
        (victim,) = trio.agents[1].job_pids()
        os.kill(victim, signal.SIGKILL)
        begin = time.monotonic()
        results, error = coordinator.join()
        in_time(time.monotonic() - begin, 1.0)
    assert error and not results
    assert coordinator.failures[1] == ("failed", "The job process ended without a report: killed by signal 9 (SIGKILL).")
    for node in (0, 2):
        state, detail = coordinator.failures[node]
        assert state == "failed" and "network.errors.PeerLost: Node(" in detail
    # the first to notice names the victim; the second may have noticed the end of the first
    assert any(f"Node(1) at {trio.agents[1].address} is lost" in detail for _, detail in coordinator.failures.values())
    assert not trio.run(Sum, tmp_path).error


@covers("SUB-13")
def test_results_of_the_others(trio: Cluster, tmp_path: Path) -> None:
    """What the others have achieved comes home."""
    with trio.request() as com:
        coordinator = start_job(com, Alone, tmp_path)
        wait_for(lambda: not trio.agents[0].job_pids(), "node 0 to end")
        for victim in [pid for agent in trio.agents[1:] for pid in agent.job_pids()]:
            with contextlib.suppress(ProcessLookupError):  # the loss of the first may have ended the second
                os.kill(victim, signal.SIGKILL)
        results, error = coordinator.join()
    assert error and results == {0: 0} and sorted(coordinator.failures) == [1, 2]


@covers("SUB-16")
def test_exception_with_traceback(trio: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An exception reaches the submitter with traceback and node id, exactly once."""
    caplog.set_level(logging.INFO)
    outcome = trio.run(Raising, tmp_path)
    assert outcome.error and not outcome.results
    state, detail = outcome.failures[1]
    assert state == "failed" and "Traceback (most recent call last)" in detail and "raise ArithmeticError(" in detail
    assert "the seventh digit is wrong: \N{SNOWMAN} \\ud800" in detail
    told = [record.getMessage() for record in caplog.records if "ArithmeticError" in record.getMessage()]
    assert len(told) == 1 and told[0].startswith("Node(1) failed:\n\tTraceback")
    assert "PeerLost" in outcome.failures[0][1] and "PeerLost" in outcome.failures[2][1]


@covers("SUB-7", "SUB-13")
def test_failure_at_once(trio: Cluster, tmp_path: Path) -> None:
    """Who starts and fails at once has started, and so do all others, whatever is heard of first."""
    for _ in range(3):
        outcome = trio.run(FailsAtOnce, tmp_path)
        assert outcome.error and outcome.results == {0: 0, 1: 1} and "ValueError: at once" in outcome.failures[2][1]


@pytest.mark.parametrize(
    ("executor", "objects", "words"),
    [
        # an executor that calls sys.exit has failed, whatever the code
        (Exiting, {"code": 0}, "called sys.exit() before"),
        (Exiting, {"code": 3}, "SystemExit: 3"),
        (Exiting, {"code": "reason"}, "SystemExit: reason"),
        (DiskFull, None, "No space left on device"),
        # the signal is named, and the log tells where it happened
        (Segfault, None, "killed by signal 11 (SIGSEGV)"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_how_a_job_fails(trio: Cluster, tmp_path: Path, executor: type, objects: dict[str, object] | None, words: str) -> None:
    outcome = trio.run(executor, tmp_path, nodes=trio.nodes(1), objects=objects)
    assert outcome.error and outcome.failures[0][0] == "failed" and words in outcome.failures[0][1]
    if executor is Segfault:
        (log,) = (path for path in outcome.coordinator.files[0] if path.name.startswith("Fit-"))
        assert "Fatal Python error: Segmentation fault" in log.read_text()
        assert not trio.run(Sum, tmp_path).error


def test_more_reports_than_fit(trio: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A job that fills its out directory gets the first files home, the result among them, and a warning."""
    outcome = trio.run(Hoarder, tmp_path, nodes=trio.nodes(1))
    assert not outcome.error and outcome.results == {0: "written"}
    assert 200 < len(outcome.coordinator.files[0]) <= 256
    assert "more than 256" in caplog.text


@covers("SUB-37")
def test_reports_that_are_no_reports(trio: Cluster, tmp_path: Path) -> None:
    """a link, a path out of the folder, a folder and a missing file are not handed out; the good report is."""
    outcome = trio.run(Escaping, tmp_path, nodes=trio.nodes(1))
    assert not outcome.error
    names = {path.name for path in outcome.coordinator.files[0]}
    assert {name for name in names if name.endswith((".csv", ".json")) or name in ("folder", "passwd")} == {"good.csv"}


def test_children_end_with_the_job(trio: Cluster, tmp_path: Path) -> None:
    """A child process that the executor leaves behind is ended, after a good end and after a kill."""
    outcome = trio.run(LeavesChild, tmp_path, nodes=trio.nodes(1))
    assert not outcome.error
    wait_for(lambda: not processes_below(trio.agents[0].work / "jobs"), "the child to end")
    with trio.request(trio.nodes(1)) as com:
        coordinator = start_job(com, LeavesChildAndDies, tmp_path)
        wait_for(lambda: len(processes_below(trio.agents[0].work / "jobs")) == 2, "the child to begin")
        os.kill(trio.agents[0].job_pids()[0], signal.SIGKILL)
        assert coordinator.join()[1]
    wait_for(lambda: not processes_below(trio.agents[0].work / "jobs"), "the child to end")


def test_orphaned_children_end_too(own: Cluster, tmp_path: Path) -> None:
    """When the agent is killed, its job's children go with the job process."""
    (agent,) = own.start(1)
    with own.request() as com:
        start_job(com, LeavesChildAndDies, tmp_path)
        wait_for(lambda: len(processes_below(agent.work / "jobs")) == 2, "the child to begin")
        agent.process.kill()
        wait_for(lambda: not processes_below(agent.work / "jobs"), "job and child to end")


def test_changed_directory(trio: Cluster, tmp_path: Path) -> None:
    """An executor may change its current directory; result and report come home."""
    outcome = trio.run(Wandering, tmp_path, nodes=trio.nodes(1))
    assert not outcome.error and outcome.results == {0: "home"}
    assert "report.csv" in {path.name for path in outcome.coordinator.files[0]}

"""How a job is followed by somebody who watches, and what is told to its agents."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from pathlib import Path

import pytest

from network.controller import Controller
from network.errors import NetworkError
from network.nodes import Address
from rpc.messages import FetchEnd, FileBegin, FileChunk, FileEnd, Notice, Progress, Standing, State
from rpc.submit.attach import JobStatus, Reclaimer
from rpc.submit.run_folder import RunFolder
from tests.network.wires import talk

from ...statements import covers

JOB = "job"
logger = logging.getLogger("following test")


def standing(
    node: int, attempt: int = 0, driver: str = "The submitter", outcome: str = "", detail: str = "", term: int = 0
) -> Standing:
    return Standing(JOB, node, attempt, term, driver, outcome, detail)


@covers("SUB-15")
def test_a_job_that_nobody_drives_ends_with_its_processes() -> None:
    """As with a job of plain executors, of which agents tell no more than the state of each process."""
    following = JobStatus([0, 1], logger)
    for node in (0, 1):
        following.take(node, State(JOB, node, "running", ""))
    following.take(0, State(JOB, 0, "done", ""))
    assert not following.is_over
    following.take(1, State(JOB, 1, "failed", "why"))
    assert following.is_over and following.outcome == "failed"
    assert following.states == {0: ("done", ""), 1: ("failed", "why")}


@covers("SUB-15")
def test_a_driven_job_ends_when_its_driver_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Through a restart and another driver; what was said before the attempt does not count for the next one."""
    caplog.set_level(logging.INFO)
    following = JobStatus([0, 1], logger)
    for node in (0, 1):
        following.take(node, standing(node))
        following.take(node, State(JOB, node, "running", ""))
    following.take(0, Progress(JOB, 0, 50))
    following.take(1, State(JOB, 1, "failed", "killed"))
    following.take(0, State(JOB, 0, "stopped", "together"))
    assert not following.is_over
    following.take(0, Notice(JOB, 0, 0, "warned", "step", 1, 2, 5.0))
    for node in (0, 1):
        following.take(node, standing(node, 1, "Node(0)"))
        following.take(node, State(JOB, node, "running", ""))
    following.take(0, Progress(JOB, 0, 60))
    following.take(0, Progress(JOB, 0, 70))
    for node in (0, 1):
        following.take(node, State(JOB, node, "done", ""))
    assert not following.is_over
    following.take(1, standing(1, 1, "", "done"))
    assert following.is_over and following.outcome == "done"
    following.close()
    assert caplog.messages == [
        "The submitter drives the job.",
        "Node(0), epoch 1, batch 2: silent for 5.0 s in phase 'step', half of what it may be.",
        "The job has been started again: attempt 2.",
        "Node(0) drives the job from now on.",
        "Current progress: Worker(0): 70% | Running",
    ]


def test_a_node_that_was_left_behind_is_not_waited_for() -> None:
    following = JobStatus([0, 1], logger)
    following.take(1, standing(1, outcome="left"))
    following.take(1, State(JOB, 1, "failed", "it died"))
    following.take(0, standing(0, 1))
    following.take(0, State(JOB, 0, "running", ""))
    assert not following.is_over
    following.take(0, State(JOB, 0, "done", ""))
    following.take(0, standing(0, 1, "", "done"))
    assert following.is_over and following.outcome == "done"


def test_lost_agents_end_the_watch() -> None:
    following = JobStatus([0, 1], logger)
    for node in (0, 1):
        following.take(node, standing(node))
        following.take(node, State(JOB, node, "running", ""))
        following.lose(node, "the connection was closed")
    assert following.is_over and following.outcome == "failed"


def test_a_stopped_job() -> None:
    following = JobStatus([0], logger)
    following.take(0, standing(0, 0, "", "stopped", "Enough."))
    assert not following.is_over  # its process is still there
    following.take(0, State(JOB, 0, "stopped", ""))
    assert following.is_over and (following.outcome, following.detail) == ("stopped", "Enough.")


@covers("INV-14")
def test_a_result_of_another_driver_is_none_of_this_job() -> None:
    """Node 0 was left with an attempt of its own driver; the others have gone on, which is what counts."""
    following = JobStatus([0, 1, 2], logger)
    following.take(0, standing(0, 3, "", "failed"))
    following.take(0, State(JOB, 0, "done", ""))
    assert following.outdated == []
    for node in (1, 2):
        following.take(node, standing(node, 1, "Node(1)", term=1))
        following.take(node, State(JOB, node, "stopped", ""))
    assert following.outcome == "" and not following.is_over
    for node in (1, 2):
        following.take(node, State(JOB, node, "done", ""))
        following.take(node, standing(node, 1, "", "done", term=1))
    assert following.is_over and following.outcome == "done"
    assert following.outdated == [0]


def fetch(directory: Path, told: FetchEnd, job: str | None = None) -> list[Path]:
    """What the reclaimer saves of an agent that sends one file and ends with `told`."""
    with talk("tcp") as end, contextlib.ExitStack() as at_end:
        com = Controller(-1, {0: end.client})
        at_end.callback(com.close, graceful=False)
        com.addresses = {0: Address("host", 1)}
        for operation in (FileBegin("log", 4), FileChunk(b"text"), FileEnd(hashlib.sha256(b"text").hexdigest()), told):
            end.server.queue(operation.to_value())
        end.server.send()
        return Reclaimer(com).require_client_log(job, directory)[0]


@covers("SUB-44")
def test_the_run_of_the_job(tmp_path: Path) -> None:
    """Into its folder, if it is here, else into a new one; nothing of another run is touched."""
    begun = RunFolder(tmp_path, "a", "Title")
    begun.begin()
    assert fetch(tmp_path, FetchEnd("a", "done", "", "other title")) == [begun.path / "Node-0-Retrieve" / "log"]
    assert fetch(tmp_path, FetchEnd("b", "done", "", "Title"), "b") == [tmp_path / "runs/Title-2/Node-0-Retrieve/log"]
    assert os.readlink(tmp_path / "Node-0-Retrieve") == "runs/Title-2/Node-0-Retrieve"
    assert fetch(tmp_path, FetchEnd("a", "done", "", "Title"), "a") == [begun.path / "Node-0-Retrieve" / "log"]
    assert os.readlink(tmp_path / "Node-0-Retrieve") == "runs/Title-2/Node-0-Retrieve"


@covers("SUB-37", "SEC-10")
@pytest.mark.parametrize("title", ["", "../up", "/etc", ".hidden", "a\nb", "x" * 300, "\x1b[2J"])
def test_a_title_that_leads_elsewhere(tmp_path: Path, title: str) -> None:
    """An agent cannot choose a place by the title of its job."""
    assert fetch(tmp_path, FetchEnd("a", "done", "", title)) == [tmp_path / "runs" / "job-1" / "Node-0-Retrieve" / "log"]
    assert sorted(os.listdir(tmp_path)) == ["Node-0-Retrieve", "runs"]


@covers("SUB-37")
@pytest.mark.parametrize(("asked", "told"), [(None, "../x"), (None, ""), ("a", "b"), (None, "x" * 99)])
def test_a_job_that_was_not_asked_for(tmp_path: Path, asked: str | None, told: str) -> None:
    """Nothing is saved."""
    with pytest.raises(NetworkError, match="None of the nodes has files of"):
        fetch(tmp_path, FetchEnd(told, "done", "", "T"), asked)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

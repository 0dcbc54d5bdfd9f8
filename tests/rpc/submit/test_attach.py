"""How a job is followed by somebody who watches, and what is told to its agents."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

import pytest

from network.controller import Controller
from network.errors import NetworkError
from network.nodes import Address
from rpc.messages import FetchEnd, Notice, Progress, Standing, State
from rpc.submit.attach import JobStatus, Reclaimer
from rpc.submit.run_folder import RunFolder
from tests.network.wires import talk

from ...statements import covers
from ..sent import file

JOB = "job"
logger = logging.getLogger("following test")


def standing(
    node: int, attempt: int = 0, driver: str = "The submitter", outcome: str = "", detail: str = "", term: int = 0
) -> Standing:
    return Standing(JOB, node, attempt, term, driver, outcome, detail)


STORIES = {
    # as with plain executors, of which agents tell no more than the state of each process
    "nobody drives it": (2, "0.running 1.running 0.done ? 1.failed", "failed", []),
    "a node that was left behind": (2, "1@0/0:S=left 1.failed 0@1/0:S 0.running ? 0.done 0@1/0:=done", "done", [1]),
    "lost agents": (2, "0@0/0:S 0.running ? 0- 1@0/0:S 1.running ? 1-", "failed", []),
    "stopped, and its process is still there": (1, "0@0/0:=stopped ? 0.stopped", "stopped", []),
    # node 0 was left with an attempt of its own driver; the others have gone on, which is what counts
    "another driver": (
        3,
        "0@3/0:=failed 0.done 1@1/1:N 1.stopped 2@1/1:N 2.stopped ? 1.done 1@1/1:=done 2.done 2@1/1:=done",
        "done",
        [0],
    ),
}


@covers("SUB-15", "INV-14")
@pytest.mark.parametrize("name", STORIES)
def test_how_it_ends(name: str) -> None:
    """`0.done`: the process of node 0 has; `0@1/2:S=left`: its agent says that S drives attempt 1 of term 2, or how that ended;
    `0-`: the agent is lost; `?`: it is not over yet."""
    nodes, script, outcome, outdated = STORIES[name]
    following = JobStatus(range(nodes), logger)
    for word in script.split():
        node, what, rest = int(word[0]) if word != "?" else 0, word[1:2], word[2:]
        if what == ".":
            following.take(node, State(JOB, node, rest, ""))
        elif what == "-":
            following.lose(node, "the connection was closed")
        elif what == "@":
            age, _, said = rest.partition(":")
            driver, _, end = said.partition("=")
            following.take(node, standing(node, int(age[0]), driver, end, "Enough.", int(age[2])))
        else:
            assert not following.is_over
    assert following.is_over and following.outcome == outcome and following.outdated == outdated
    assert following.detail == ("Enough." if "=" in script.split()[-1] or outcome == "stopped" else "")
    if name == "nobody drives it":
        assert following.states == {0: ("done", ""), 1: ("failed", "")}


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


def fetch(directory: Path, told: FetchEnd, job: str | None = None) -> list[Path]:
    """What the reclaimer saves of an agent that sends one file and ends with `told`."""
    with talk("tcp") as end, contextlib.ExitStack() as at_end:
        com = Controller(-1, {0: end.client})
        at_end.callback(com.close, graceful=False)
        com.addresses = {0: Address("host", 1)}
        for operation in (*file("log", b"text"), told):
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

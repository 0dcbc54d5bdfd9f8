"""Watching a job from attempt to attempt, as its agents tell of it."""

from __future__ import annotations

import logging

import pytest

from rpc.following import Following
from rpc.messages import Notice, Progress, Standing, State

JOB = "job"
logger = logging.getLogger("following test")


def standing(
    node: int, attempt: int = 0, driver: str = "The submitter", outcome: str = "", detail: str = "", term: int = 0
) -> Standing:
    return Standing(JOB, node, attempt, term, driver, outcome, detail)


def test_a_job_that_nobody_drives_ends_with_its_processes() -> None:
    """SUB-15: as with a job of plain executors, of which agents tell no more than the state of each process."""
    following = Following([0, 1], logger)
    for node in (0, 1):
        following.take(node, State(JOB, node, "running", ""))
    following.take(0, State(JOB, 0, "done", ""))
    assert not following.is_over
    following.take(1, State(JOB, 1, "failed", "why"))
    assert following.is_over and following.outcome == "failed"
    assert following.states == {0: ("done", ""), 1: ("failed", "why")}


def test_a_driven_job_ends_when_its_driver_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """SUB-15: through a restart and another driver; what was said before the attempt does not count for the next one."""
    caplog.set_level(logging.INFO)
    following = Following([0, 1], logger)
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
    following = Following([0, 1], logger)
    following.take(1, standing(1, outcome="left"))
    following.take(1, State(JOB, 1, "failed", "it died"))
    following.take(0, standing(0, 1))
    following.take(0, State(JOB, 0, "running", ""))
    assert not following.is_over
    following.take(0, State(JOB, 0, "done", ""))
    following.take(0, standing(0, 1, "", "done"))
    assert following.is_over and following.outcome == "done"


def test_lost_agents_end_the_watch() -> None:
    following = Following([0, 1], logger)
    for node in (0, 1):
        following.take(node, standing(node))
        following.take(node, State(JOB, node, "running", ""))
        following.lose(node, "the connection was closed")
    assert following.is_over and following.outcome == "failed"


def test_a_stopped_job() -> None:
    following = Following([0], logger)
    following.take(0, standing(0, 0, "", "stopped", "Enough."))
    assert not following.is_over  # its process is still there
    following.take(0, State(JOB, 0, "stopped", ""))
    assert following.is_over and (following.outcome, following.detail) == ("stopped", "Enough.")


def test_a_result_of_another_driver_is_none_of_this_job() -> None:
    """INV-14: node 0 was left with an attempt of its own driver; the others have gone on, which is what counts."""
    following = Following([0, 1, 2], logger)
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

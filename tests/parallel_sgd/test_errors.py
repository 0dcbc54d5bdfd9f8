"""What is said about a job that failed: causes before consequences."""

from __future__ import annotations

from network.errors import PeerLost
from parallel_sgd import JobFailed

LOST = f"Traceback ...\n{PeerLost.__module__}.{PeerLost.__qualname__}: Node(2) at a.b:1 is lost: the connection was closed.\n"


def test_control_characters_of_a_worker_do_not_reach_the_terminal() -> None:
    """SEC-17: what a codec raises is shown, not acted upon."""
    text = str(JobFailed({0: ("failed", "ValueError: \x1b[31mred\x07")}, {}, "job"))
    assert text == r"Job job failed. Node(0) failed: ValueError: \x1b[31mred\x07"


def test_the_cause_comes_first() -> None:
    failures = {
        0: ("failed", LOST),
        1: ("stopped", "This job has been aborted."),
        2: ("failed", "Traceback ...\nValueError: no"),
        3: ("lost", "its worker ended"),
        4: ("failed", ""),
    }
    error = JobFailed(failures, {}, "j1")
    assert list(error.failures) == [2, 3, 4, 0, 1]
    assert str(error) == (
        "Job j1 failed. Node(2) failed: ValueError: no Node(3) lost: its worker ended Node(4) failed: no reason given "
        "Node(0) failed: network.errors.PeerLost: Node(2) at a.b:1 is lost: the connection was closed. "
        "Node(1) stopped: This job has been aborted."
    )

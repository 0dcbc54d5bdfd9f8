"""What is said about a job that failed: causes before consequences."""

from __future__ import annotations

from network.errors import BadContent, PeerLost
from parallel_sgd import JobFailed
from rpc.verdict import Verdict

from ..statements import covers

LOST = f"Traceback ...\n{PeerLost.__module__}.{PeerLost.__qualname__}: Node(2) at a.b:1 is lost: the connection was closed.\n"


@covers("SEC-17")
def test_control_characters_of_a_worker_do_not_reach_the_terminal() -> None:
    """What a codec raises is shown, not acted upon."""
    text = str(JobFailed({0: ("failed", "ValueError: \x1b[31mred\x07")}, {}, "job"))
    assert text == r"Job job failed. Node(0) failed: ValueError: \x1b[31mred\x07."


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
        "Job j1 failed. Node(2) failed: ValueError: no. Node(3) lost: its worker ended. Node(4) failed: no reason given. "
        "Node(0) failed: network.errors.PeerLost: Node(2) at a.b:1 is lost: the connection was closed. "
        "Node(1) stopped: This job has been aborted."
    )


@covers("SUB-46")
def test_the_same_cause_is_told_once() -> None:
    """Whichever nodes met it."""
    same = "Traceback ...\nValueError: no"
    failures = {0: ("failed", same), 1: ("failed", "KeyError: 1"), 2: ("failed", same), 3: ("failed", same)}
    assert str(JobFailed(failures, {}, "j1")) == (
        "Job j1 failed. Node(0), Node(2) and Node(3) failed: ValueError: no. Node(1) failed: KeyError: 1."
    )


@covers("FD-18")
def test_the_verdicts_order_the_causes() -> None:
    """a time-out is a consequence of somebody's silence; the message names the first cause's place."""
    late = Verdict("j1", 0, 0, "crashed", "alpha", 11, "step", 2, 3, 0.1, trace="Traceback ...\nTimeoutError: waited 10 s")
    stuck = Verdict("j1", 1, 0, "stuck", "beta", 12, "step", 2, 3, 10.1)
    failures = {0: ("failed", late.trace), 1: ("failed", stuck.reason)}
    error = JobFailed(failures, {}, "j1", [late, stuck])
    assert list(error.failures) == [1, 0] and error.verdicts == [stuck, late]
    assert str(error) == (
        "Job j1 failed, first Node(1) on beta, process 12, attempt 1, phase 'step', epoch 2, batch 3. "
        "Node(1) failed: Stuck, silent for 10.1 s. Node(0) failed: TimeoutError: waited 10 s."
    )


@covers("INV-10")
def test_a_bystander_is_not_called_the_first() -> None:
    """An agent that is gone leaves no verdict; those of nodes that lost it are not the cause."""
    bystander = Verdict("j1", 0, 0, "crashed", "alpha", 11, "step", 2, 3, 0.1, trace=LOST)
    gone = "Node(2) at a.b:1 is lost: its connection ended."
    error = JobFailed({0: ("failed", LOST), 2: ("lost", gone)}, {}, "j1", [bystander])
    assert str(error).startswith(f"Job j1 failed. {gone} Node(0) failed: network.errors.PeerLost")
    assert error.culprits == [2]


@covers("SEC-12")
def test_who_sends_what_cannot_be_used_is_the_culprit() -> None:
    """Not those that refuse it, though they are the first to fail."""
    refusal = f"Traceback ...\n{BadContent.__module__}.BadContent: {BadContent(2, 'Plain, variable 0', 'it is not finite')}"
    refused = Verdict("j1", 0, 0, "crashed", "alpha", 11, "step", 2, 3, 0.1, trace=refusal)
    follows = Verdict("j1", 2, 0, "crashed", "beta", 12, "step", 2, 3, 0.1, trace=LOST)
    error = JobFailed({2: ("failed", LOST), 0: ("failed", refusal)}, {}, "j1", [follows, refused])
    assert list(error.failures) == [0, 2] and error.culprits == [2]


@covers("FLT-27")
def test_who_is_cut_off_stays_the_culprit() -> None:
    """Also when the peer at the other end of the dead link obeys the order to stop first, and is lost to it."""
    cut = Verdict("j1", 2, 0, "cut", "beta", 12, "step", 2, 1, 2.3)
    follows = Verdict("j1", 2, 0, "crashed", "beta", 12, "step", 2, 1, 2.6, trace=LOST)
    failures = {2: ("failed", LOST), 0: ("stopped", cut.headline), 1: ("stopped", cut.headline)}
    assert JobFailed(failures, {}, "j1", [cut, follows]).culprits == [2]

"""What is said about a job that failed: causes before consequences, and where it happened, which the rule of the third failure
at the same place counts."""

from __future__ import annotations

from typing import Any

from network.errors import BadContent, PeerLost
from parallel_sgd import JobFailed
from parallel_sgd.errors import places_of
from rpc.submit.recovery import Place, Recovery
from rpc.verdict import Verdict

from ..statements import covers

LOST = f"Traceback ...\n{PeerLost.__module__}.{PeerLost.__qualname__}: Node(2) at a.b:1 is lost: the connection was closed.\n"
REFUSED = f"Traceback ...\n{BadContent.__module__}.BadContent: {BadContent(2, 'Plain, variable 0', 'it is not finite')}"
LATE = "Traceback ...\nTimeoutError: waited 10 s"
OWN = "Traceback ...\nValueError: no"


def crashed(node: int, trace: str, epoch: int = 2, batch: int = 3) -> Verdict:
    return Verdict("j1", node, 0, "crashed", "alpha", 11, "step", epoch, batch, 0.1, trace=trace)


def places(*verdicts: Verdict, **others: Any) -> set[Place]:
    """Of a job in which the nodes of `verdicts` failed, and `others`, as n2=("lost", "why")."""
    failures = {verdict.node: ("failed", verdict.trace) for verdict in verdicts}
    return set(places_of(JobFailed({**failures, **{int(name[1:]): end for name, end in others.items()}}, {}, "j1", verdicts)))


@covers("SEC-17")
def test_control_characters_of_a_worker_do_not_reach_the_terminal() -> None:
    """What a codec raises is shown, not acted upon."""
    text = str(JobFailed({0: ("failed", "ValueError: \x1b[31mred\x07")}, {}, "job"))
    assert text == r"Job job failed. Node(0) failed: ValueError: \x1b[31mred\x07."


def test_the_cause_comes_first() -> None:
    failures = {
        0: ("failed", LOST),
        1: ("stopped", "This job has been aborted."),
        2: ("failed", OWN),
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
    failures = {0: ("failed", OWN), 1: ("failed", "KeyError: 1"), 2: ("failed", OWN), 3: ("failed", OWN)}
    assert str(JobFailed(failures, {}, "j1")) == (
        "Job j1 failed. Node(0), Node(2) and Node(3) failed: ValueError: no. Node(1) failed: KeyError: 1."
    )


@covers("FD-18")
def test_the_verdicts_order_the_causes() -> None:
    """a time-out is a consequence of somebody's silence; the message names the first cause's place."""
    late = crashed(0, LATE)
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
    gone = "Node(2) at a.b:1 is lost: its connection ended."
    error = JobFailed({0: ("failed", LOST), 2: ("lost", gone)}, {}, "j1", [crashed(0, LOST)])
    assert str(error).startswith(f"Job j1 failed. {gone} Node(0) failed: network.errors.PeerLost")
    assert error.culprits == [2]


@covers("SEC-12")
def test_who_sends_what_cannot_be_used_is_the_culprit() -> None:
    """Not those that refuse it, though they are the first to fail."""
    failures = {2: ("failed", LOST), 0: ("failed", REFUSED)}
    error = JobFailed(failures, {}, "j1", [crashed(2, LOST), crashed(0, REFUSED)])
    assert list(error.failures) == [0, 2] and error.culprits == [2]


@covers("FLT-27")
def test_who_is_cut_off_stays_the_culprit() -> None:
    """Also when the peer at the other end of the dead link obeys the order to stop first, and is lost to it."""
    cut = Verdict("j1", 2, 0, "cut", "beta", 12, "step", 2, 1, 2.3)
    failures = {2: ("failed", LOST), 0: ("stopped", cut.headline), 1: ("stopped", cut.headline)}
    assert JobFailed(failures, {}, "j1", [cut, crashed(2, LOST, 2, 1)]).culprits == [2]


@covers("FD-20")
def test_bystanders_do_not_count() -> None:
    """Heard of first or not, and whether or not the one whose doing it is has left a verdict."""
    assert places(crashed(0, LOST), crashed(1, LATE), crashed(2, OWN, 2, 4)) == {(2, 2, 4)}
    assert places(crashed(0, LOST), n2=("lost", "its connection ended")) == set()
    assert places(crashed(0, LATE), crashed(1, LOST), n2=("lost", "its connection ended")) == set()
    assert places(crashed(0, LOST), crashed(1, LOST)) == places() == set()


@covers("SEC-12")
def test_who_sends_what_cannot_be_used_counts() -> None:
    """Whoever is the first to refuse it, in each attempt another one."""
    assert places(crashed(0, REFUSED), crashed(2, LOST)) == {(2, 2, 3)}
    assert places(crashed(1, REFUSED), crashed(0, LOST), n2=("stopped", "It was stopped.")) == {(2, 2, 3)}


@covers("FD-20")
def test_all_that_failed_by_themselves_count() -> None:
    """An error in everybody's code ends the job the third time, though chance decides who is heard of first."""
    recovery = Recovery("restart", 10)
    said = []
    for first, second in ((0, 1), (1, 0), (0, 1)):
        found = places(crashed(first, OWN), crashed(second, OWN))
        assert found == {(0, 2, 3), (1, 2, 3)}
        said.append(recovery.give_up(found))
    assert said[:2] == ["", ""] and "the same failure has come 3 times" in said[2]


def test_who_waits_in_vain_counts_where_nobody_failed_by_itself() -> None:
    assert places(crashed(1, LATE), crashed(0, LATE, 2, 2)) == {(1, 2, 3), (0, 2, 2)}


def test_before_the_first_batch_is_no_place() -> None:
    assert places(crashed(0, OWN, 0, 0)) == set()

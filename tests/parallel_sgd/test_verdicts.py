"""Where a failure is said to have happened: what the rule of the third failure at the same place counts."""

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

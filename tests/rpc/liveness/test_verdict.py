"""What is said of a node that did not end well."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from network.errors import PeerLost, TimedOut
from rpc.verdict import Verdict, in_causal_order

from ...statements import covers

STUCK = Verdict(
    "job", 2, 1, "stuck", "alpha", 4711, "step", 3, 17, 10.25, "The limit was 10 s.", trace="File x, line 7", log=["one", "two"]
)


@covers("FD-18")
def test_it_names_everything() -> None:
    """Rank, host, pid, attempt, epoch, batch, phase, seconds silent, last log lines and the stack."""
    assert STUCK.describe() == (
        "Node(2) on alpha, process 4711, attempt 2, phase 'step', epoch 3, batch 17: stuck, silent for 10.2 s. "
        "The limit was 10 s.\nStack:\n    File x, line 7\nLast lines of its log:\n    one\n    two"
    )
    assert STUCK.reason == "Stuck, silent for 10.2 s. The limit was 10 s."


@covers("FD-17", "FD-18")
@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (replace(STUCK, kind="crashed", signal=9), "killed by signal 9 (SIGKILL)"),
        (replace(STUCK, kind="crashed", signal=99), "killed by signal 99 (unknown)"),
        (replace(STUCK, kind="crashed"), "epoch 3, batch 17: crashed."),
        (replace(STUCK, kind="exited", exit_code=3), "exited with code 3"),
        (replace(STUCK, kind="silent"), "its host has been silent for 10.2 s"),
        (replace(STUCK, kind="deadlock"), "waits for others that wait, for 10.2 s"),
        (replace(STUCK, epoch=0, batch=0, phase="start"), "phase 'start', before the first batch"),
        (replace(STUCK, epoch=0, batch=0, phase="unwatched"), ", which gave no signals of its progress: stuck"),
    ],
)
def test_every_kind_has_its_words(verdict: Verdict, words: str) -> None:
    """Each kind and phase in words of its own."""
    assert words in verdict.headline


@covers("FD-18")
def test_as_json() -> None:
    """The same for programs."""
    data = json.loads(STUCK.to_json())
    assert data["node"] == 2 and data["log"] == ["one", "two"] and Verdict(**data) == STUCK


@covers("FD-18")
def test_first_causes_come_first() -> None:
    """What happened by itself, then what may follow from somebody's silence, then what follows from a loss."""
    lost = replace(STUCK, node=0, kind="crashed", trace=f"Traceback\n{PeerLost.__module__}.PeerLost: Node(2) is lost")
    late = replace(STUCK, node=1, kind="crashed", trace=f"Traceback\n{TimedOut.__module__}.TimedOut: waited 10 s")
    own_late = replace(STUCK, node=4, kind="crashed", trace="Traceback\nTimeoutError: waited 10 s")
    raised = replace(STUCK, node=3, kind="crashed", trace="Traceback\nValueError: PeerLost")
    order = in_causal_order([lost, late, STUCK, own_late, raised])
    assert [verdict.node for verdict in order] == [2, 3, 1, 4, 0]

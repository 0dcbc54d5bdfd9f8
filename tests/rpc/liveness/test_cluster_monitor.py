"""What the submitter makes of beats, notices and verdicts."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from network.errors import PeerLost
from rpc.liveness.cluster_monitor import ClusterMonitor
from rpc.messages import Heartbeat, Notice, Progress, Verdict

from ...statements import covers

BEAT = Heartbeat("job", 0, 1, "alpha", 4711, "step", 3, 17, 0.5, 0.0, 10.0)
VERDICT = Verdict("job", 1, 1, "stuck", "alpha", 4712, "step", 3, 17, 10.5, trace="File x, line 7")
LOG = logging.getLogger("lookout")


def lookout(nodes: int = 2) -> ClusterMonitor:
    made = ClusterMonitor("job", 1, LOG)
    made.begin(range(nodes), 0.0)
    return made


def listen(made: ClusterMonitor, seconds: float, *beats: Heartbeat) -> list[Verdict]:
    """Let time go by from 1 s on, with these beats each second."""
    found, now = [], 1.0
    while now <= 1.0 + seconds:
        for beat in beats:
            if (now - 1.0) % 1.0 == 0.0:
                made.take(beat.node, beat, now)
        found += made.look(now)
        now += 0.25
    return found


@covers("FD-18")
def test_a_silent_host_gets_a_verdict(caplog: pytest.LogCaptureFixture) -> None:
    """With host, process and place of its last beat."""
    made = lookout()
    made.take(1, replace(BEAT, node=1), 0.5)
    (verdict,) = listen(made, 10.0, BEAT)
    assert made.verdicts == [verdict]
    assert (verdict.kind, verdict.node, verdict.attempt, verdict.host, verdict.pid) == ("silent", 1, 1, "alpha", 4711)
    assert (verdict.epoch, verdict.batch, verdict.phase) == (3, 17, "step") and 2.25 < verdict.seconds <= 3.0
    assert "its host has been silent" in caplog.text


@covers("FD-18")
def test_a_deadlock_names_all() -> None:
    """And the one that has waited longest."""
    waiting = replace(BEAT, waiting=12.0)
    (verdict,) = listen(lookout(), 10.0, waiting, replace(waiting, node=1, waiting=11.0))
    assert (verdict.kind, verdict.node, verdict.seconds) == ("deadlock", 0, 12.0) and "nodes 0, 1" in verdict.detail


@covers("FLT-27")
def test_a_dead_link_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Both ends of it, and what was lost; the one that is to be left out has failed by itself."""
    waiting = replace(BEAT, waiting=12.0)
    one = replace(waiting, links=[[1, 40, 38], [2, 7, 7]])
    other = replace(waiting, node=1, batch=16, links=[[0, 38, 39], [2, 8, 8]])
    third = replace(waiting, node=2, links=[[0, 7, 7], [1, 8, 8]])
    (verdict,) = listen(lookout(3), 10.0, one, other, third)
    assert (verdict.kind, verdict.node, verdict.batch, verdict.seconds, verdict.rank) == ("cut", 1, 16, 12.0, 0)
    words = "messages are lost on the way from Node(0) to Node(1) (39 of 40 came)."
    assert verdict.headline.endswith(words) and words in caplog.text


@covers("FD-18")
def test_verdicts_are_kept_in_causal_order(caplog: pytest.LogCaptureFixture) -> None:
    """The first cause first; a stack is shown, a traceback comes with the state of the node, and is not shown twice."""
    caplog.set_level(logging.INFO)
    made = lookout()
    lost = replace(VERDICT, node=0, kind="crashed", trace="Traceback\nnetwork.errors.PeerLost: Node(1) is lost")
    made.take(0, lost, 1.0)
    made.take(1, VERDICT, 1.1)
    assert made.verdicts == [lost, VERDICT] and made.causes == [VERDICT, lost]
    assert "File x, line 7" in caplog.text and "PeerLost" not in caplog.text and "Node(0) on alpha" in caplog.text
    assert listen(made, 10.0) == []  # both are known to have ended


@covers("FD-14", "FD-15")
@pytest.mark.parametrize("change", [{"attempt": 0}, {"attempt": 2}, {"job": "other"}, {"node": 1}])
def test_what_is_not_for_this_attempt_is_left_out(change: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    """News of another attempt, of another job, or in the name of another node."""
    made = lookout()
    for news in (BEAT, replace(VERDICT, node=0), Notice("job", 0, 1, "warned", "step", 3, 17, 5.0)):
        made.take(0, replace(news, **change), 1.0)  # type: ignore[arg-type]
    made.take(0, Progress("job", 0, 50), 1.0)
    assert made.verdicts == [] and caplog.text == ""


@covers("FD-19")
def test_notices_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    """The warning and its withdrawal."""
    made = lookout()
    made.take(0, Notice("job", 0, 1, "warned", "step", 3, 17, 5.0), 1.0)
    made.take(0, Notice("job", 0, 1, "recovered", "step", 3, 17, 7.25), 2.0)
    assert "epoch 3, batch 17: silent for 5.0 s" in caplog.text and "recovered after 7.2 s" in caplog.text


@covers("FD-15")
def test_a_new_round_begins_with_what_is_heard_in_it() -> None:
    """Who had waited in the round before, for somebody who is gone, is in no deadlock."""
    made = ClusterMonitor("job", 1, LOG)
    waiting = replace(BEAT, waiting=60.0)
    made.take(0, waiting, 1.0)
    made.begin([0], 2.0, anew=True)
    assert made.look(2.25) == []
    made.take(0, waiting, 3.0)
    assert [verdict.kind for verdict in made.look(3.25)] == ["deadlock"]


@covers("FD-5", "INV-9")
def test_who_has_ended_before_all_have_started_is_not_missed() -> None:
    """a short job on one node may be done before the last node says that it runs; its agent beats no more."""
    made = ClusterMonitor("job", 1, LOG)
    made.take(0, BEAT, 0.5)
    made.ended(0, True, 0.6)
    made.begin([0, 1], 1.0)
    assert listen(made, 10.0, replace(BEAT, node=1)) == []


@covers("INV-10")
def test_a_lost_connection_is_told_with_the_place_of_the_last_beat() -> None:
    """Host, process, attempt, phase, epoch and batch, in the words of a verdict."""
    made = lookout()
    for batch in (16, 17):
        made.take(0, replace(BEAT, batch=batch), 1.0)
    told = made.explain(0, "Node(0) at a.b:1 is lost: its connection ended.", 1.5)
    place = "on alpha, process 4711, attempt 2, phase 'step', epoch 3, batch 17"
    assert told == f"Node(0) at a.b:1 is lost: its connection ended. By its last beat, 0.5 s before, it was {place}."
    assert f"Node(1) {place}: " in replace(VERDICT, pid=4711).headline
    lost = PeerLost(0, "a.b:1", told)  # as a node says it that has been told
    assert str(lost) == told
    assert str(PeerLost(0, "a.b", told)) == told.replace("a.b:1", "a.b")  # under another of its addresses
    made.take(0, replace(BEAT, phase="start", epoch=0, batch=0), 2.0)
    assert "phase 'start', before the first batch." in made.explain(0, "its worker has ended", 2.0)


@covers("INV-10")
@pytest.mark.parametrize("heard", [None, replace(BEAT, phase="unwatched", epoch=0, batch=0), replace(BEAT, attempt=0)])
def test_where_a_lost_node_was_is_not_made_up(heard: Heartbeat | None) -> None:
    """Of one that has not beaten in this attempt, or does not signal, the loss is all that is known."""
    made = lookout()
    if heard is not None:
        made.take(0, heard, 1.0)
    assert made.explain(0, "its worker has ended", 2.0) == "its worker has ended"


@covers("INV-10")
def test_whose_job_has_ended_was_nowhere() -> None:
    """What is lost with an agent afterwards are its files."""
    made = lookout()
    made.take(0, BEAT, 1.0)
    made.ended(0, True, 1.5)
    made.take(0, BEAT, 1.6)  # it was on its way
    assert made.explain(0, "its connection ended.", 2.0) == "its connection ended."


@covers("FD-9")
def test_before_the_start_nobody_is_missed() -> None:
    """Beats that arrive before all have started are no reason to watch, but are remembered."""
    made = ClusterMonitor("job", 1, LOG)
    made.take(0, BEAT, 1.0)
    assert made.deadline is None and made.look(100.0) == []
    made.begin([0, 1], 100.0)
    found = [made.look(100.0 + 0.25 * look) for look in range(1, 13)]
    silent = [verdict for verdicts in found for verdict in verdicts]
    assert [(verdict.node, verdict.host, verdict.pid) for verdict in silent] == [(0, "alpha", 4711), (1, "an unknown host", 0)]

"""What the driver makes of heartbeats, notices, verdicts and silence: silent hosts, deadlocks, dead links."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.errors import PeerLost
from rpc import ClusterMonitor
from rpc.liveness.limits import HEARTBEAT_SECONDS, LOOK_SECONDS, SILENT_SECONDS, STARTING_SILENT_SECONDS, Phase
from rpc.messages import Heartbeat, Notice, Progress, Verdict

from ...statements import covers

N = 10.0
MOST_SILENCE = 3.0
BEAT = Heartbeat("job", 0, 1, "alpha", 4711, "step", 3, 17, 0.5, 0.0, N)
VERDICT = Verdict("job", 1, 1, "stuck", "alpha", 4711, "step", 3, 17, 10.5, trace="File x, line 7")
LOG = logging.getLogger("lookout")


def beat(node: int, waiting: float = 0.0, phase: Phase = Phase.STEP) -> Heartbeat:
    return replace(BEAT, node=node, waiting=waiting, phase=phase.value)


def kinds(found: list[Verdict]) -> list[tuple[str, int]]:
    return [(verdict.kind, verdict.node) for verdict in found]


class Story:
    """Agents that beat twice a second, each at its own moment, and a monitor that looks when it asks to."""

    def __init__(self, nodes: int = 3) -> None:
        self.monitor = ClusterMonitor("job", 1, LOG)
        self.monitor.begin(range(nodes), 0.0)
        self.alive = {node: 0.3 * node for node in range(nodes)}  # node: its next beat
        self.waiting_since: dict[int, float] = {}
        self.now = 0.0
        self.found: list[tuple[float, Verdict]] = []

    def hear(self, *beats: Heartbeat) -> None:
        for each in beats:
            self.monitor.take(each.node, each, self.now)

    def look(self) -> list[Verdict]:
        found = self.monitor.look(self.now)
        self.found += [(self.now, verdict) for verdict in found]
        return found

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            look = self.monitor.deadline
            due = min([*self.alive.values(), *([] if look is None else [look])], default=end + 1.0)
            if due > end:
                self.now = end
                return
            self.now = max(self.now, due)
            for node, moment in self.alive.items():
                if moment <= self.now:
                    since = self.waiting_since.get(node)
                    self.hear(beat(node, 0.0 if since is None else self.now - since))
                    self.alive[node] = self.now + HEARTBEAT_SECONDS
            self.look()


@covers("FD-9", "FD-18")
@pytest.mark.parametrize("heard", [True, False])
def test_a_silent_host_is_declared_within_three_seconds(heard: bool, caplog: pytest.LogCaptureFixture) -> None:
    """No beat, no FIN, no RST: at most 3 s after the last one, once, with what it said last; also who never says anything."""
    story, last = Story(), 0.0
    if heard:
        story.pass_time(10.0)
        last = story.alive[1] - HEARTBEAT_SECONDS
    del story.alive[1]
    story.pass_time(60.0)
    ((when, found),) = story.found
    assert SILENT_SECONDS < when - last <= MOST_SILENCE and story.monitor.verdicts == [found]
    assert (found.kind, found.node, found.attempt) == ("silent", 1, 1) and found.seconds == pytest.approx(when - last)
    place = ("alpha", 4711, "step", 3, 17) if heard else ("an unknown host", 0, "unwatched", 0, 0)
    assert (found.host, found.pid, found.phase, found.epoch, found.batch) == place
    assert "its host has been silent" in caplog.text


@covers("FLT-28")
@pytest.mark.parametrize("deaf", [False, True], ids=["mute", "deaf"])
@pytest.mark.parametrize("cut", [10.0 + moment / 20 for moment in range(11)])
def test_a_half_cut_host_is_declared_within_three_seconds(deaf: bool, cut: float) -> None:
    """At whatever moment between two beats nothing more comes from it, or to it: then one beat, which
    nobody can confirm, still gets through, and its system sends no further one before that is confirmed."""
    story = Story()
    story.pass_time(cut)
    beat_on_its_way = story.alive.pop(1)
    if deaf:
        story.pass_time(beat_on_its_way - story.now)
        story.hear(beat(1))
    story.pass_time(10.0)
    ((when, found),) = story.found
    assert (found.kind, found.node) == ("silent", 1)
    assert SILENT_SECONDS - HEARTBEAT_SECONDS < when - cut <= MOST_SILENCE


@covers("FD-5")
def test_who_has_ended_may_be_silent() -> None:
    """a node that has ended is not watched any more; the others still are."""
    story = Story()
    story.pass_time(5.0)
    del story.alive[0]
    story.monitor.ended(0, True)
    story.pass_time(20.0)
    assert story.found == []
    story.hear(beat(0))  # was on its way
    story.alive.pop(1)
    story.pass_time(20.0)
    assert kinds([found for _, found in story.found]) == [("silent", 1)]


@covers("FD-5", "INV-9")
def test_who_has_ended_before_all_have_started_is_not_missed() -> None:
    """a short job on one node may be done before the last node says that it runs; its agent beats no more."""
    monitor = ClusterMonitor("job", 1, LOG)
    monitor.take(0, BEAT, 0.5)
    monitor.ended(0, True)
    monitor.begin([0], 1.0)
    assert monitor.deadline is None and monitor.look(60.0) == []


@covers("FD-9")
def test_a_watcher_that_slept_accuses_nobody() -> None:
    """What arrived while the watcher was suspended or busy is heard late, and nobody is declared for that."""
    story = Story()
    story.pass_time(5.0)
    story.now += 3600.0
    story.look()
    story.alive = dict.fromkeys(story.alive, story.now + 0.9)
    story.pass_time(10.0)
    assert story.found == []


@covers("FD-14", "FD-15")
@pytest.mark.parametrize("change", [{"attempt": 0}, {"attempt": 2}, {"job": "other"}, {"node": 1}])
def test_what_is_not_for_this_attempt_is_counted_and_left_out(
    change: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    """Of another attempt, of another job, or in the name of another node: it keeps nobody alive, and says nothing."""
    story = Story(1)
    story.alive = {}
    story.hear(beat(0))
    for told in (replace(VERDICT, node=0), Notice("job", 0, 1, "warned", "step", 3, 17, 5.0)):
        story.monitor.take(0, replace(told, **change), 0.0)  # type: ignore[arg-type]
    story.monitor.take(0, Progress("job", 0, 50), 0.0)
    assert story.monitor.verdicts == [] and caplog.text == ""
    for _ in range(20):
        story.pass_time(0.25)
        story.monitor.take(0, replace(BEAT, **change), story.now)  # type: ignore[arg-type]
    ((when, found),) = story.found
    assert (found.kind, found.node) == ("silent", 0) and when <= MOST_SILENCE
    assert story.monitor.strangers == 22


@covers("FD-2", "FD-18")
def test_all_wait_for_each_other() -> None:
    """When all that train wait longer than N and no byte comes, it is a deadlock, declared once, that names all."""
    story = Story()
    story.waiting_since = {0: 2.0, 1: 1.0, 2: 3.0}
    story.pass_time(60.0)
    ((when, found),) = story.found
    assert (found.kind, found.node) == ("deadlock", 1) and "nodes 0, 1, 2" in found.detail and found.seconds > N
    assert 3.0 + N < when <= 3.0 + N + 1.0 + LOOK_SECONDS


Counts = dict[tuple[int, int], int]  # messages from one node to another


def counted(sent: Counts, lost: Counts, nodes: int) -> list[Heartbeat]:
    """The last beats of nodes that all wait; `lost` are those of the messages that have not come."""
    found = []
    for node in range(nodes):
        peers = [peer for peer in range(nodes) if peer != node]
        links = [[p, sent.get((node, p), 9), sent.get((p, node), 9) - lost.get((p, node), 0)] for p in peers]
        found.append(replace(beat(node, N + 1.0 + node), links=links, batch=16 + node))
    return found


@covers("FLT-27")
@pytest.mark.parametrize(
    ("lost", "left_out"),
    [
        ({(0, 2): 1, (2, 0): 1}, [2]),  # both directions: one of the pair
        ({(0, 2): 3}, [2]),  # one direction
        ({(2, 0): 1}, [2]),
        ({(p, 1): 1 for p in (0, 2, 3)}, [1]),  # deaf
        ({(1, p): 1 for p in (0, 2, 3)}, [1]),  # mute
        ({(0, 1): 1, (3, 0): 1}, [0]),  # one node in common
        ({(0, 1): 1, (2, 3): 1}, [3, 1]),  # two pairs
    ],
)
def test_who_is_cut_off(lost: Counts, left_out: list[int], caplog: pytest.LogCaptureFixture) -> None:
    """Messages that were sent and have not come, while all wait, are told by link; without the nodes that are
    named no dead link is left, and each has failed by itself."""
    story = Story(4)
    sent = {(0, 1): 12, (3, 2): 7}
    story.hear(*counted(sent, lost, 4))
    story.now = 0.25
    found = story.look()
    assert kinds(found) == [("cut", node) for node in left_out]
    assert [(each.batch, each.seconds, each.rank) for each in found] == [(16 + node, N + 1.0 + node, 0) for node in left_out]
    shown = [
        f"Node({a}) to Node({b}) ({sent.get((a, b), 9) - many} of {sent.get((a, b), 9)} came)" for (a, b), many in lost.items()
    ]
    assert all(sum(link in verdict.headline for verdict in found) == 1 and link in caplog.text for link in shown)
    assert all(
        verdict.detail.startswith("All that train wait, and messages are lost on the way from Node(") for verdict in found
    )
    assert all({*link} & {*left_out} for link in lost)
    assert story.look() == []


@covers("INV-9")
def test_a_message_on_its_way_is_no_dead_link() -> None:
    """Not while anybody does something, and where all that was sent has come it is a deadlock."""
    story = Story()
    story.hear(*(heard if heard.node else replace(heard, waiting=0.0) for heard in counted({}, {(0, 2): 1}, 3)))
    assert story.look() == []
    story.hear(*counted({}, {}, 3))
    assert kinds(story.look()) == [("deadlock", 2)]


@covers("FD-2", "FD-9")
@pytest.mark.parametrize("working", [0, 1, 2, None])
def test_what_makes_it_no_deadlock(working: int | None) -> None:
    """The others may wait as long as it likes for one that works; once a node has failed, it is known what they wait for."""
    story = Story()
    if working is None:
        del story.alive[2]
        story.monitor.ended(2, False)
    story.waiting_since = {node: 0.0 for node in range(3) if node != working}
    story.pass_time(100.0)
    assert story.found == []


@covers("INV-9")
def test_who_was_waited_for_has_ended() -> None:
    """The others have waited for long, and may go on: only what they say from then on counts."""
    story = Story()
    story.waiting_since = {1: 0.0, 2: 0.0}
    story.pass_time(N + 1.1)
    del story.alive[0]
    story.monitor.ended(0, True)
    assert story.look() == []
    story.waiting_since = {1: story.now}
    story.pass_time(N)
    assert story.found == []
    story.waiting_since = {1: 0.0, 2: 0.0}
    story.pass_time(1.0)
    ((_, found),) = story.found
    assert found.kind == "deadlock" and found.detail.endswith(": nodes 1, 2.")


@covers("FD-5")
def test_nodes_that_do_not_train_are_in_no_deadlock() -> None:
    """Who has sent TRAIN END, or never signals, does not count."""
    story = Story()
    assert story.look() == []
    story.hear(beat(0, 50.0, Phase.ENDED), beat(1, 50.0, Phase.UNWATCHED), beat(2, 50.0))
    (found,) = story.look()
    assert found.kind == "deadlock" and found.detail.endswith(": nodes 2.")


@covers("FD-15")
def test_a_new_round_begins_with_what_is_heard_in_it() -> None:
    """Who had waited in the round before, for somebody who is gone, is in no deadlock."""
    monitor = ClusterMonitor("job", 1, LOG)
    monitor.take(0, beat(0, 60.0), 1.0)
    monitor.begin([0], 2.0, anew=True)
    assert monitor.look(2.25) == []
    monitor.take(0, beat(0, 60.0), 3.0)
    assert kinds(monitor.look(3.25)) == [("deadlock", 0)]


@covers("FD-9")
@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0.01, 0.4)), max_size=100), st.integers(0, 2))
def test_random_beats(beats: list[tuple[int, float]], victim: int) -> None:
    """Whoever beats at least every 2.5 s is never declared; whoever stops is, within 3 s."""
    story = Story()
    story.alive = {}
    last = dict.fromkeys(range(3), 0.0)
    for node, pause in beats:
        story.pass_time(pause)
        for other in range(3):  # nobody is left without a beat for too long
            if other == node or story.now - last[other] > SILENT_SECONDS - 0.5:
                story.hear(beat(other))
                last[other] = story.now
    assert story.found == []
    for _ in range(12):
        story.hear(*(beat(other) for other in range(3) if other != victim))
        story.pass_time(0.25)
    ((when, found),) = story.found
    assert found.node == victim and SILENT_SECONDS < when - last[victim] <= MOST_SILENCE


@covers("SUB-47", "FD-2", "FD-9")
def test_until_all_run_an_agent_may_be_silent_for_longer() -> None:
    """Beyond that limit, not at it; whoever was found is listened to no more, nor is who has ended. Our own pause is nobody's
    silence, newcomers count from when they come, and heartbeats are no reason to watch yet, but are remembered."""
    monitor = ClusterMonitor("job", 1, LOG, {0: "Node(0)", 1: "Node(1)", 2: "Node(2)"})
    monitor.take(0, BEAT, 0.0)
    assert monitor.deadline is None and monitor.missing(50.0) == [] and monitor.look(50.0) == []
    monitor.expect([0, 1], 100.0)
    monitor.expect([2], 100.0)  # of another group
    assert monitor.deadline == 100.0 + LOOK_SECONDS
    assert monitor.missing(100.1) == [] and monitor.missing(160.0) == []  # a program that loads its data for a minute
    found = []
    for tick in range(1601, 1800):
        monitor.hear([0, 3], tick / 10)  # nobody has asked for 3
        found += [(tick / 10, node, words) for node, words in monitor.missing(tick / 10)]
    assert [(when, node) for when, node, _ in found] == [(167.9, 1), (167.9, 2)]
    assert f"no sign of life for {STARTING_SILENT_SECONDS + 0.1:.1f} s (nor has Node(2)): it is stopped" in found[0][2]
    monitor.ended(0, True)
    assert monitor.deadline is None


@covers("FD-18")
def test_verdicts_are_kept_in_causal_order(caplog: pytest.LogCaptureFixture) -> None:
    """The first cause first; a stack is shown, a traceback comes with the state of the node, and is not shown twice."""
    caplog.set_level(logging.INFO)
    story = Story(2)
    story.alive = {}
    lost = replace(VERDICT, node=0, kind="crashed", trace="Traceback\nnetwork.errors.PeerLost: Node(1) is lost")
    story.monitor.take(0, lost, 1.0)
    story.monitor.take(1, VERDICT, 1.1)
    assert story.monitor.verdicts == [lost, VERDICT] and story.monitor.causes == [VERDICT, lost]
    assert [story.monitor.follows(node) for node in (0, 1)] == [True, False]
    assert "File x, line 7" in caplog.text and "PeerLost" not in caplog.text and "Node(0) on alpha" in caplog.text
    story.pass_time(10.0)
    assert story.found == []  # both are known to have ended


@covers("FD-19")
def test_notices_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    """The warning and its withdrawal."""
    for kind, seconds in (("warned", 5.0), ("recovered", 7.25)):
        Story().monitor.take(0, Notice("job", 0, 1, kind, "step", 3, 17, seconds), 1.0)
    assert "epoch 3, batch 17: silent for 5.0 s" in caplog.text and "recovered after 7.2 s" in caplog.text


@covers("INV-10")
def test_a_lost_connection_is_told_with_the_place_of_the_last_beat() -> None:
    """Host, process, attempt, phase, epoch and batch, in the words of a verdict."""
    monitor = Story().monitor
    for batch in (16, 17):
        monitor.take(0, replace(BEAT, batch=batch), 1.0)
    told = monitor.explain(0, "Node(0) at a.b:1 is lost: its connection ended.", 1.5)
    place = "on alpha, process 4711, attempt 2, phase 'step', epoch 3, batch 17"
    assert told == f"Node(0) at a.b:1 is lost: its connection ended. By its last beat, 0.5 s before, it was {place}."
    assert f"Node(1) {place}: " in VERDICT.headline
    lost = PeerLost(0, "a.b:1", told)  # as a node says it that has been told
    assert str(lost) == told
    assert str(PeerLost(0, "a.b", told)) == told.replace("a.b:1", "a.b")  # under another of its addresses
    monitor.take(0, replace(BEAT, phase="start", epoch=0, batch=0), 2.0)
    assert "phase 'start', before the first batch." in monitor.explain(0, "its worker has ended", 2.0)


@covers("INV-10")
@pytest.mark.parametrize("heard", [None, replace(BEAT, phase="unwatched", epoch=0, batch=0), replace(BEAT, attempt=0), BEAT])
def test_where_a_lost_node_was_is_not_made_up(heard: Heartbeat | None) -> None:
    """Of one that has not beaten in this attempt, does not signal, or had ended before, the loss is all that is known."""
    monitor = Story().monitor
    if heard is not None:
        monitor.take(0, heard, 1.0)
    if heard is BEAT:
        monitor.ended(0, True)
        monitor.take(0, BEAT, 1.6)  # it was on its way
    assert monitor.explain(0, "its worker has ended", 2.0) == "its worker has ended"

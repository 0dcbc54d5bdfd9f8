"""What the driver makes of heartbeats, notices, verdicts and silence: silent hosts, deadlocks, dead links, and its words."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from network.errors import PeerLost, TimedOut
from rpc import ClusterMonitor
from rpc.liveness.limits import (
    HEARTBEAT_SECONDS,
    LOOK_SECONDS,
    SILENT_SECONDS,
    STARTING_SILENT_SECONDS,
    STARVED_SECONDS,
    WORKED_SECONDS,
)
from rpc.messages import Heartbeat, Notice, Progress
from rpc.verdict import Verdict, in_causal_order

from ...statements import covers

N = 10.0
MOST_SILENCE = 3.0
BEAT = Heartbeat("job", 0, 1, "alpha", 4711, "step", 3, 17, 0.5, 0.0, N)
STUCK = Verdict(
    "job", 1, 1, "stuck", "alpha", 4711, "step", 3, 17, 10.25, "The limit was 10 s.", trace="File x, line 7", log=["one", "two"]
)
LOG = logging.getLogger("lookout")


def beat(node: int, waiting: float = 0.0, phase: str = "step", seconds: float = 0.5) -> Heartbeat:
    return replace(BEAT, node=node, waiting=waiting, phase=phase, seconds=seconds)


class Story:
    """Three agents that beat twice a second, each at its own moment, and a monitor that looks when it asks to.

    Whatever the story is, who is silent is declared within 3 s after its last heartbeat, and what that said is told; so is who
    was cut off, after that. A deadlock is declared when the last one has waited for longer than N, within a heartbeat.
    """

    def __init__(self) -> None:
        self.monitor = ClusterMonitor("job", 1, LOG)
        self.monitor.begin(range(3), 0.0)
        self.alive = {node: 0.3 * node for node in range(3)}  # node: its next beat
        self.last: dict[int, tuple[float, Heartbeat]] = {}
        self.cut: dict[int, float] = {}
        self.waiting_since: dict[int, float] = {}
        self.now = self.slept = 0.0
        self.found: list[Verdict] = []

    def play(self, script: str) -> str:
        """`+5` passes time, `sleep5` without a look in it; of node 1: `mute1`, `deaf1` cut it off, `waits1` and `works1` what
        it does from now on, `beat1/50/save` a heartbeat by itself, `ends1` and `fails1`; `anew0` begins a round of it alone.
        Returns what was declared."""
        for word in script.split():
            what, node = word[:-1], int(word[-1]) if word[-1].isdigit() else 0
            if word[0] == "+":
                self.pass_time(float(word))
            elif word.startswith("sleep"):
                self.now += float(word.removeprefix("sleep"))
                self.look()
                self.alive = dict.fromkeys(self.alive, self.now + 0.9)
            elif word.startswith("beat"):
                name, waiting, phase, seconds = f"{word}///".split("/")[:4]
                self.hear(beat(int(name[-1]), float(waiting or 0), phase or "step", float(seconds or 0.5)))
            elif what == "look":
                self.look()
            elif what in ("mute", "deaf"):  # who hears nothing gets one more heartbeat through, which nobody can confirm
                self.cut[node], on_its_way = self.now, self.alive.pop(node)
                if what == "deaf":
                    self.pass_time(on_its_way - self.now)
                    self.hear(beat(node))
            elif what in ("waits", "works"):
                self.waiting_since.pop(node, None)
                self.waiting_since |= {node: self.now} if what == "waits" else {}
            elif what == "anew":
                self.alive = {}
                self.monitor.begin([node], self.now, anew=True)
            else:
                self.alive.pop(node)
                self.monitor.ended(node, what == "ends", self.now)
        return self.told

    @property
    def told(self) -> str:
        assert self.monitor.verdicts == self.found
        words = [f"{found.kind} {found.node} of{found.detail.rpartition(':')[2]}" for found in self.found]
        return ", ".join(word if word.startswith("deadlock") else word.partition(" of")[0] for word in words)

    def hear(self, *beats: Heartbeat) -> None:
        for each in beats:
            self.last[each.node] = self.now, each
            self.monitor.take(each.node, each, self.now)

    def look(self) -> list[Verdict]:
        found = self.monitor.look(self.now)
        self.found += found
        for verdict in found:
            waits = self.waiting_since.values()
            if verdict.kind == "silent":
                since, last = self.last.get(
                    verdict.node, (0.0, replace(BEAT, host="an unknown host", pid=0, phase="unwatched"))
                )
                place = (verdict.host, verdict.pid, verdict.phase, verdict.attempt)
                assert SILENT_SECONDS < self.now - since <= MOST_SILENCE and verdict.seconds == pytest.approx(self.now - since)
                assert place == (last.host, last.pid, last.phase, 1)
                assert (verdict.epoch, verdict.batch) == ((3, 17) if verdict.pid else (0, 0))
                cut = self.now - self.cut.get(verdict.node, since)
                assert SILENT_SECONDS - HEARTBEAT_SECONDS < cut <= MOST_SILENCE
            elif waits:
                assert verdict.seconds > N and max(waits) + N < self.now <= max(waits) + N + 1.0 + LOOK_SECONDS
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
                    self.hear(beat(node, self.now - self.waiting_since.get(node, self.now)))
                    self.alive[node] = self.now + HEARTBEAT_SECONDS
            self.look()


STORIES = [
    # no beat, no FIN, no RST; also who never says anything
    ("+10 mute1 +60", "silent 1"),
    ("mute1 +60", "silent 1"),
    # at whatever moment between two beats
    *((f"+{10 + moment / 20} {kind}1 +10", "silent 1") for kind in ("mute", "deaf") for moment in range(11)),
    # a node that has ended is not watched any more; the others are. One beat of it was on its way
    ("+5 ends0 +20 beat0 mute1 +20", "silent 1"),
    # what arrived while the watcher was suspended is heard late, and nobody is declared for that
    ("+5 sleep3600 +10", ""),
    # all that train wait longer than N and no byte comes: it is a deadlock, declared once, that names all
    ("+1 waits1 +1 waits0 +1 waits2 +60", "deadlock 1 of nodes 0, 1, 2."),
    # but may wait as long as it likes for one that works; once a node has failed, it is known what they wait for
    ("waits1 waits2 +100", ""),
    ("waits0 waits2 +100", ""),
    ("waits0 waits1 +100", ""),
    ("fails2 waits0 waits1 +100", ""),
    # who was waited for has ended: the others may go on, and only what they say from then on counts
    ("waits1 waits2 +11.1 ends0 look0 works2 +10", ""),
    ("+3 beat1/50 beat2/50 ends0 look0 beat2/50 look0 beat1/50 look0", ""),
    ("+3 ends0 +2.2 beat1/50 beat2/50 look0", ""),  # what comes may be as old as a silent node is silent,
    ("+3 ends0 +2.3 beat1/50 beat2/50 look0", "deadlock 1 of nodes 1, 2."),  # but no older
    # what is slower than the others, and has just got what it waited for: they have told of their end before it tells of that
    ("+10 beat1/11 beat0/0/ended beat2/0/ended look0 ends0 ends2 look0 +0.3", ""),
    # what signals nothing, not yet, or no more is in no deadlock, but may work for the others until it waits, too, or is gone
    ("+20 beat0/11 beat2/11 beat1/0/unwatched look0 beat1/9/unwatched/99 look0 beat1/0/ended/99 look0", ""),
    ("+20 beat0/11/ended beat1/11/unwatched look0 beat2/11 look0", "deadlock 2 of nodes 2."),
    # no moment at which all have waited: node 0 has got its message before node 1 began to wait for the answer
    ("+3 ends2 +9 beat0/10.1 +0.2 beat1/10.1 look0", "deadlock 0 of nodes 0, 1."),
    # what has waited in the round before, for a node that is gone, is in no deadlock either
    ("+3 beat0/60 anew0 look0 beat0/60 look0 +2 beat0/60 look0 +0.3 beat0/60 look0", "deadlock 0 of nodes 0."),
    # heartbeats that lie in the driver's sockets while it is suspended are old when it reads them
    ("+20 sleep3600 beat0/11 beat1/11 beat2/11 look0", ""),
]


@covers("FD-2", "FD-5", "FD-9", "FD-15", "FD-18", "FLT-28", "INV-9")
@pytest.mark.parametrize(("script", "told"), STORIES)
def test_stories(script: str, told: str, caplog: pytest.LogCaptureFixture) -> None:
    """Who is declared, once, and how long after what is asserted in `Story`."""
    assert Story().play(script) == told
    assert ("its host has been silent" in caplog.text) == told.startswith("silent")


@covers("FD-5", "INV-9")
def test_who_has_ended_before_all_have_started_is_not_missed() -> None:
    """a short job on one node may be done before the last node says that it runs; its agent beats no more."""
    monitor = ClusterMonitor("job", 1, LOG)
    monitor.take(0, BEAT, 0.5)
    monitor.ended(0, True, 0.75)
    monitor.begin([0], 1.0)
    assert monitor.deadline is None and monitor.look(60.0) == []


@covers("FD-14", "FD-15")
@pytest.mark.parametrize("change", [{"attempt": 0}, {"attempt": 2}, {"job": "other"}, {"node": 1}])
def test_what_is_not_for_this_attempt_is_counted_and_left_out(change: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Of another attempt, of another job, or in the name of another node: it keeps nobody alive, and says nothing."""
    story = Story()
    story.play("anew0 beat0")
    for told in (replace(STUCK, node=0), Notice("job", 0, 1, "warned", "step", 3, 17, 5.0)):
        story.monitor.take(0, replace(told, **change), 0.0)
    story.monitor.take(0, Progress("job", 0, 50), 0.0)
    assert story.monitor.verdicts == [] and caplog.text == ""
    for _ in range(20):
        story.pass_time(0.25)
        story.monitor.take(0, replace(BEAT, **change), story.now)
    assert story.told == "silent 0" and story.monitor.strangers == 22


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
    story, sent = Story(), {(0, 1): 12, (3, 2): 7}
    story.monitor.begin(range(4), 0.0)
    story.alive[3] = 0.4
    story.pass_time(3.0)
    story.hear(*counted(sent, lost, 4))
    found = story.look()
    assert [(each.kind, each.node, each.batch, each.seconds, each.rank) for each in found] == [
        ("cut", node, 16 + node, N + 1.0 + node, 0) for node in left_out
    ]
    shown = [
        f"Node({a}) to Node({b}) ({sent.get((a, b), 9) - many} of {sent.get((a, b), 9)} came)" for (a, b), many in lost.items()
    ]
    assert all(sum(link in verdict.headline for verdict in found) == 1 and link in caplog.text for link in shown)
    words = "All that train wait, and messages are lost on the way from Node("
    assert all(verdict.detail.startswith(words) for verdict in found)
    assert all({*link} & {*left_out} for link in lost)
    assert story.look() == []


@covers("INV-9")
def test_a_message_on_its_way_is_no_dead_link() -> None:
    """Not while anybody does something, and where all that was sent has come it is a deadlock."""
    story = Story()
    story.pass_time(3.0)
    story.hear(*(heard if heard.node else replace(heard, waiting=0.0) for heard in counted({}, {(0, 2): 1}, 3)))
    assert story.look() == []
    story.hear(*counted({}, {}, 3))
    story.look()
    assert story.told == "deadlock 2 of nodes 0, 1, 2."
    assert "By its last heartbeat" in story.monitor.explain(2, "it is lost", 0.0)  # its process will say how it ends


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
    monitor.ended(0, True, 0.75)
    assert monitor.deadline is None


def test_an_agent_that_runs_but_gets_no_processor_is_not_lost_while_its_node_starts() -> None:
    """Of one of this machine the process tells that it is there; a message ends the excuse for its job process."""
    alive = {0}
    monitor = ClusterMonitor("job", 1, LOG, {0: "Node(0)", 1: "Node(1)"}, lives=alive.__contains__)
    monitor.expect([0, 1], 0.0)
    lost: list[int] = []
    for tick in range(1, 300):
        now = tick / 10
        lost += [node for node, _ in monitor.missing(now)]
        # also when it has been silent for longer than another agent may be
        assert [monitor.starves(node, now) for node in (0, 1)] == [now > WORKED_SECONDS, False]
    assert lost == [1]
    monitor.hear([0], 30.0)
    assert not monitor.starves(0, 31.0) and monitor.starves(0, 33.0)
    for tick in range(301, 400):
        assert monitor.missing(tick / 10) == []
    alive.clear()
    ((node, words),) = monitor.missing(40.0)
    assert node == 0 and "no sign of life for 10.0 s: it is stopped" in words and not monitor.starves(0, 41.0)


def test_an_agent_that_this_program_has_started_and_that_hangs_asleep_is_silent() -> None:
    """It needs no processor: it is told within 3 s, as the agent of another host."""
    monitor = ClusterMonitor("job", 1, LOG, lives={0}.__contains__, state=lambda host, pid: "S")
    monitor.begin([0], 0.0)
    monitor.take(0, beat(0), 0.5)
    found = [(tick, verdict.kind) for tick in range(6, 60) for verdict in monitor.look(tick / 10)]
    assert found == [(29, "silent")]


def test_an_agent_is_looked_at_until_it_is_known_by_its_process() -> None:
    """So that it is known when that has ended, and the agent gets no processor to tell it. The first heartbeat may come before
    the process has its name, by which it is known for a job process."""
    looked: list[int] = []

    def state(_: str, pid: int) -> str:
        looked.append(pid)
        return "" if len(looked) == 1 else "R"

    monitor = ClusterMonitor("job", 1, LOG, state=state)
    monitor.begin([0], 0.0)
    for number, pid in enumerate((7, 7, 7, 8, 8)):
        monitor.take(0, replace(beat(0), pid=pid), number / 10)
    assert looked == [7, 7, 8]


def test_an_agent_that_runs_but_gets_no_processor_is_not_lost_while_its_node_trains() -> None:
    """One of this machine that this program has started, or that would run if it got a processor, is no host that is gone; one
    that is stopped is, one that has nothing to do, and one that never says anything again. Heartbeats that come after such a
    silence prove no deadlock, as they may be old."""
    alive, found, state = {0}, list[Verdict](), "R"
    monitor = ClusterMonitor(
        "job", 1, LOG, lives=alive.__contains__, state=lambda host, pid: state if (host, pid) == ("beta", 1) else ""
    )
    monitor.begin(range(3), 0.0)

    def pass_time(begin: float, end: float, *beating: int, waiting: bool = False) -> None:
        for tick in range(round(10 * begin), round(10 * end)):
            now = tick / 10
            for node in beating if tick % 5 == 0 else ():
                said = beat(node, now if waiting else 0.0)
                monitor.take(node, replace(said, host="beta", pid=1) if node == 1 else said, now)
            found.extend(monitor.look(now))

    pass_time(0.1, 10.0, 1, 2)
    assert found == []
    monitor.take(0, beat(0), 10.0)
    pass_time(10.1, 20.0, 1)
    assert [(verdict.node, verdict.kind) for verdict in found] == [(2, "silent")]
    alive.clear()
    pass_time(20.0, 20.2, 1)
    assert [verdict.node for verdict in found] == [2, 0]
    pass_time(20.2, 30.0)
    state = "S"
    pass_time(30.0, 30.1)
    state = "D"
    pass_time(30.1, 40.0)
    assert found[2:] == [], "it may have said something before it had nothing to do any more"
    state = "S"
    pass_time(40.0, 40.3)
    assert [(verdict.node, verdict.kind) for verdict in found[2:]] == [(1, "silent")]

    found.clear()
    state = "R"
    alive |= {0, 2}
    monitor.begin(range(3), 0.0, anew=True)
    pass_time(0.1, 12.0, 1, 2, waiting=True)
    monitor.take(0, beat(0, 11.5), 12.0)
    pass_time(12.0, 12.0 + SILENT_SECONDS, 0, 1, 2, waiting=True)
    assert found == []
    pass_time(12.0 + SILENT_SECONDS, 16.0, 0, 1, 2, waiting=True)
    assert [verdict.kind for verdict in found] == ["deadlock"]
    pass_time(16.0, 18.0 + STARVED_SECONDS, 0, 2)
    assert [(verdict.node, verdict.kind) for verdict in found[1:]] == [(1, "silent")]
    assert STARVED_SECONDS < found[1].seconds < STARVED_SECONDS + 0.2


# ---- what is said of a node


@covers("FD-18", "FD-19")
def test_verdicts_are_kept_in_causal_order_and_notices_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    """The first cause first; a stack is shown, a traceback comes with the state of the node, and is not shown twice."""
    caplog.set_level(logging.INFO)
    story = Story()
    story.play("anew0")
    lost = replace(STUCK, node=0, kind="crashed", trace="Traceback\nnetwork.errors.PeerLost: Node(1) is lost")
    story.monitor.take(0, lost, 1.0)
    story.monitor.take(1, STUCK, 1.1)
    assert story.monitor.verdicts == [lost, STUCK] and story.monitor.causes == [STUCK, lost]
    assert [story.monitor.follows(node) for node in (0, 1)] == [True, False]
    assert "File x, line 7" in caplog.text and "PeerLost" not in caplog.text and "Node(0) on alpha" in caplog.text
    story.pass_time(10.0)
    assert story.found == []  # both are known to have ended
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
    place = "on alpha, process 4711, attempt 2, in epoch 3, batch 17"
    assert told == f"Node(0) at a.b:1 is lost: its connection ended. By its last heartbeat, 0.5 s before, it was {place}."
    assert f"Node(1) {place}: " in STUCK.headline
    lost = PeerLost(0, "a.b:1", told)  # as a node says it that has been told
    assert str(lost) == told
    assert str(PeerLost(0, "a.b", told)) == told.replace("a.b:1", "a.b")  # under another of its addresses
    monitor.take(0, replace(BEAT, phase="start", epoch=0, batch=0), 2.0)
    assert ", before the first batch." in monitor.explain(0, "its worker has ended", 2.0)


@covers("INV-10")
@pytest.mark.parametrize("heard", [None, replace(BEAT, phase="unwatched", epoch=0, batch=0), replace(BEAT, attempt=0), BEAT])
def test_where_a_lost_node_was_is_not_made_up(heard: Heartbeat | None) -> None:
    """Of one that has not beaten in this attempt, does not signal, or had ended before, the loss is all that is known."""
    monitor = Story().monitor
    if heard is not None:
        monitor.take(0, heard, 1.0)
    if heard is BEAT:
        monitor.ended(0, True, 0.75)
        monitor.take(0, BEAT, 1.6)  # it was on its way
    assert monitor.explain(0, "its worker has ended", 2.0) == "its worker has ended"


@covers("FD-17", "FD-18")
def test_a_verdict_names_everything() -> None:
    """Rank, host, pid, attempt, epoch, batch, phase, seconds silent, last log lines and the stack; each kind and phase in words
    of its own; the same for programs."""
    assert STUCK.describe() == (
        "Node(1) on alpha, process 4711, attempt 2, in epoch 3, batch 17: stuck, silent for 10.2 s. "
        "The limit was 10 s.\nStack:\n    File x, line 7\nLast lines of its log:\n    one\n    two"
    )
    assert STUCK.reason == "Stuck, silent for 10.2 s. The limit was 10 s."
    kinds: list[tuple[dict[str, Any], str]] = [
        ({"kind": "crashed", "signal": 9}, "killed by signal 9 (SIGKILL)"),
        ({"kind": "crashed", "signal": 99}, "killed by signal 99 (unknown)"),
        ({"kind": "crashed"}, "epoch 3, batch 17: crashed."),
        ({"kind": "exited", "exit_code": 3}, "exited with code 3"),
        ({"kind": "silent"}, "its host has been silent for 10.2 s"),
        ({"kind": "deadlock"}, "waits for others that wait, for 10.2 s"),
        ({"epoch": 0, "batch": 0, "phase": "start"}, ", before the first batch"),
        ({"phase": "between"}, "attempt 2, between two batches, after epoch 3, batch 17: stuck"),
        ({"phase": "save"}, "attempt 2, saving its state, after epoch 3, batch 17: stuck"),
        ({"phase": "start"}, "attempt 2, starting, before epoch 3, batch 17: stuck"),
        ({"phase": "ended"}, "attempt 2, ended, after epoch 3, batch 17: stuck"),
        ({"epoch": 0, "batch": 0, "phase": "unwatched"}, ", which gave no signals of its progress: stuck"),
    ]
    for change, words in kinds:
        assert words in replace(STUCK, **change).headline
    data = json.loads(STUCK.to_json())
    assert data["node"] == 1 and data["log"] == ["one", "two"] and Verdict(**data) == STUCK


@covers("FD-18")
def test_first_causes_come_first() -> None:
    """What happened by itself, then what may follow from somebody's silence, then what follows from a loss."""
    ends = [
        f"{PeerLost.__module__}.PeerLost: Node(2) is lost",
        f"{TimedOut.__module__}.TimedOut: waited 10 s",
        "ValueError: PeerLost",
        "TimeoutError: waited 10 s",
    ]
    lost, late, raised, own_late = [
        replace(STUCK, node=node, kind="crashed", trace=f"Traceback\n{end}")
        for node, end in zip((0, 2, 3, 4), ends, strict=True)
    ]
    assert [verdict.node for verdict in in_causal_order([lost, late, STUCK, own_late, raised])] == [1, 3, 2, 4, 0]

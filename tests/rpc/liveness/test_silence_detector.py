"""Silent hosts, deadlocks and dead links, and when each node was heard last."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpc.errors import InvalidTransition
from rpc.liveness.cluster_monitor import CutOff, Deadlock, HasEnded, HeartbeatTable, SilenceDetector, Silent, Tick
from rpc.liveness.limits import HEARTBEAT_SECONDS, LOOK_SECONDS, SILENT_SECONDS, Phase
from rpc.messages import Heartbeat

from ...statements import covers

N = 10.0
MOST_SILENCE = 3.0


def beat(node: int, waiting: float = 0.0, phase: Phase = Phase.STEP, attempt: int = 0) -> Heartbeat:
    return Heartbeat("job", node, attempt, "host", 1, phase.value, 3, 17, 0.0, waiting, N)


class Story:
    """Agents that beat twice a second, each at its own moment, and a watch that looks when it asks to."""

    def __init__(self, nodes: int = 3, attempt: int = 0) -> None:
        self.watch = SilenceDetector(range(nodes), attempt, 0.0)
        self.alive = {node: 0.3 * node for node in range(nodes)}  # node: its next beat
        self.waiting_since: dict[int, float] = {}
        self.now = 0.0
        self.found: list[tuple[float, object]] = []

    def hear(self, event: object) -> None:
        self.watch.handle(event, self.now)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            look = self.watch.deadline
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
            self.found += [(self.now, action) for action in self.watch.handle(Tick(), self.now)]


@covers("FD-9")
def test_a_silent_host_is_declared_within_three_seconds() -> None:
    """No beat, no FIN, no RST: declared at most 3 s after the last one, once, with what it said last."""
    story = Story()
    story.pass_time(10.0)
    last = story.alive.pop(1) - HEARTBEAT_SECONDS
    story.pass_time(60.0)
    ((when, found),) = story.found
    assert SILENT_SECONDS < when - last <= MOST_SILENCE
    assert isinstance(found, Silent) and found.node == 1
    assert found.last is not None and (found.last.epoch, found.last.batch) == (3, 17)


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
    assert isinstance(found, Silent) and found.node == 1
    assert SILENT_SECONDS - HEARTBEAT_SECONDS < when - cut <= MOST_SILENCE


@covers("FD-5")
def test_who_has_ended_may_be_silent() -> None:
    """a node that has ended is not watched any more; the others still are."""
    story = Story()
    story.pass_time(5.0)
    del story.alive[0]
    story.hear(HasEnded(0, True))
    story.pass_time(20.0)
    assert story.found == []
    story.hear(beat(0))  # was on its way
    story.alive.pop(1)
    story.pass_time(20.0)
    assert [action.node for _, action in story.found if isinstance(action, Silent)] == [1]


@covers("FD-9")
def test_who_never_beats_is_silent_too() -> None:
    """a host that is lost right after the start has said nothing."""
    story = Story()
    del story.alive[2]
    story.pass_time(60.0)
    ((when, found),) = story.found
    assert SILENT_SECONDS < when <= MOST_SILENCE and isinstance(found, Silent) and (found.node, found.last) == (2, None)


@covers("FD-9")
def test_a_watcher_that_slept_accuses_nobody() -> None:
    """What arrived while the watcher was suspended or busy is heard late, and nobody is declared for that."""
    story = Story()
    story.pass_time(5.0)
    story.now += 3600.0
    story.found += [(story.now, action) for action in story.watch.handle(Tick(), story.now)]
    story.alive = dict.fromkeys(story.alive, story.now + 0.9)
    story.pass_time(10.0)
    assert story.found == []


@covers("FD-14", "FD-15")
def test_late_beats_of_an_earlier_attempt_and_of_strangers_count_for_nothing() -> None:
    """a beat of attempt k keeps nobody alive in attempt k + 1; a rank >= size is no node; both are counted."""
    story = Story(1, attempt=1)
    story.alive = {}
    story.hear(beat(0, attempt=1))
    for _ in range(40):
        story.pass_time(0.25)
        story.hear(beat(0, attempt=0))
        story.hear(beat(7, attempt=1))
        story.found += [(story.now, action) for action in story.watch.handle(Tick(), story.now)]
    ((when, found),) = story.found
    assert isinstance(found, Silent) and found.node == 0 and when <= MOST_SILENCE
    assert story.watch.strangers == 80


@covers("FD-2")
def test_all_wait_for_each_other() -> None:
    """When all that train wait longer than N and no byte comes, it is a deadlock, declared once."""
    story = Story()
    story.waiting_since = {0: 2.0, 1: 1.0, 2: 3.0}
    story.pass_time(60.0)
    ((when, found),) = story.found
    assert isinstance(found, Deadlock) and found.nodes == (0, 1, 2) and found.longest.node == 1
    assert 3.0 + N < when <= 3.0 + N + 1.0 + LOOK_SECONDS


Counts = dict[tuple[int, int], int]  # messages from one node to another


def counted(sent: Counts, lost: Counts, nodes: int) -> list[Heartbeat]:
    """The last beats of nodes that all wait; `lost` are those of the messages that have not come."""
    found = []
    for node in range(nodes):
        peers = [peer for peer in range(nodes) if peer != node]
        links = [(p, sent.get((node, p), 9), sent.get((p, node), 9) - lost.get((p, node), 0)) for p in peers]
        found.append(replace(beat(node, N + 1.0), links=tuple(links)))
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
def test_who_is_cut_off(lost: Counts, left_out: list[int]) -> None:
    """Messages that were sent and have not come, while all wait, are told by link; without the nodes that are
    named no dead link is left."""
    watch = SilenceDetector(range(4), 0, 0.0)
    for heard in counted({(0, 1): 12, (3, 2): 7}, lost, 4):
        watch.handle(heard, 1.0)
    found = watch.handle(Tick(), 1.25)
    assert all(isinstance(action, CutOff) for action in found)
    assert [action.node for action in found if isinstance(action, CutOff)] == left_out
    links = [(link.sender, link.receiver) for action in found if isinstance(action, CutOff) for link in action.links]
    assert sorted(links) == sorted(lost)
    assert all({*link} & {*left_out} for link in lost)
    assert watch.handle(Tick(), 1.5) == []


@covers("INV-9")
def test_a_message_on_its_way_is_no_dead_link() -> None:
    """Not while anybody does something, and where all that was sent has come it is a deadlock."""
    watch = SilenceDetector(range(3), 0, 0.0)
    for heard in counted({}, {(0, 2): 1}, 3):
        watch.handle(heard if heard.node else replace(heard, waiting=0.0), 1.0)
    assert watch.handle(Tick(), 1.25) == []
    for heard in counted({}, {}, 3):
        watch.handle(heard, 1.5)
    (found,) = watch.handle(Tick(), 1.75)
    assert isinstance(found, Deadlock)


@covers("FD-2")
@pytest.mark.parametrize("working", [0, 1, 2])
def test_one_that_works_makes_it_no_deadlock(working: int) -> None:
    """The others may wait as long as it likes."""
    story = Story()
    story.waiting_since = {node: 0.0 for node in range(3) if node != working}
    story.pass_time(100.0)
    assert story.found == []


@covers("FD-9")
def test_a_known_cause_makes_it_no_deadlock() -> None:
    """Once a node has failed, it is known what the others wait for."""
    story = Story()
    del story.alive[2]
    story.hear(HasEnded(2, False))
    story.waiting_since = {0: 0.0, 1: 0.0}
    story.pass_time(100.0)
    assert story.found == []


@covers("FD-5")
def test_nodes_that_do_not_train_are_in_no_deadlock() -> None:
    """Who has sent TRAIN END, or never signals, does not count."""
    watch = SilenceDetector(range(3), 0, 0.0)
    for node, phase in enumerate((Phase.ENDED, Phase.UNWATCHED, Phase.STEP)):
        watch.handle(beat(node, 50.0, phase), 1.0)
    (found,) = watch.handle(Tick(), 1.1)
    assert isinstance(found, Deadlock) and found.nodes == (2,)
    assert SilenceDetector(range(3), 0, 0.0).handle(Tick(), 0.1) == []


def test_unknown_events_are_refused() -> None:
    with pytest.raises(InvalidTransition, match="cannot take 7"):
        SilenceDetector(range(3), 0, 0.0).handle(7, 1.0)


@covers("FD-9")
@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0.01, 0.4)), max_size=100), st.integers(0, 2))
def test_random_beats(beats: list[tuple[int, float]], victim: int) -> None:
    """Whoever beats at least every 2.5 s is never declared; whoever stops is, within 3 s."""
    watch, now = SilenceDetector(range(3), 0, 0.0), 0.0
    last = dict.fromkeys(range(3), 0.0)
    for node in range(3):
        watch.handle(beat(node), now)

    def look_until(end: float) -> list[tuple[float, object]]:
        nonlocal now
        found: list[tuple[float, object]] = []
        while watch.deadline is not None and watch.deadline <= end:
            now = watch.deadline
            found += [(now, action) for action in watch.handle(Tick(), now)]
        now = end
        return found

    for node, pause in beats:
        assert look_until(now + pause) == []
        for other in range(3):  # nobody is left without a beat for too long
            if other == node or now - last[other] > SILENT_SECONDS - 0.5:
                watch.handle(beat(other), now)
                last[other] = now
    for _ in range(40):
        for other in range(3):
            if other != victim:
                watch.handle(beat(other), now)
        for when, action in look_until(now + 0.25):
            assert isinstance(action, Silent) and action.node == victim
            assert SILENT_SECONDS < when - last[victim] <= MOST_SILENCE
            return
    raise AssertionError("the victim was not found")


@covers("SUB-47", "FD-2")
def test_who_is_silent_is_found_once() -> None:
    """Beyond the limit, not at it; whoever was found is listened to no more."""
    heartbeats = HeartbeatTable([0, 1], 8.0, 0.0)
    found = []
    for tick in range(1, 101):
        now = tick / 10
        heartbeats.hear(0, now)
        found += [(now, node) for node, _ in heartbeats.look(now)]
    assert found == [(8.1, 1)]
    heartbeats.forget(0)
    assert heartbeats.deadline is None


@covers("SUB-47")
def test_our_own_pause_is_nobodys_silence() -> None:
    """a program that loads its data for a minute could not hear anybody."""
    heartbeats = HeartbeatTable([0], 8.0, 0.0)
    assert heartbeats.deadline == LOOK_SECONDS
    assert heartbeats.look(0.1) == []
    assert heartbeats.look(60.0) == []
    assert heartbeats.look(60.1) == []
    found = [now / 10 for now in range(602, 700) if heartbeats.look(now / 10)]
    assert len(found) == 1 and 67.8 < found[0] < 68.1


def test_newcomers_count_from_when_they_come() -> None:
    heartbeats = HeartbeatTable([], 8.0, 0.0)
    assert heartbeats.deadline is None and heartbeats.look(50.0) == []
    heartbeats.expect([2], 100.0)
    heartbeats.hear(3, 100.0)  # nobody has asked for it
    assert heartbeats.look(100.1) == []
    assert [node for now in range(1002, 1100) for node, _ in heartbeats.look(now / 10)] == [2]

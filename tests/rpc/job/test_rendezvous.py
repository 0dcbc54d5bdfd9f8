"""doCommit among job processes: every order and every loss, exhaustively for three nodes and a parameter server; and who calls
for a later round."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from network.errors import PeerLost, Rejected
from network.session import Session
from rpc.errors import InvalidTransition
from rpc.job.peers import MOST_WAITING, PeerConnector, PendingPeers
from rpc.job.rendezvous import HeardReady, Met, PeerGone, Rendezvous, RollBack, Satisfied, SayReady, Start, Tick
from tests.network.wires import talk

from ...statements import covers

EVENTS = [Satisfied(), Met(0), Met(2), Met(-2), HeardReady(0), HeardReady(2)]


def rendezvous() -> Rendezvous:
    """Node 1 of 0, 1, 2, with a parameter server."""
    return Rendezvous(1, [0, 1, 2], [-2], limit=60.0, now=10.0)


def feed(machine: Rendezvous, events: Any, now: float = 11.0) -> list[Any]:
    return [action for event in events for action in machine.handle(event, now)]


@covers("SUB-7")
def test_every_order_starts_exactly_once() -> None:
    """All 720 orders: READY is said once to each of the group and never to others, the start is the last act."""
    for order in itertools.permutations(EVENTS):
        actions = feed(rendezvous(), order)
        assert actions[-1] == Start()
        assert sorted(actions[:-1], key=lambda a: a.peer) == [SayReady(0), SayReady(2)]


@covers("SUB-7")
def test_every_order_starts_only_when_nothing_is_missing() -> None:
    """Without any one of the events there is no start in any order; who was heard counts as met."""
    for missing in EVENTS:
        rest = [event for event in EVENTS if event != missing]
        for order in itertools.permutations(rest):
            started = Start() in feed(rendezvous(), order)
            assert started == (missing in (Met(0), Met(2)))


@covers("SUB-8", "SUB-9")
@pytest.mark.parametrize("lost", [0, 2, -2])
def test_a_loss_at_every_place_of_every_order(lost: int) -> None:
    """Before the start it rolls back with the reason, after the start it changes nothing; never both."""
    for order in itertools.permutations(EVENTS):
        for place in range(len(order) + 1):
            machine = rendezvous()
            before = feed(machine, order[:place])
            actions = feed(machine, [PeerGone(lost, "it died")])
            if Start() in before:
                assert actions == []
            else:
                assert actions == [RollBack(f"node {lost} was lost before the start: it died")]
            assert feed(machine, [*order[place:], Tick()], now=1e6) == []
            assert machine.decided


@covers("SUB-8")
def test_the_limit() -> None:
    """At the limit, not before, it rolls back and says who is missing; READY at the last moment counts."""
    for size in range(len(EVENTS)):
        for events in itertools.combinations(EVENTS, size):
            machine = rendezvous()
            if Start() in feed(machine, events):
                continue
            assert feed(machine, [Tick()], 69.99) == []
            (action,) = feed(machine, [Tick()], 70.0)
            assert action.reason.startswith("not everybody was READY within 60 s, missing: ")
            for peer in (0, 2):
                assert (f"node {peer}" in action.reason) == (HeardReady(peer) not in events)
    machine = rendezvous()
    feed(machine, EVENTS[:-1])
    assert feed(machine, EVENTS[-1:], 70.0) == [Start()]


@covers("SUB-11")
def test_alone() -> None:
    """a parameter server starts by itself, as soon as it has all it needs; so does a single worker."""
    machine = Rendezvous(-2, [-2], [], 60.0, 0.0)
    assert machine.handle(Tick(), 1.0) == []
    assert machine.handle(Satisfied(), 2.0) == [Start()]
    unsatisfied = Rendezvous(0, [0], [], 60.0, 0.0)
    (action,) = unsatisfied.handle(Tick(), 60.0)
    assert "missing: this node itself" in action.reason


@covers("SEC-11")
def test_strangers_do_not_count() -> None:
    """READY of a node outside the group starts nothing, its loss stops nothing."""
    machine = rendezvous()
    assert feed(machine, [*EVENTS[:-1], HeardReady(7), Met(7), PeerGone(7, "gone")]) == [SayReady(0), SayReady(2)]
    assert not machine.decided


def test_what_cannot_be() -> None:
    """Style 9, also after the decision."""
    machine = rendezvous()
    for _ in range(2):
        with pytest.raises(InvalidTransition, match=r"Rendezvous cannot take rubbish now. Last events: .*rubbish"):
            machine.handle("rubbish", 0.0)
        feed(machine, EVENTS)


PLACE = ["127.0.0.1:9", "a host", ""]


@pytest.fixture
def caller() -> Iterator[Callable[[], Session]]:
    """Makes sessions with who calls."""
    with ExitStack() as held:
        yield lambda: held.enter_context(talk()).server


@covers("EL-2", "SEC-21")
def test_how_a_round_meets(caller: Callable[[], Session]) -> None:
    """Who calls for a round that was given up is not left waiting: a peer that got in would take the round to have begun, and
    wait in it for a process that asks for the next one. A node of the job that the round does not name does not get in; one
    without a key for us is not called."""
    pending, first, second, third, seventh = PendingPeers(), caller(), caller(), caller(), caller()
    connector = PeerConnector("job", 0, {}, PLACE, pending)

    def called_and_given_up() -> bool:
        assert pending.arrive(3, 1, first)
        return False

    with pytest.raises(PeerLost, match="round 4 was given up"):
        connector.meet(3, {0: PLACE, 1: PLACE}, called_and_given_up)
    assert first.lost is not None and not pending.arrive(3, 1, second)
    assert pending.arrive(4, 1, second), "of the next round"
    pending = PendingPeers()
    connector = PeerConnector("job", 1, {0: b"k" * 32}, PLACE, pending)

    def called() -> bool:
        return pending.arrive(0, 7, seventh) and pending.arrive(0, 2, third)

    with pytest.raises(Rejected, match=r"shares no key with nodes \[-2\]"):
        connector.meet(0, {-2: PLACE, 1: PLACE, 2: PLACE}, called)
    met = connector.meet(0, {1: PLACE, 2: PLACE}, called)
    assert met == {2: third} and seventh.lost is not None and third.alive


@covers("EL-27")
def test_each_round_gets_its_own_callers(caller: Callable[[], Session]) -> None:
    """Who calls for a round that is over is refused; who calls for a coming one waits until it begins; who calls again has
    given the first call up. Caps come from outside and may be anything (SEC), and no caller fills the lobby."""
    pending, early, late, coming, again = PendingPeers(), caller(), caller(), caller(), caller()
    assert pending.arrive(1, 7, early) and pending.arrive(2, 8, coming)
    assert pending.take(0) == {}
    pending.begin(1)
    assert not pending.arrive(0, 6, late)
    assert pending.take(1) == {7: early} and pending.take(1) == {}
    pending.begin(3)
    assert coming.lost is not None, "nobody will take it"
    assert early.lost is None, "it was taken"
    assert pending.arrive(3, 1, late) and pending.arrive(3, 1, again)
    assert pending.take(3) == {1: again} and late.lost is not None
    for attempt, node in [(None, 1), (3, None), (3, -1), (True, 1), ("3", 1)]:
        assert not pending.arrive(attempt, node, early)
    assert all(pending.arrive(3, node, early) for node in range(MOST_WAITING))
    assert not pending.arrive(3, MOST_WAITING, early)
    pending.close()
    assert not pending.arrive(4, 7, caller())

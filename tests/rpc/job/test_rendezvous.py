"""doCommit among job processes: every order and every loss, exhaustively for three nodes and a parameter server."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from rpc.errors import InvalidTransition
from rpc.job.rendezvous import HeardReady, Met, PeerGone, Rendezvous, RollBack, Satisfied, SayReady, Start, Tick

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
    """At the limit, not before, it rolls back and says who is missing."""
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


def test_ready_at_the_last_moment_counts() -> None:
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

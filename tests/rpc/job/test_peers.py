"""Peers that call a job process for one of its rounds, and how it meets them."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from network.errors import PeerLost, Rejected
from network.session import Session
from rpc.job.peers import MOST_WAITING, PeerConnector, PendingPeers
from tests.network.wires import talk

from ...statements import covers

PLACE = ["127.0.0.1:9", "a host", ""]


@covers("EL-2")
def test_who_calls_for_a_round_that_was_given_up_is_not_left_waiting() -> None:
    """a peer that got in would take the round to have begun, and wait in it for a process that asks for the next one."""
    lobby = PendingPeers()
    connector = PeerConnector("job", 0, {}, PLACE, lobby)
    with talk() as first, talk() as second:

        def called_and_given_up() -> bool:
            assert lobby.arrive(3, 1, first.server)
            return False

        with pytest.raises(PeerLost, match="round 4 was given up"):
            connector.meet(3, {0: PLACE, 1: PLACE}, called_and_given_up)
        assert first.server.lost is not None
        assert not lobby.arrive(3, 1, second.server)
        assert lobby.arrive(4, 1, second.server), "of the next round"


@covers("SEC-21")
def test_who_is_of_no_round_is_let_go_of() -> None:
    """a node of the job that the round does not name does not get in; one without a key for us is not called."""
    lobby = PendingPeers()
    connector = PeerConnector("job", 1, {0: b"k" * 32}, PLACE, lobby)
    with talk() as second, talk() as seventh:

        def called() -> bool:
            return lobby.arrive(0, 7, seventh.server) and lobby.arrive(0, 2, second.server)

        with pytest.raises(Rejected, match=r"shares no key with nodes \[-2\]"):
            connector.meet(0, {-2: PLACE, 1: PLACE, 2: PLACE}, called)
        met = connector.meet(0, {1: PLACE, 2: PLACE}, called)
        assert met == {2: second.server} and seventh.server.lost is not None and second.server.alive


def sessions(held: ExitStack, count: int) -> list[Session]:
    return [held.enter_context(talk()).server for _ in range(count)]


@covers("EL-27")
def test_each_round_gets_its_own_callers() -> None:
    """Who calls for a round that is over is refused; who calls for a coming one waits until it begins."""
    with ExitStack() as held:
        early, late, coming = sessions(held, 3)
        lobby = PendingPeers()
        assert lobby.arrive(1, 7, early) and lobby.arrive(2, 8, coming)
        assert lobby.take(0) == {}
        lobby.begin(1)
        assert not lobby.arrive(0, 6, late)
        assert lobby.take(1) == {7: early} and lobby.take(1) == {}
        lobby.begin(3)
        assert coming.lost is not None, "nobody will take it"
        assert early.lost is None, "it was taken"
        lobby.close()
        assert not lobby.arrive(4, 7, late)


def test_the_last_call_counts() -> None:
    """Who calls again has given the first call up."""
    with ExitStack() as held:
        first, second = sessions(held, 2)
        lobby = PendingPeers()
        assert lobby.arrive(0, 1, first) and lobby.arrive(0, 1, second)
        assert lobby.take(0) == {1: second} and first.lost is not None


def test_what_is_no_call_for_a_round() -> None:
    """SEC: caps come from outside and may be anything; and no caller fills the lobby."""
    with ExitStack() as held:
        (one,) = sessions(held, 1)
        lobby = PendingPeers()
        assert not any(
            lobby.arrive(attempt, node, one) for attempt, node in [(None, 1), (0, None), (0, -1), (True, 1), ("0", 1)]
        )
        assert all(lobby.arrive(0, node, one) for node in range(MOST_WAITING))
        assert not lobby.arrive(0, MOST_WAITING, one)

"""How the processes of a round meet, and what becomes of those that come when it is given up."""

from __future__ import annotations

import pytest

from network.errors import PeerLost, Rejected
from rpc.job.lobby import Lobby
from rpc.job.meetings import Meetings
from tests.network.wires import talk

PLACE = ["127.0.0.1:9", "a host", ""]


def test_who_calls_for_a_round_that_was_given_up_is_not_left_waiting() -> None:
    """EL-2: a peer that got in would take the round to have begun, and wait in it for a process that asks for the next one."""
    lobby = Lobby()
    meetings = Meetings("job", 0, {}, PLACE, lobby)
    with talk() as first, talk() as second:

        def called_and_given_up() -> bool:
            assert lobby.arrive(3, 1, first.server)
            return False

        with pytest.raises(PeerLost, match="round 4 was given up"):
            meetings.meet(3, {0: PLACE, 1: PLACE}, called_and_given_up)
        assert first.server.lost is not None
        assert not lobby.arrive(3, 1, second.server)
        assert lobby.arrive(4, 1, second.server), "of the next round"


def test_who_is_of_no_round_is_let_go_of() -> None:
    """SEC-21: a node of the job that the round does not name does not get in; one without a key for us is not called."""
    lobby = Lobby()
    meetings = Meetings("job", 1, {0: b"k" * 32}, PLACE, lobby)
    with talk() as second, talk() as seventh:

        def called() -> bool:
            return lobby.arrive(0, 7, seventh.server) and lobby.arrive(0, 2, second.server)

        with pytest.raises(Rejected, match=r"shares no key with nodes \[-2\]"):
            meetings.meet(0, {-2: PLACE, 1: PLACE, 2: PLACE}, called)
        met = meetings.meet(0, {1: PLACE, 2: PLACE}, called)
        assert met == {2: second.server} and seventh.server.lost is not None and second.server.alive

"""How the processes of a round meet, and what becomes of those that come when it is given up."""

from __future__ import annotations

import pytest

from network.errors import PeerLost
from rpc.job.lobby import Lobby
from rpc.job.meetings import Meetings
from tests.network.wires import talk

PLACE = ["127.0.0.1:9", "a host", ""]


def test_who_calls_for_a_round_that_was_given_up_is_not_left_waiting() -> None:
    """EL-2: a peer that got in would take the round to have begun, and wait in it for a process that asks for the next one."""
    lobby = Lobby()
    meetings = Meetings("job", 0, b"k" * 32, PLACE, lobby)
    with talk() as first, talk() as second:

        def called_and_given_up() -> bool:
            assert lobby.arrive(3, 1, first.server)
            return False

        with pytest.raises(PeerLost, match="round 4 was given up"):
            meetings.meet(3, {0: PLACE, 1: PLACE}, called_and_given_up)
        assert first.server.lost is not None
        assert not lobby.arrive(3, 1, second.server)
        assert lobby.arrive(4, 1, second.server), "of the next round"

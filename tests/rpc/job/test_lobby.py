"""Who may come in for which round, whoever is first."""

from __future__ import annotations

from contextlib import ExitStack

from network.session import Session
from rpc.job.lobby import MOST_WAITING, Lobby
from tests.network.wires import talk


def sessions(held: ExitStack, count: int) -> list[Session]:
    return [held.enter_context(talk()).server for _ in range(count)]


def test_each_round_gets_its_own_callers() -> None:
    """EL-27: who calls for a round that is over is refused; who calls for a coming one waits until it begins."""
    with ExitStack() as held:
        early, late, coming = sessions(held, 3)
        lobby = Lobby()
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
        lobby = Lobby()
        assert lobby.arrive(0, 1, first) and lobby.arrive(0, 1, second)
        assert lobby.take(0) == {1: second} and first.lost is not None


def test_what_is_no_call_for_a_round() -> None:
    """SEC: caps come from outside and may be anything; and no caller fills the lobby."""
    with ExitStack() as held:
        (one,) = sessions(held, 1)
        lobby = Lobby()
        assert not any(
            lobby.arrive(attempt, node, one) for attempt, node in [(None, 1), (0, None), (0, -1), (True, 1), ("0", 1)]
        )
        assert all(lobby.arrive(0, node, one) for node in range(MOST_WAITING))
        assert not lobby.arrive(0, MOST_WAITING, one)

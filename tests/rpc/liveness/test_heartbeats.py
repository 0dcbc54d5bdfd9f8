"""Who has been silent for too long, by whoever looks every tenth of a second."""

from __future__ import annotations

from rpc.liveness.heartbeats import LOOK_SECONDS, Heartbeats


def test_who_is_silent_is_found_once() -> None:
    """SUB-47, FD-2: beyond the limit, not at it; whoever was found is listened to no more."""
    heartbeats = Heartbeats([0, 1], 8.0, 0.0)
    found = []
    for tick in range(1, 101):
        now = tick / 10
        heartbeats.hear(0, now)
        found += [(now, node) for node, _ in heartbeats.look(now)]
    assert found == [(8.1, 1)]
    heartbeats.forget(0)
    assert heartbeats.deadline is None


def test_our_own_pause_is_nobodys_silence() -> None:
    """SUB-47: a program that loads its data for a minute could not hear anybody."""
    heartbeats = Heartbeats([0], 8.0, 0.0)
    assert heartbeats.deadline == LOOK_SECONDS
    assert heartbeats.look(0.1) == []
    assert heartbeats.look(60.0) == []
    assert heartbeats.look(60.1) == []
    found = [now / 10 for now in range(602, 700) if heartbeats.look(now / 10)]
    assert len(found) == 1 and 67.8 < found[0] < 68.1


def test_newcomers_count_from_when_they_come() -> None:
    heartbeats = Heartbeats([], 8.0, 0.0)
    assert heartbeats.deadline is None and heartbeats.look(50.0) == []
    heartbeats.expect([2], 100.0)
    heartbeats.hear(3, 100.0)  # nobody has asked for it
    assert heartbeats.look(100.1) == []
    assert [node for now in range(1002, 1100) for node, _ in heartbeats.look(now / 10)] == [2]

"""Calling many processes at once, and again those whose door was crowded just then."""

from __future__ import annotations

from collections.abc import Mapping

from network.clock import Clock, SystemClock
from network.dial import CONNECT_SECONDS, Target, dial_all
from network.errors import NetworkError, PeerLost
from network.session import Session
from network.sockets import wait_sockets

PER_NODE_SECONDS = 0.5
"""What each node of the host that has most of them adds to a limit of the start: their interpreters share its cores."""
_FEW_NODES = 8  # of one host can be called within the usual limit, at which it is told who does not answer
_PAUSE_SECONDS = 0.05
_ATTEMPTS = 20


def connect_seconds(fullest: int) -> float:
    """The limit of a call to all nodes of a job, or among them, where the host that has most of them has `fullest`."""
    return CONNECT_SECONDS + PER_NODE_SECONDS * max(0, fullest - _FEW_NODES)


def call_all(
    targets: Mapping[int, Target], limit: float = CONNECT_SECONDS, clock: Clock | None = None
) -> tuple[dict[int, Session], dict[int, NetworkError]]:
    """As `dial_all`, within `limit` seconds in all. Whoever hangs up without a word is called again for about a second: an
    agent that has more visitors than it can hold turns the oldest away, whoever that is."""
    clock = clock or SystemClock()
    deadline = clock.monotonic() + limit
    sessions, errors = dial_all(targets, limit, clock)
    for _ in range(_ATTEMPTS):
        again, left = _hung_up_on(targets, errors), deadline - clock.monotonic()
        if not again or left <= _PAUSE_SECONDS:
            break
        wait_sockets([], [], _PAUSE_SECONDS)
        opened, failed = dial_all(again, left, clock)
        sessions.update(opened)
        errors = {node: error for node, error in errors.items() if node not in again} | failed
    return sessions, errors


def _hung_up_on(targets: Mapping[int, Target], errors: Mapping[int, NetworkError]) -> dict[int, Target]:
    return {node: targets[node] for node, error in errors.items() if isinstance(error, PeerLost)}

"""Closing connections so that the last bytes arrive."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from .clock import Clock
from .errors import NetworkError
from .session import Session
from .transport import Waiter

FAREWELL_SECONDS = 2.0


def take_leave(sessions: Sequence[Session], wait: Waiter, clock: Clock) -> None:
    """Say farewell to all peers, send what is left, and read until each closes too or two seconds have passed.

    Closing over unread bytes would destroy sent ones. The sessions are still to be closed.
    """
    for session in sessions:
        session.leave()
    deadline = clock.monotonic() + FAREWELL_SECONDS
    finished: set[int] = set()
    while True:
        for session in (s for s in sessions if s.lost is None):
            if session.send() and id(session) not in finished:
                finished.add(id(session))
                with contextlib.suppress(OSError):
                    session.link.finish()
            with contextlib.suppress(NetworkError):
                session.receive()
            session.inbox.clear()
        open_sessions = [s for s in sessions if s.lost is None]
        left = deadline - clock.monotonic()
        if not open_sessions or left <= 0:
            return
        wait([s.link for s in open_sessions], [s.link for s in open_sessions if s.pending_bytes], left)

"""The end of the connections to the nodes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection

from network.errors import NetworkError, ProtocolError
from network.session import Session
from network.transport import wait_sockets

_SECONDS = 5.0


def hang_up(sessions: Collection[Session], seconds: float = _SECONDS) -> None:
    """Tell the nodes that there are no more tasks, and close when they have hung up, or after `seconds`."""
    deadline = time.monotonic() + seconds
    for session in sessions:
        with contextlib.suppress(NetworkError):
            session.queue(["end"])
    while any(s.alive for s in sessions) and (left := deadline - time.monotonic()) > 0:
        for session in sessions:
            session.send()
            with contextlib.suppress(ProtocolError):
                session.receive()
            session.inbox.clear()
        alive = [s for s in sessions if s.alive]
        if alive:
            writing = [s.link for s in alive if s.pending_bytes]
            wait_sockets([s.link for s in alive], writing, left)  # type: ignore[misc,arg-type]
    for session in sessions:
        session.close()

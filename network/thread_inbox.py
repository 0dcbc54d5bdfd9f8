"""Requests of other threads to the one that owns a controller: new peers, lost peers, and the order to stop."""

from __future__ import annotations

import threading
from typing import NamedTuple

from .errors import PeerLost
from .session import Session
from .transport import Waker


class Requests(NamedTuple):
    """New sessions by peer (`admitted`), and peers that count as `lost`, with the reason."""

    admitted: list[tuple[int, Session]]
    lost: list[tuple[int, str, type[PeerLost]]]


class ThreadInbox:
    """Inbox into which any thread may call `admit`, `lose`, `interrupt` and `wake`; the owner waits for `waker` too, and takes
    the requests.

    Attributes: `waiting`, whether there is anything to take; `interruption`, the error that the owner is to raise.
    """

    def __init__(self) -> None:
        self.waker = Waker()
        self.waiting = False
        self.interruption: BaseException | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._requests = Requests([], [])

    def admit(self, peer: int, session: Session) -> None:
        """Hand over `session` with the new peer of id `peer`; it is closed when the owner takes none any more."""
        # `end` and this see each other: a session is either taken by the owner, or closed here
        with self._lock:
            closed = self._closed
            if not closed:
                self._requests.admitted.append((peer, session))
        if closed:
            # outside the lock: closing may take the system a moment
            session.close()
        self.wake()

    def lose(self, peer: int, reason: str, kind: type[PeerLost] = PeerLost) -> None:
        with self._lock:
            self._requests.lost.append((peer, reason, kind))
        self.wake()

    def interrupt(self, error: BaseException) -> None:
        """Ask the owner to raise `error`; the first interruption wins."""
        # without the lock, as signal handlers call this; a lost race leaves the first or the second, both true
        if self.interruption is None:
            self.interruption = error
        self.wake()

    def wake(self) -> None:
        self.waker.wake()
        self.waiting = True  # after waking, so that a reader of this finds the waker readable

    def take(self) -> Requests:
        """Take all requests since the last time; for the owner only."""
        self.waiting = False  # before looking: a message that comes from here on is taken the next time
        # before the requests are taken: one that comes in between wakes again, in vain at worst
        self.waker.clear()
        with self._lock:
            requests, self._requests = self._requests, Requests([], [])
        return requests

    def end(self) -> None:
        """Take no new peers any more."""
        with self._lock:
            self._closed = True

    def close(self) -> None:
        self.waker.close()

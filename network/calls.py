"""What other threads bring to the one that owns a controller: newcomers, bad news, and orders to stop."""

from __future__ import annotations

import threading
from typing import NamedTuple

from .bell import Bell
from .errors import PeerLost
from .session import Session


class Brought(NamedTuple):
    """New sessions by peer, and peers that count as lost, with the reason."""

    newcomers: list[tuple[int, Session]]
    condemned: list[tuple[int, str, type[PeerLost]]]


class Calls:
    """Any thread may call `admit`, `lose`, `interrupt` and `wake`; the owner waits for `bell` too, and takes what came.

    Attributes: `waiting`, whether there is anything to take; `interruption`, what the owner is to raise.
    """

    def __init__(self) -> None:
        self.bell = Bell()
        self.waiting = False
        self.interruption: BaseException | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._brought = Brought([], [])

    def admit(self, peer: int, session: Session) -> None:
        """Bring the session of a newcomer; it is closed when nobody takes newcomers any more."""
        with self._lock:
            closed = self._closed
            if not closed:
                self._brought.newcomers.append((peer, session))
        if closed:
            session.close()
        self.wake()

    def lose(self, peer: int, reason: str, kind: type[PeerLost] = PeerLost) -> None:
        """`peer` counts as lost from now on."""
        with self._lock:
            self._brought.condemned.append((peer, reason, kind))
        self.wake()

    def interrupt(self, error: BaseException) -> None:
        """The owner is to raise `error`; the first interruption wins."""
        if self.interruption is None:
            self.interruption = error
        self.wake()

    def wake(self) -> None:
        """The owner is to look."""
        self.bell.ring()
        self.waiting = True  # after the ring, so that whoever reacts to this finds it

    def take(self) -> Brought:
        """All that was brought since the last time; belongs to the owner."""
        self.waiting = False  # before looking: who calls from here on is heard the next time
        self.bell.silence()
        with self._lock:
            brought, self._brought = self._brought, Brought([], [])
        return brought

    def end(self) -> None:
        """Take no newcomers any more."""
        with self._lock:
            self._closed = True

    def close(self) -> None:
        """Let go of the bell."""
        self.bell.close()

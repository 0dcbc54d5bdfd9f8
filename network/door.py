"""The door: connections that have proven nothing yet. Bounded in number, size and time, so that no stranger can lock it.

A visitor has five seconds in all to say hello and prove a key. At most 64 visitors stand here, 8 of one address; a newcomer
pushes out the oldest, so idlers cannot keep an honest peer waiting. What becomes of a visitor is decided by a *policy* on its
hello: serve it here with some keys, pass the whole connection on to a job process, or turn it away with a hint.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .clock import Clock, SystemClock
from .errors import NetworkError
from .handshake import HANDSHAKE_SECONDS, Hello, HelloReader, Hint, Refused, ServerHandshake
from .keys import Keyring
from .session import Session
from .sockets import SocketLink

MOST_VISITORS = 64
MOST_PER_ADDRESS = 8


class Terms(NamedTuple):
    """How to serve a visitor: which keys admit which role, our role, the job it must ask for, what we tell about us."""

    admits: Mapping[str, Keyring]
    role: str
    job: str = ""
    caps: Mapping[str, Any] = {}


class PassOn(NamedTuple):
    """Give the connection to the job process `job`."""

    job: str


Policy = Callable[[Hello], Terms | PassOn | Hint]


class Arrived(NamedTuple):
    """A visitor proved its key."""

    session: Session
    hello: Hello


class PassedOn(NamedTuple):
    """A visitor asked for a job; its connection, the hello read from it, and the seconds left to it."""

    job: str
    sock: socket.socket
    hello: bytes
    seconds: float
    peer: str


class TurnedAway(NamedTuple):
    """A visitor is gone, and why."""

    peer: str
    reason: str


Outcome = Arrived | PassedOn | TurnedAway


class Door:
    """Visitors and what becomes of them. Poll `links`, then call `step`; not thread-safe."""

    def __init__(self, policy: Policy, clock: Clock | None = None) -> None:
        self._policy = policy
        self._clock = clock or SystemClock()
        self._visitors: list[_Visitor] = []
        self._evicted: list[TurnedAway] = []

    @property
    def links(self) -> list[SocketLink]:
        """What to poll for reading."""
        return [v.link for v in self._visitors]

    @property
    def deadline(self) -> float | None:
        """When the first visitor's time is up (monotonic), or None."""
        return min((v.deadline for v in self._visitors), default=None)

    def add(self, sock: socket.socket, *, hello: bytes = b"", seconds: float = HANDSHAKE_SECONDS, peer: str = "") -> None:
        """Take in a fresh connection, or one whose `hello` was read elsewhere and that has `seconds` left."""
        try:
            link = SocketLink(sock, peer)
        except (OSError, NetworkError) as error:
            sock.close()
            self._evicted.append(TurnedAway(peer or "a visitor", str(error)))
            return
        visitor = _Visitor(link, self._clock.monotonic() + seconds, hello)
        same = [v for v in self._visitors if v.host == visitor.host]
        if len(same) >= MOST_PER_ADDRESS:
            self._evict(same[0])
        elif len(self._visitors) >= MOST_VISITORS:
            self._evict(self._visitors[0])
        self._visitors.append(visitor)

    def _evict(self, visitor: _Visitor) -> None:
        self._visitors.remove(visitor)
        visitor.link.close()
        self._evicted.append(TurnedAway(visitor.link.peer, "more visitors came than may wait at the door"))

    def step(self) -> list[Outcome]:
        """Serve every visitor as far as its bytes go; returns what became of those that are through."""
        outcomes: list[Outcome] = list(self._evicted)
        self._evicted.clear()
        now = self._clock.monotonic()
        for visitor in list(self._visitors):
            outcome: Outcome | None
            try:
                outcome = visitor.step(self._policy, now)
            except (NetworkError, OSError) as error:
                outcome = TurnedAway(visitor.link.peer, str(error))
            if outcome is None and now >= visitor.deadline:
                outcome = TurnedAway(visitor.link.peer, f"no key was proven within {HANDSHAKE_SECONDS:g} s")
            if outcome is not None:
                self._visitors.remove(visitor)
                outcomes.append(outcome)
                if isinstance(outcome, TurnedAway):
                    visitor.link.close()
        return outcomes

    def close(self) -> None:
        """Send everybody away."""
        for visitor in self._visitors:
            visitor.link.close()
        self._visitors.clear()


class _Visitor:
    """One connection before its proof."""

    def __init__(self, link: SocketLink, deadline: float, hello: bytes) -> None:
        self.link = link
        self.host = link.peer.rpartition(":")[0] if not link.peer.startswith("a ") else link.peer
        self.deadline = deadline
        self._reader = HelloReader()
        if hello:
            self._reader.feed(hello)
        self._handshake: ServerHandshake | None = None

    def step(self, policy: Policy, now: float) -> Outcome | None:
        """Read what is there and answer; None while more is needed. Never reads beyond the handshake."""
        while self._reader.need:
            data = self._read(self._reader.need)
            if data is None:
                return None
            self._reader.feed(data)
        if self._handshake is None:
            decision = policy(self._reader.hello)
            if isinstance(decision, PassOn):
                seconds, peer = self.deadline - now, self.link.peer
                return PassedOn(decision.job, self.link.detach(), self._reader.data, seconds, peer)
            if isinstance(decision, Hint):
                return self._turn_away(decision)
            self._handshake = self._serve(decision)
            try:
                self._put(self._handshake.feed(self._reader.data))
            except Refused as refusal:
                return self._turn_away(refusal.hint)
        while not self._handshake.done:
            data = self._read(self._handshake.need)
            if data is None:
                return None
            self._handshake.feed(data)
        return self._admit(self._handshake, self._reader.hello)

    def _serve(self, terms: Terms) -> ServerHandshake:
        caps = {"seal": not self.link.local, **terms.caps}
        return ServerHandshake(terms.admits, terms.role, terms.job, caps, binding=self.link.binding)

    def _read(self, size: int) -> bytes | None:
        """At most `size` bytes, None when none is there yet."""
        view = memoryview(bytearray(size))
        count = self.link.receive(view)
        if count == 0:
            raise OSError("it closed the connection before it proved a key")
        return None if count is None else bytes(view[:count])

    def _turn_away(self, hint: Hint) -> TurnedAway:
        self._put(bytes([hint]))
        return TurnedAway(self.link.peer, f"refused: {hint.name}")

    def _put(self, data: bytes) -> None:
        # a handshake message is smaller than any socket buffer, so it goes out in one piece or the visitor does not read
        if data and self.link.send([data]) != len(data):
            raise OSError("it does not take our answer")

    def _admit(self, handshake: ServerHandshake, hello: Hello) -> Arrived:
        session = Session(
            self.link,
            handshake.keys.server_key,
            handshake.keys.client_key,
            role=hello.role,
            sealed=bool(not self.link.local or hello.caps.get("seal")),
            is_server=True,
            caps=hello.caps,
        )
        session.send()
        return Arrived(session, hello)

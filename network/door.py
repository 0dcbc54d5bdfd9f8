"""The door: connections that have proven nothing yet. Bounded in number, size and time, so that no stranger can lock it.

A visitor has five seconds in all to say hello and prove a key. At most 64 visitors stand here, of whom at most 8 of one
address have not yet said hello; a newcomer pushes out the oldest, those without a hello first, so idlers cannot keep an honest
peer waiting, and many honest ones may come from one host at once. What becomes of a visitor is decided by a *policy* on its
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
    """How to serve a visitor: which keys admit which role, our role, the job it must ask for, what we tell about us, and which
    node has these keys, where it is one: that one is the peer of the session, whoever it claims to be."""

    admits: Mapping[str, Keyring]
    role: str
    job: str = ""
    caps: Mapping[str, Any] = {}
    node: int | None = None


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
        self._outcomes: list[Outcome] = []

    @property
    def links(self) -> list[SocketLink]:
        """What to poll for reading."""
        return [v.link for v in self._visitors]

    @property
    def deadline(self) -> float | None:
        """When the first visitor's time is up (monotonic), or None."""
        return min((v.deadline for v in self._visitors), default=None)

    def add(
        self,
        sock: socket.socket,
        *,
        hello: bytes = b"",
        seconds: float = HANDSHAKE_SECONDS,
        peer: str = "",
        terms: Terms | None = None,
    ) -> None:
        """Take in a fresh connection, or one whose `hello` was read elsewhere and that has `seconds` left; `terms` instead of
        those of the policy."""
        try:
            visitor = _Visitor(SocketLink(sock, peer), self._clock.monotonic() + seconds, hello, terms)
        except (OSError, NetworkError) as error:
            sock.close()
            self._outcomes.append(TurnedAway(peer or "a visitor", str(error)))
            return
        if len(self._silent(visitor.host)) >= MOST_PER_ADDRESS or len(self._visitors) >= MOST_VISITORS:
            self._advance()  # their hello may have arrived by now
        if len(silent := self._silent(visitor.host)) >= MOST_PER_ADDRESS:
            self._evict(silent[0])
        if len(self._visitors) >= MOST_VISITORS:
            self._evict(next((v for v in self._visitors if v.silent), self._visitors[0]))
        self._visitors.append(visitor)

    def _silent(self, host: str) -> list[_Visitor]:
        return [v for v in self._visitors if v.silent and v.host == host]

    def _evict(self, visitor: _Visitor) -> None:
        self._visitors.remove(visitor)
        visitor.link.close()
        self._outcomes.append(TurnedAway(visitor.link.peer, "more visitors came than may wait at the door"))

    def step(self) -> list[Outcome]:
        """Serve every visitor as far as its bytes go; returns what became of those that are through."""
        self._advance()
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def _advance(self) -> None:
        now = self._clock.monotonic()
        for visitor in list(self._visitors):
            outcome: Outcome | None
            try:
                outcome = visitor.step(self._policy, now, self._clock)
            except (NetworkError, OSError) as error:
                outcome = TurnedAway(visitor.link.peer, str(error))
            if outcome is None and now >= visitor.deadline:
                outcome = TurnedAway(visitor.link.peer, f"no key was proven within {HANDSHAKE_SECONDS:g} s")
            if outcome is not None:
                self._visitors.remove(visitor)
                self._outcomes.append(outcome)
                if isinstance(outcome, TurnedAway):
                    visitor.link.close()

    def close(self) -> None:
        """Send everybody away, also those whose outcome nobody has asked for; idempotent."""
        for visitor in self._visitors:
            visitor.link.close()
        for outcome in self._outcomes:
            if isinstance(outcome, Arrived):
                outcome.session.close()
            elif isinstance(outcome, PassedOn):
                outcome.sock.close()
        self._visitors.clear()
        self._outcomes.clear()


class _Visitor:
    """One connection before its proof."""

    def __init__(self, link: SocketLink, deadline: float, hello: bytes, terms: Terms | None) -> None:
        self.link = link
        self.host = link.peer.rpartition(":")[0] or link.peer
        self.deadline = deadline
        self._reader = HelloReader()
        self._reader.feed(hello)
        self._handshake: ServerHandshake | None = None
        self._terms = terms
        self._seal = not link.private
        self._read = len(hello)
        self._sent = 0

    @property
    def silent(self) -> bool:
        """Whether it has not said a whole hello yet."""
        return self._reader.need > 0

    def step(self, policy: Policy, now: float, clock: Clock) -> Outcome | None:
        """Read what is there and answer; None while more is needed. Never reads beyond the handshake."""
        while self._reader.need:
            data = self._receive(self._reader.need)
            if data is None:
                return None
            self._reader.feed(data)
        if self._handshake is None:
            decision = self._terms or policy(self._reader.hello)
            if isinstance(decision, PassOn):
                seconds, peer = self.deadline - now, self.link.peer
                return PassedOn(decision.job, self.link.detach(), self._reader.data, seconds, peer)
            if isinstance(decision, Hint):
                return self._turn_away(decision)
            self._terms, self._handshake = decision, self._serve(decision)
            try:
                self._put(self._handshake.feed(self._reader.data))
            except Refused as refusal:
                return self._turn_away(refusal.hint)
        while not self._handshake.done:
            data = self._receive(self._handshake.need)
            if data is None:
                return None
            self._handshake.feed(data)
        return self._admit(self._handshake, self._reader.hello, clock)

    def _serve(self, terms: Terms) -> ServerHandshake:
        self._seal = self._seal or bool(terms.caps.get("seal"))
        return ServerHandshake(
            terms.admits, terms.role, terms.job, {**terms.caps, "seal": self._seal}, binding=self.link.binding
        )

    def _receive(self, size: int) -> bytes | None:
        """At most `size` bytes, None when none is there yet."""
        view = memoryview(bytearray(size))
        count = self.link.receive(view)
        if count == 0:
            raise OSError("it closed the connection before it proved a key")
        self._read += count or 0
        return None if count is None else bytes(view[:count])

    def _turn_away(self, hint: Hint) -> TurnedAway:
        self._put(bytes([hint]))
        who = f" as node {self._terms.node}" if self._terms is not None and self._terms.node is not None else ""
        return TurnedAway(self.link.peer, f"refused{who}: {hint.name}")

    def _put(self, data: bytes) -> None:
        # a handshake message is smaller than any socket buffer, so it goes out in one piece or the visitor does not read
        if data and self.link.send([data]) != len(data):
            raise OSError("it does not take our answer")
        self._sent += len(data)

    def _admit(self, handshake: ServerHandshake, hello: Hello, clock: Clock) -> Arrived:
        session = Session(
            self.link,
            handshake.keys.server_key,
            handshake.keys.client_key,
            role=hello.role,
            sealed=self._seal or bool(hello.caps.get("seal")),
            is_server=True,
            node_id=None if self._terms is None else self._terms.node,
            caps=hello.caps,
            clock=clock,
        )
        session.bytes_sent, session.bytes_read = self._sent, self._read
        session.send()
        return Arrived(session, hello)

"""Acceptor of connections that have proven nothing yet. They are bounded in number, size and time, so that no stranger blocks
it.

A peer has five seconds in all to say hello and prove a key. At most 64 connections are pending, of which at most 8 of one
address without a hello; a new one evicts the oldest, those without a hello first, so idlers cannot keep an honest peer waiting,
and many honest ones may come from one host at once. A *policy* decides by the hello about a connection: accept it here with
some keys, forward it whole to a job process, or refuse it with a hint.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .clock import Clock, SystemClock
from .errors import NetworkError
from .handshake import HANDSHAKE_SECONDS, ServerHandshake
from .hello import Hello, HelloReader, Hint, Refused
from .keys import Keyring
from .session import Peer, Session
from .transport import SocketLink

MAX_PENDING = 64
MAX_PENDING_PER_ADDRESS = 8


class Accept(NamedTuple):
    """Decision to serve a peer here.

    Args:
        admits: role that may connect: the keys that admit it.
        role: our own role.
        job: the job that the peer must ask for, "" for none.
        caps: plain values that we tell about us in READY.
        node: id of the node that has these keys, where it is one. The peer of the session is this node, whichever id it claims.
    """

    admits: Mapping[str, Keyring]
    role: str
    job: str = ""
    caps: Mapping[str, Any] = {}
    node: int | None = None


class Forward(NamedTuple):
    """Decision to hand the connection to the job process `job`."""

    job: str


Policy = Callable[[Hello], Accept | Forward | Hint]


class Authenticated(NamedTuple):
    """Outcome: a peer proved its key. `session` is open, `hello` is its first message."""

    session: Session
    hello: Hello


class Forwarded(NamedTuple):
    """Outcome: a peer asked for a job process.

    Args:
        job: name of the job.
        sock: the connection.
        data: bytes that were read from it.
        seconds: time left to its handshake.
        peer: address of the peer, for people.
        hello: the message that `data` holds.
    """

    job: str
    sock: socket.socket
    data: bytes
    seconds: float
    peer: str
    hello: Hello


class Dropped(NamedTuple):
    """Outcome: the connection with `peer` was closed before its proof, for `reason`."""

    peer: str
    reason: str


Outcome = Authenticated | Forwarded | Dropped


class Acceptor:
    """Pending connections and their outcomes. Poll `links`, then call `step`; not thread-safe.

    Args:
        policy: decides by its hello about each connection.
        clock: measures the five seconds of a handshake; default: the system's.
    """

    def __init__(self, policy: Policy, clock: Clock | None = None) -> None:
        self._policy = policy
        self._clock = clock or SystemClock()
        self._pending: list[_PendingConnection] = []
        self._outcomes: list[Outcome] = []

    @property
    def links(self) -> list[SocketLink]:
        return [c.link for c in self._pending]

    @property
    def deadline(self) -> float | None:
        """End of the first connection's time (monotonic seconds), or None."""
        return min((c.deadline for c in self._pending), default=None)

    def add(
        self,
        sock: socket.socket,
        *,
        hello: bytes = b"",
        seconds: float = HANDSHAKE_SECONDS,
        peer: str = "",
        accept: Accept | None = None,
    ) -> None:
        """Take in a connection that has proven nothing.

        Args:
            sock: the connection, owned from now on.
            hello: bytes of its hello that were read elsewhere.
            seconds: time left to its handshake.
            peer: its address, for people; default: as the socket tells it.
            accept: decision in place of the policy's.
        """
        try:
            connection = _PendingConnection(SocketLink(sock, peer), self._clock.monotonic() + seconds, hello, accept)
        except (OSError, NetworkError) as error:
            sock.close()
            # told by the next `step`, as any other end: the caller has one place for all outcomes
            self._outcomes.append(Dropped(peer or "somebody", str(error)))
            return
        if len(self._silent(connection.host)) >= MAX_PENDING_PER_ADDRESS or len(self._pending) >= MAX_PENDING:
            self._advance()  # their hello may have arrived by now
        if len(silent := self._silent(connection.host)) >= MAX_PENDING_PER_ADDRESS:
            self._evict(silent[0])
        if len(self._pending) >= MAX_PENDING:
            # one that has said nothing yet first: a stranger's flood costs honest callers their place last
            self._evict(next((c for c in self._pending if c.silent), self._pending[0]))
        self._pending.append(connection)

    def _silent(self, host: str) -> list[_PendingConnection]:
        return [c for c in self._pending if c.silent and c.host == host]

    def _evict(self, connection: _PendingConnection) -> None:
        self._pending.remove(connection)
        connection.link.close()
        self._outcomes.append(Dropped(connection.link.peer, "too many connections wait for their handshake"))

    def step(self) -> list[Outcome]:
        """Serve every connection as far as its bytes go.

        Returns: outcomes of the connections that are through.
        """
        self._advance()
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def _advance(self) -> None:
        now = self._clock.monotonic()
        for connection in list(self._pending):
            outcome: Outcome | None
            try:
                outcome = connection.step(self._policy, now, self._clock)
            except (NetworkError, OSError) as error:
                outcome = Dropped(connection.link.peer, str(error))
            # after the step: a proof that lies in the socket by now counts, however late this loop comes round
            if outcome is None and now >= connection.deadline:
                outcome = Dropped(connection.link.peer, f"no key was proven within {HANDSHAKE_SECONDS:g} s")
            if outcome is not None:
                self._pending.remove(connection)
                self._outcomes.append(outcome)
                if isinstance(outcome, Dropped):
                    connection.link.close()

    def close(self) -> None:
        """Close all connections, those of outcomes that `step` has not returned, too; idempotent."""
        for connection in self._pending:
            connection.link.close()
        for outcome in self._outcomes:
            if isinstance(outcome, Authenticated):
                outcome.session.close()
            elif isinstance(outcome, Forwarded):
                outcome.sock.close()
        self._pending.clear()
        self._outcomes.clear()


class _PendingConnection:
    """One connection before its proof."""

    def __init__(self, link: SocketLink, deadline: float, hello: bytes, accept: Accept | None) -> None:
        self.link = link
        # addresses are counted without their port, of which a flood has as many as it likes
        self.host = link.peer.rpartition(":")[0] or link.peer
        self.deadline = deadline
        self._reader = HelloReader(link.private)
        self._reader.feed(hello)
        self._handshake: ServerHandshake | None = None
        self._accept = accept
        self._read = len(hello)
        self._sent = 0

    @property
    def silent(self) -> bool:
        return self._reader.need > 0

    def step(self, policy: Policy, now: float, clock: Clock) -> Outcome | None:
        """Read the bytes that are there and answer; None while more is needed. Never reads beyond the handshake."""
        try:
            return self._go_on(policy, now, clock)
        except Refused as refusal:  # by the parser of the hello, or by the handshake
            return self._turn_away(refusal.hint)

    def _go_on(self, policy: Policy, now: float, clock: Clock) -> Outcome | None:
        # never more than the HELLO: a job process reads on from the next byte, in the kernel
        while self._reader.need:
            data = self._receive(self._reader.need)
            if data is None:
                return None
            self._reader.feed(data)
        if self._handshake is None:
            hello = self._reader.hello
            decision = self._accept or policy(hello)
            # unproven: the job process has its own keys, and checks the proof itself
            if isinstance(decision, Forward):
                # the rest of its time goes along: a hand-over gives a stranger no more of it
                seconds, peer = self.deadline - now, self.link.peer
                return Forwarded(decision.job, self.link.detach(), self._reader.data, seconds, peer, hello)
            if isinstance(decision, Hint):
                return self._turn_away(decision)
            self._accept = decision
            self._handshake = ServerHandshake(decision.admits, decision.role, decision.job, binding=self.link.binding)
            self._put(self._handshake.feed(self._reader.data))
        while not self._handshake.done:
            data = self._receive(self._handshake.need)
            if data is None:
                return None
            self._handshake.feed(data)
        return self._admit(self._handshake, self._reader.hello, clock)

    def _receive(self, size: int) -> bytes | None:
        """Read at most `size` bytes, None when none is there yet."""
        view = memoryview(bytearray(size))
        count = self.link.receive(view)
        if count == 0:
            raise OSError("it closed the connection before it proved a key")
        self._read += count or 0
        return None if count is None else bytes(view[:count])

    def _turn_away(self, hint: Hint) -> Dropped:
        # one byte, unsealed: before its proof a stranger learns nothing else about this node
        self._put(bytes([hint]))
        who = f" as node {self._accept.node}" if self._accept is not None and self._accept.node is not None else ""
        return Dropped(self.link.peer, f"refused{who}: {hint.told}")

    def _put(self, data: bytes) -> None:
        # a handshake message is smaller than any socket buffer, so it goes out in one piece or the peer does not read
        if data and self.link.send([data]) != len(data):
            raise OSError("it does not take our answer")
        self._sent += len(data)

    def _admit(self, handshake: ServerHandshake, hello: Hello, clock: Clock) -> Authenticated:
        node, tells = (None, {}) if self._accept is None else (self._accept.node, self._accept.caps)
        # role and caps are in the MAC that the client has proven; `node` is that of the keys, not the one it claims
        peer = Peer(hello.role, node, hello.caps)
        session = Session(self.link, handshake.keys, peer, is_server=True, clock=clock, tells=tells)
        # accounts are exact to the byte, from the first one of the handshake on
        session.bytes_sent, session.bytes_read = self._sent, self._read
        # READY, by which the client sees that it was admitted
        session.send()
        return Authenticated(session, hello)

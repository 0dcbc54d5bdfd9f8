"""Opening sessions: connect, prove the key, wait for the first sealed frame; several at once, none beyond its limit."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .clock import Clock, SystemClock
from .errors import NetworkError, NotReached, PeerLost, ProtocolError, Rejected, TimedOut
from .handshake import ClientHandshake
from .hello import Caps, Refused
from .keys import Key
from .nodes import Address, is_loopback
from .records import check_library
from .session import Peer, Session
from .transport import SocketLink, resolve, trusted_unix_path, wait_sockets

CONNECT_SECONDS = 5.0
CANNOT_CONNECT = "cannot connect"
"""How the reason of a `PeerLost` begins where nothing answered at the address."""


class Target(NamedTuple):
    """Whom to call, as what, and with which key.

    `unix_path` is tried first where it is trustworthy.
    """

    address: Address
    key: Key
    role: str
    expect: str
    job: str = ""
    node_id: int | None = None
    caps: Caps | None = None
    unix_path: str = ""


def dial(target: Target, limit: float = CONNECT_SECONDS) -> Session:
    """Open one session within `limit` seconds.

    Raises: NetworkError (TimedOut, PeerLost, Rejected, ...) that names the address.
    """
    sessions, errors = dial_all({0: target}, limit)
    if errors:
        raise errors[0]
    return sessions[0]


def dial_all(
    targets: Mapping[int, Target],
    limit: float = CONNECT_SECONDS,
    clock: Clock | None = None,
    kind: Callable[[Mapping[int, Target], float, Clock], Dialing] | None = None,
) -> tuple[dict[int, Session], dict[int, NetworkError]]:
    """Open a session to every target at the same time; what fails is returned beside what works. `kind` may call again."""
    clock = clock or SystemClock()
    dialing = (kind or Dialing)(targets, limit, clock)
    try:
        while not dialing.is_over:
            wait_sockets(dialing.reading, dialing.writing, max(0.0, dialing.next_step - clock.monotonic()))
            dialing.step()
    except BaseException:
        for session in dialing.sessions.values():
            session.close()
        raise
    finally:
        dialing.close()
    return dialing.sessions, dialing.errors


def advised(error: NetworkError, address: Address) -> NetworkError:
    """The same error; for an address where nothing listens, with advice."""
    if not isinstance(error, PeerLost) or not error.reason.startswith(CANNOT_CONNECT):
        return error
    reason = error.reason[len(CANNOT_CONNECT) :].lstrip(": ")
    if reason != os.strerror(errno.ECONNREFUSED):
        advice = "Is the address right, and is there a way to it?"
    elif is_loopback(address.host):
        advice = f"Start one on this machine with 'psgd-worker --port {address.port}'."
    else:
        advice = f"Start one there with 'psgd-worker --listen 0.0.0.0 --port {address.port} --key-file FILE'."
    return NotReached(error.node_id, str(address), reason, advice)


class Dialing:
    """Connections to several targets while they are opened, for an event loop that has other connections, too.

    Poll what is `reading` and `writing`, then `step`, at `next_step` at the latest, until it `is_over`. `sessions` are open,
    and belong to the caller; `errors` tell why others are not. After `deadline` nobody is called any more.
    """

    def __init__(self, targets: Mapping[int, Target], limit: float, clock: Clock) -> None:
        self.sessions: dict[int, Session] = {}
        self.errors: dict[int, NetworkError] = {}
        self.deadline = clock.monotonic() + limit
        self._limit, self._clock = limit, clock
        self._attempts: dict[int, _Attempt] = {}
        try:
            for key, target in targets.items():
                self.call(key, target)
        except BaseException:
            self.close()
            raise

    def call(self, key: int, target: Target) -> None:
        """Call one target more, or again."""
        try:
            self._attempts[key] = _Attempt(target, max(0.05, self.deadline - self._clock.monotonic()), self._clock)
        except NetworkError as error:
            self._fail(key, error)

    def _fail(self, key: int, error: NetworkError) -> None:
        self.errors[key] = error

    @property
    def next_step(self) -> float:
        return self.deadline

    @property
    def is_over(self) -> bool:
        return not self._attempts

    @property
    def reading(self) -> list[socket.socket | SocketLink]:
        return [attempt.sock for attempt in self._attempts.values() if not attempt.connecting]

    @property
    def writing(self) -> list[socket.socket | SocketLink]:
        return [attempt.sock for attempt in self._attempts.values() if attempt.connecting]

    def step(self) -> None:
        for key, attempt in list(self._attempts.items()):
            try:
                session = attempt.step()
            except NetworkError as error:
                del self._attempts[key]
                self._fail(key, error)
            else:
                if session is not None:
                    self.sessions[key] = session
                    del self._attempts[key]
        if self._clock.monotonic() >= self.deadline:
            self.errors |= {key: TimedOut(f"{attempt.name} to answer", self._limit) for key, attempt in self._attempts.items()}
            self.close()

    def close(self) -> None:
        for attempt in self._attempts.values():
            attempt.close()
        self._attempts.clear()


class _Attempt:
    """One connection while it is opened."""

    def __init__(self, target: Target, limit: float, clock: Clock) -> None:
        self.target, self._clock = target, clock
        who = f"node {target.node_id} at " if target.node_id is not None else ""
        self.name = f"{who}{target.address}"
        self._routes: list[tuple[socket.AddressFamily, object]] = []
        if target.unix_path and trusted_unix_path(target.unix_path):
            self._routes.append((socket.AF_UNIX, target.unix_path))
        try:
            self._routes += resolve(target.address, limit)
        except NetworkError:
            if not self._routes:
                raise
        self._handshake: ClientHandshake | None = None
        self._session: Session | None = None
        self._sent = self._read = 0
        self.sock: socket.socket | SocketLink
        self._connect("it has no address that this system can use")

    def _connect(self, reason: str) -> None:
        """Begin to connect by the next route that lets us; PeerLost with `reason` of the last failure when none is left."""
        while self._routes:
            family, route = self._routes.pop(0)
            if family != socket.AF_UNIX:
                check_library()
            try:
                sock = socket.socket(family, socket.SOCK_STREAM)
            except OSError as error:  # no descriptor left, or a family that this system lacks
                reason = error.strerror or str(error)
                continue
            sock.setblocking(False)
            code = sock.connect_ex(route)  # type: ignore[arg-type]
            if code in (0, errno.EINPROGRESS):
                self.sock, self.connecting = sock, True
                return
            sock.close()
            reason = os.strerror(code)
        raise self._lost(f"{CANNOT_CONNECT}: {reason}")

    def step(self) -> Session | None:
        try:
            if self._handshake is None:
                self._on_connecting()
            if self._handshake is not None and self._session is None:
                self._on_handshake(self._handshake)
            if self._session is not None:
                return self._on_session(self._session)
        except NetworkError as error:
            self.close()
            raise self._named(error) from error
        except OSError as error:
            self.close()
            raise self._lost(error.strerror or str(error)) from error
        return None

    def _on_connecting(self) -> None:
        sock = self.sock
        if not isinstance(sock, socket.socket):
            return
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            sock.close()
            self._connect(os.strerror(code))
            return
        try:
            sock.getpeername()
        except OSError as error:
            if error.errno == errno.ENOTCONN:
                return  # still on its way
            raise
        link = SocketLink(sock, str(self.target.address))
        self.sock, self.connecting = link, False
        to = self.target
        self._handshake = ClientHandshake(to.key, to.role, to.expect, to.job, to.caps, binding=link.binding)
        self._put(self._handshake.start())

    def _put(self, data: bytes) -> None:
        # a handshake message is smaller than any socket buffer, so it goes out in one piece or the link is broken
        if data and self._link().send([data]) != len(data):
            raise self._lost("it does not take our handshake")
        self._sent += len(data)

    def _on_handshake(self, handshake: ClientHandshake) -> None:
        while not handshake.done:  # never more than the handshake needs: what follows belongs to the session
            view = memoryview(bytearray(handshake.need))
            count = self._link().receive(view)
            if count is None:
                return
            if count == 0:
                raise self._lost("it closed the connection during the handshake")
            self._read += count
            self._put(handshake.feed(bytes(view[:count])))
        link = self._link()
        peer = Peer(self.target.expect, self.target.node_id, handshake.peer_caps)
        self._session = Session(link, handshake.keys, peer, is_server=False, clock=self._clock)
        self._session.bytes_sent, self._session.bytes_read = self._sent, self._read

    def _on_session(self, session: Session) -> Session | None:
        session.receive()
        if session.confirm():
            return session
        if session.lost is not None:
            raise session.lost
        return None

    def _link(self) -> SocketLink:
        if isinstance(self.sock, SocketLink):
            return self.sock
        raise self._lost("it is not connected")

    def _lost(self, reason: str) -> PeerLost:
        return PeerLost(self.target.node_id, str(self.target.address), reason)

    def _named(self, error: NetworkError) -> NetworkError:
        """The same error, telling with whom: a handshake knows no address."""
        if isinstance(error, PeerLost):
            return error
        text = f"{self.name}: {error}"
        if isinstance(error, Refused):
            return Refused(error.hint, text)
        return ProtocolError(text) if isinstance(error, ProtocolError) else Rejected(text)

    def close(self) -> None:
        self.sock.close()

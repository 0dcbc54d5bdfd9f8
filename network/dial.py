"""Opening sessions: connect, prove the key, wait for the first sealed frame; several at once, none beyond its limit."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

from .clock import Clock, SystemClock
from .errors import NetworkError, PeerLost, ProtocolError, Rejected, TimedOut
from .handshake import ClientHandshake
from .keys import Key
from .nodes import Address
from .session import Session
from .sockets import SocketLink, resolve, trusted_unix_path, wait_sockets

CONNECT_SECONDS = 5.0


class Target(NamedTuple):
    """Whom to call, as what, and with which key. `unix_path` is tried first where it is trustworthy."""

    address: Address
    key: Key
    role: str
    expect: str
    job: str = ""
    node_id: int | None = None
    caps: dict[str, object] | None = None
    unix_path: str = ""


def dial(target: Target, limit: float = CONNECT_SECONDS, clock: Clock | None = None) -> Session:
    """Open one session within `limit` seconds.

    Raises: NetworkError (TimedOut, PeerLost, Rejected, ...) that names the address.
    """
    sessions, errors = dial_all({0: target}, limit, clock)
    if errors:
        raise errors[0]
    return sessions[0]


def dial_all(
    targets: Mapping[int, Target], limit: float = CONNECT_SECONDS, clock: Clock | None = None
) -> tuple[dict[int, Session], dict[int, NetworkError]]:
    """Open a session to every target at the same time; what fails is returned beside what works."""
    clock = clock or SystemClock()
    deadline = clock.monotonic() + limit
    sessions: dict[int, Session] = {}
    errors: dict[int, NetworkError] = {}
    calls: dict[int, _Call] = {}
    for key, target in targets.items():
        try:
            calls[key] = _Call(target, max(0.05, deadline - clock.monotonic()))
        except NetworkError as error:
            errors[key] = error
    while calls:
        for key, call in list(calls.items()):
            try:
                session = call.step()
            except NetworkError as error:
                errors[key] = error
            else:
                if session is None:
                    continue
                sessions[key] = session
            del calls[key]
        left = deadline - clock.monotonic()
        if left <= 0:
            for key, call in calls.items():
                call.close()
                errors[key] = TimedOut(f"{call.name} to answer", limit)
            break
        if calls:
            wait_sockets([c.sock for c in calls.values() if not c.writing], [c.sock for c in calls.values() if c.writing], left)
    return sessions, errors


class _Call:
    """One connection on its way."""

    def __init__(self, target: Target, limit: float) -> None:
        self.target = target
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
        self._connect()

    def _connect(self) -> None:
        family, route = self._routes.pop(0)
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        self.sock: socket.socket | SocketLink = sock
        self.writing = True
        code = sock.connect_ex(route)  # type: ignore[arg-type]
        if code not in (0, errno.EINPROGRESS):
            self._try_next(code)

    def _try_next(self, code: int) -> None:
        self.sock.close()
        if not self._routes:
            raise PeerLost(self.target.node_id, str(self.target.address), f"cannot connect: {os.strerror(code)}")
        self._connect()

    def step(self) -> Session | None:
        """Go as far as the socket lets us; the session once it is confirmed."""
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
            self._try_next(code)
            return
        try:
            sock.getpeername()
        except OSError as error:
            if error.errno == errno.ENOTCONN:
                return  # still on its way
            raise
        link = SocketLink(sock, str(self.target.address))
        self.sock, self.writing = link, False
        caps: dict[str, Any] = {"seal": not link.local, **(self.target.caps or {})}
        self._handshake = ClientHandshake(
            self.target.key, self.target.role, self.target.expect, self.target.job, caps=caps, binding=link.binding
        )
        self._put(self._handshake.start())

    def _put(self, data: bytes) -> None:
        # a handshake message is smaller than any socket buffer, so it goes out in one piece or the link is broken
        if data and self._link().send([data]) != len(data):
            raise self._lost("it does not take our handshake")

    def _on_handshake(self, handshake: ClientHandshake) -> None:
        while not handshake.done:  # never more than the handshake needs: what follows belongs to the session
            view = memoryview(bytearray(handshake.need))
            count = self._link().receive(view)
            if count is None:
                return
            if count == 0:
                raise self._lost("it closed the connection during the handshake")
            self._put(handshake.feed(bytes(view[:count])))
        link, keys = self._link(), handshake.keys
        self._session = Session(
            link,
            keys.client_key,
            keys.server_key,
            role=self.target.expect,
            sealed=bool(not link.local or handshake.peer_caps.get("seal")),
            is_server=False,
            node_id=self.target.node_id,
            caps=handshake.peer_caps,
        )

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
        if self.target.address.host in str(error):
            return error
        kind = ProtocolError if isinstance(error, ProtocolError) else Rejected
        return kind(f"{self.name}: {error}")

    def close(self) -> None:
        """Give up."""
        self.sock.close()

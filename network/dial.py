"""Dialing of sessions: connect, prove the key, wait for the first sealed frame; several at once, none beyond its limit."""

from __future__ import annotations

import errno
import math
import os
import shlex
import socket
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from .clock import Clock, SystemClock
from .errors import NetworkError, NotReached, PeerLost, ProtocolError, Rejected, TimedOut
from .handshake import ClientHandshake
from .hello import Caps, Hint, Refused
from .keys import Key
from .nodes import Address, is_loopback
from .records import check_library
from .session import Peer, Session
from .transport import SocketLink, resolve, trusted_unix_path, wait_sockets

CONNECT_SECONDS = 5.0
NEXT_ADDRESS_SECONDS = 0.25
"""After so long without an answer the next address of a name is tried, too; the first that answers counts (RFC 8305)."""


class CannotConnect(PeerLost):
    """Error: no address of a host has taken a connection.

    Attributes: `refused`, the families of those addresses where nothing listens; else as PeerLost.

    Args:
        target: the target that was called.
        reason: why no address has taken it.
        refused: see above.
    """

    def __init__(self, target: Target, reason: str, refused: Collection[int]) -> None:
        super().__init__(target.node_id, str(target.address), f"cannot connect: {reason}")
        self.why, self.refused = reason, frozenset(refused)


class Target(NamedTuple):
    """Address to call, with the key to prove.

    Args:
        address: host and port.
        key: proven in the handshake.
        role: our own role.
        expect: role that the server must have.
        job: job process to reach, "" for the agent itself.
        node_id: id of the node there, for errors.
        caps: plain values that we tell about us.
        unix_path: socket of the same server, tried first where it is trustworthy.
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
    """Open one session with `target` within `limit` seconds.

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
    """Open a session to every target at the same time.

    Args:
        targets: key of the caller's choice: target.
        limit: seconds for all of them.
        clock: measures the limit.
        kind: makes the `Dialing`; another one than that may call again.

    Returns: sessions that are open, and errors of those that failed, by the targets' keys.
    """
    clock = clock or SystemClock()
    dialing = (kind or Dialing)(targets, limit, clock)
    try:
        while not dialing.is_over:
            wait_sockets(dialing.reading, dialing.writing, max(0.0, dialing.next_step - clock.monotonic()))
            dialing.step()
    # Ctrl-C, too: no owner knows these sessions yet
    except BaseException:
        for session in dialing.sessions.values():
            session.close()
        raise
    finally:
        dialing.close()
    return dialing.sessions, dialing.errors


def advised(
    error: NetworkError,
    address: Address,
    key_file: str | os.PathLike[str] | None = None,
    origin: str | None = None,
) -> NetworkError:
    """Return the error itself, or one with advice: for an address where nothing listens, and for a key that is refused.

    Args:
        error: why no session was opened.
        address: the address that was called.
        key_file: where the key is from, None for where an agent without options looks, too.
        origin: the same in words, None where it is unknown.
    """
    if isinstance(error, Refused) and error.hint == Hint.BAD_KEY and origin is not None:
        return Refused(error.hint, f"{error} That key is from {origin}; 'key_file' names another.")
    if not isinstance(error, CannotConnect):
        return error
    if not error.refused:
        advice = "Is the address right, and is there a way to it?"
    elif is_loopback(address.host):
        key = "" if key_file is None else f" --key-file {shlex.quote(os.fspath(key_file))}"
        advice = f"Start one on this machine with 'psgd worker --port {address.port}{key}'."
    else:
        anywhere = "::" if socket.AF_INET6 in error.refused else "0.0.0.0"  # noqa: S104  said, not bound
        advice = f"Start one there with 'psgd worker --listen {anywhere} --port {address.port} --key-file FILE'."
    return NotReached(error.node_id, str(address), error.why, advice)


class Dialing:
    """Connections to several targets while they are opened, for an event loop that has other connections, too.

    Poll the links in `reading` and `writing`, then `step`, at `next_step` at the latest, until it `is_over`. `sessions` are
    open, and belong to the caller; `errors` tell why others are not. No target is called after `deadline`.

    Args:
        targets: key of the caller's choice: target.
        limit: seconds from now to `deadline`.
        clock: measures them.
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
        """Call one more target, or the same again, under `key`."""
        try:
            # at least 50 ms, for a name server: a call at the last moment ends by `deadline` anyway
            self._attempts[key] = _Attempt(target, max(0.05, self.deadline - self._clock.monotonic()), self._clock)
        except NetworkError as error:
            self._fail(key, error)

    def _fail(self, key: int, error: NetworkError) -> None:
        self.errors[key] = error

    @property
    def next_step(self) -> float:
        """Time at which to call `step` though no socket is ready (monotonic seconds)."""
        return min([self.deadline, *(attempt.next_step for attempt in self._attempts.values())])

    @property
    def is_over(self) -> bool:
        return not self._attempts

    @property
    def reading(self) -> list[socket.socket | SocketLink]:
        return [attempt.link for attempt in self._attempts.values() if attempt.link is not None]

    @property
    def writing(self) -> list[socket.socket | SocketLink]:
        return [sock for attempt in self._attempts.values() for sock in attempt.connecting]

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
            # all at once: the limit is that of the whole dialing, and not of each target
            self.errors |= {key: TimedOut(f"{attempt.name} to answer", self._limit) for key, attempt in self._attempts.items()}
            self.close()

    def close(self) -> None:
        for attempt in self._attempts.values():
            attempt.close()
        self._attempts.clear()


class _Attempt:
    """Connection while it is opened: sockets on their way to the addresses of a host, then the link of the first to arrive.

    `connecting` are those sockets; `next_step` is when the next address is tried beside them.
    """

    def __init__(self, target: Target, limit: float, clock: Clock) -> None:
        self.target, self._clock = target, clock
        who = f"node {target.node_id} at " if target.node_id is not None else ""
        self.name = f"{who}{target.address}"
        self._routes: deque[tuple[socket.AddressFamily, object]] = deque()
        # first: faster than TCP and private, but only where no other user can have put a socket there
        if target.unix_path and trusted_unix_path(target.unix_path):
            self._routes.append((socket.AF_UNIX, target.unix_path))
        try:
            self._routes += resolve(target.address, limit)
        # the socket of this host needs no name
        except NetworkError:
            if not self._routes:
                raise
        self._handshake: ClientHandshake | None = None
        self._session: Session | None = None
        self._sent = self._read = 0
        self._calls_itself = False
        self._why, self._refused = "it has no address that this system can use", set[int]()
        self.connecting: list[socket.socket] = []
        self.link: SocketLink | None = None
        self.next_step = math.inf
        self._call_next()

    def _call_next(self) -> None:
        """Begin to connect to the next address that lets us.

        Raises: CannotConnect when none is left and none is on its way.
        """
        self.next_step = math.inf
        while self._routes:
            family, route = self._routes.popleft()
            # before the connection stands: the error names the package, and no peer sees a caller that goes away
            if family != socket.AF_UNIX:
                check_library()
            try:
                sock = socket.socket(family, socket.SOCK_STREAM)
            except OSError as error:  # no descriptor left, or a family that this system lacks
                self._note(family, error.errno or 0, error.strerror or str(error))
                continue
            # before connecting: the caller's loop has other connections
            sock.setblocking(False)
            code = sock.connect_ex(route)  # type: ignore[arg-type]
            if code in (0, errno.EINPROGRESS):
                self.connecting.append(sock)
                # both families of a name are called: where one of them leads nowhere, its time-out would pass before the other
                # is tried
                if self._routes:
                    self.next_step = self._clock.monotonic() + NEXT_ADDRESS_SECONDS
                return
            sock.close()
            self._note(family, code)
        if not self.connecting:
            raise CannotConnect(self.target, self._why, self._refused)

    def _note(self, family: int, code: int, why: str = "") -> None:
        """Keep why an address took no connection; that nothing listens says more than that there is no way."""
        if family != socket.AF_UNIX and code == errno.ECONNREFUSED:
            self._refused.add(family)
        if not self._refused or code == errno.ECONNREFUSED:
            self._why = why or os.strerror(code)

    def step(self) -> Session | None:
        try:
            if self.link is None:
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
        for sock in list(self.connecting):
            # a socket that polls as writable has connected or failed: the kernel says which
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not code:
                # without an error it may also be on its way: only a connected socket has a peer
                try:
                    sock.getpeername()
                except OSError as error:
                    if error.errno == errno.ENOTCONN:
                        continue  # still on its way
                    raise
                self._greet(sock)
                return
            self.connecting.remove(sock)
            sock.close()
            self._note(sock.family, code)
        if not self.connecting or self._clock.monotonic() >= self.next_step:
            self._call_next()

    def _greet(self, sock: socket.socket) -> None:
        """Go on with the address that answered first, and with it alone."""
        self.connecting.remove(sock)
        for other in self.connecting:
            other.close()
        self.connecting.clear()
        self.next_step = math.inf
        # asked of the socket: Debian's hosts file, for one, leads a machine's own name to 127.0.1.1
        self._calls_itself = sock.family != socket.AF_UNIX and is_loopback(str(sock.getpeername()[0]))
        try:
            self.link = SocketLink(sock, str(self.target.address))
        except BaseException:
            sock.close()
            raise
        to = self.target
        # the link is known by now, and with it whether there is anything to encrypt
        self._handshake = ClientHandshake(to.key, to.role, to.expect, to.job, to.caps, binding=self.link.binding)
        self._put(self._handshake.start())

    def _put(self, data: bytes) -> None:
        # a handshake message is smaller than any socket buffer, so it goes out in one piece or the link is broken
        if data and self._link().send([data]) != len(data):
            raise self._lost("it does not take our handshake")
        self._sent += len(data)

    def _on_handshake(self, handshake: ClientHandshake) -> None:
        while not handshake.done:  # never more than the handshake needs: later bytes belong to the session
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
        # what the handshake took counts for the session: accounts are exact to the byte
        self._session.bytes_sent, self._session.bytes_read = self._sent, self._read

    def _on_session(self, session: Session) -> Session | None:
        session.receive()
        if session.confirm():
            return session
        if session.lost is not None:
            raise session.lost
        return None

    def _link(self) -> SocketLink:
        if self.link is None:
            raise self._lost("it is not connected")
        return self.link

    def _lost(self, reason: str) -> PeerLost:
        return PeerLost(self.target.node_id, str(self.target.address), reason)

    def _named(self, error: NetworkError) -> NetworkError:
        """Name the peer in an error of its handshake, which knows no address."""
        if isinstance(error, PeerLost):
            return error
        text = f"{self.name}: {error}"
        if isinstance(error, Refused):
            # an agent has answered, but our own: that of the other machine was never reached
            if error.hint == Hint.NO_SUCH_JOB and self._calls_itself and not is_loopback(self.target.address.host):
                host = self.target.address.host
                text += f" Here, on {socket.gethostname()}, {host} means this machine itself: if it is another one, "
                text += "name it by an address that means the same on all machines."
            return Refused(error.hint, text)
        return ProtocolError(text) if isinstance(error, ProtocolError) else Rejected(text)

    def close(self) -> None:
        for sock in self.connecting:
            sock.close()
        if self.link is not None:
            self.link.close()

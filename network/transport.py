"""Links: the byte streams below sessions, of any carrier, and the TCP and Unix sockets among these.

A link never blocks: `send` takes as much as fits, `receive` gives the bytes that are there. To wait is the job of the
transport's *waiter*, because only it knows how its links wait: poll for sockets, a condition for links in memory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pwd
import select
import socket
import stat
import struct
import sys
import termios
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Protocol

from .errors import NetworkError, TimedOut
from .nodes import Address, is_ip
from .records import check_library


class Link(ABC):
    """Link, an end of a byte stream (TCP, Unix socket, shared memory) over which a `Session` runs.

    To add a kind: a class with these methods in a module of this package with an `__all__`; `python -m
    tests.house.architecture` writes its first line into docs/architecture.md. A pair of it goes into `WIRES` of
    `tests/network/wires.py`. Tests demand both. Without a `binding` its sessions are always sealed. `wait_sockets` waits for
    one with a `fileno()` that polls in both directions. Any other brings its own waiter, the `wait` of a `Controller`; that
    takes plain sockets, too, by which other threads wake the controller. The keys of a session come from the machines of
    `handshake`, which `dial` and `acceptor` run over sockets. The listening sockets, and the path that peers of the host are
    told, are `rpc.agent.agent`'s; the choice of the one to call is `dial`'s.
    """

    peer: str  # address of the other end, for people
    transport: str  # the kind of link in accounts: "tcp", "unix", or a name of its own
    binding: bytes = b""  # names a link between whose ends no third process can stand: the handshake ties its keys to that

    @property
    def private(self) -> bool:
        """Whether no party can stand between its ends: in memory, or on a Unix socket whose other end the kernel names.

        It never depends on the other end's words. Only elsewhere handshakes have shares, and frames are sealed.
        """
        return bool(self.binding)

    @abstractmethod
    def send(self, buffers: Sequence[bytes | memoryview]) -> int:
        """Take as many bytes from the front of `buffers` as there is room for; returns how many, 0 when the stream is full.

        Raises: OSError when the stream has ended.
        """

    @abstractmethod
    def receive(self, buffer: memoryview) -> int | None:
        """Fill `buffer` with the bytes that are there; returns how many, 0 at the end of the stream, None when none has come.

        Raises: OSError when the stream has broken.
        """

    @abstractmethod
    def finish(self) -> None:
        """Tell the other side that nothing more will be sent; receiving goes on."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the stream; idempotent."""


class Waiter(Protocol):
    """Function that waits for links, `timeout` seconds at most.

    It waits until one of `reading` has bytes or an end, or one of `writing` takes bytes.
    """

    def __call__(self, reading: Sequence[Link], writing: Sequence[Link], timeout: float | None) -> Collection[object] | None:
        """Return at the first event the links for which there is one; None where all are to be tried."""


NAME_SECONDS = 5.0
"""For a name server to tell the addresses on which to listen."""
UNIX_BUFFER = 1 << 20  # bytes; TCP sizes its buffers by itself, and better
MAX_UNIX_PATH = 107  # bytes: the system's address has 108, a zero at the end included
ANYWHERE = "::"
"""Listening here, one socket serves all addresses of this machine, those of IPv4, too."""
_IPV4_BY_IPV6 = "::ffff:"  # before an IPv4 address, of a peer that calls over IPv4 where that is listened on
_LISTENS = "0A"  # the state of a socket in /proc/net/tcp
_INFO_BYTES, _RETRANSMITS = 8, 2  # of `struct tcp_info`, and the byte that says how often the oldest bytes were sent again
_SENT_AGAIN = 3  # times, within two seconds or so
_BACKLOG = 1024  # connections that wait to be accepted
_MAX_BUFFERS = 64  # per sendmsg; Linux allows 1024, but gathering more at once gains nothing


class PortRefused(NetworkError):
    """Error: the system does not give us this port. `reason` tells why, as a clause with the port as its subject.

    Args:
        address: the address on which to listen.
        reason: see above.
        repair: a sentence that names the option.
    """

    def __init__(self, address: Address, reason: str, repair: str) -> None:
        super().__init__(f"Port {address.port} on {address.host} {reason}. {repair}")
        self.reason = reason


class PortInUse(PortRefused):
    """Error: another process listens on this port. `holder` names it, as far as the system tells us."""

    def __init__(self, address: Address) -> None:
        self.holder = _holder(address)
        repair = "If it is another worker, choose another port with --port, or 0 for a free one."
        super().__init__(address, f"is in use, by {self.holder}", repair)


class SocketLink(Link):
    """Connected TCP or Unix socket, owned from now on.

    Args:
        sock: the socket.
        peer: address of the other end, for people; default: as the socket tells it.
    """

    def __init__(self, sock: socket.socket, peer: str = "") -> None:
        sock.setblocking(False)
        if sock.family == socket.AF_UNIX:
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                # a large array crosses in fewer turns of the two processes than with the kernel's 208 KiB
                sock.setsockopt(socket.SOL_SOCKET, option, UNIX_BUFFER)
            self.peer, self.transport = peer or "a process of this host", "unix"
            self.binding = b"unix uid %d" % _peer_uid(sock)  # in a folder that only we can enter: see `trusted_unix_path`
        else:
            # messages are small and answered at once: Nagle's wait for an acknowledgement would cost 40 ms each
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # a peer whose machine was switched off says nothing: the kernel asks, in hours, should nothing else do so
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            host, port = sock.getpeername()[:2]
            self.transport = "tcp"
            self.peer = peer or str(
                Address(host.removeprefix(_IPV4_BY_IPV6), port)
            )  # the owner of the port that was called may lead the bytes on
        self._socket: socket.socket | None = sock

    def fileno(self) -> int:
        return -1 if self._socket is None else self._socket.fileno()

    def _open(self) -> socket.socket:
        if self._socket is None:
            raise OSError(errno.EBADF, "the connection is closed")
        return self._socket

    def send(self, buffers: Sequence[bytes | memoryview]) -> int:
        try:
            return (self._socket or self._open()).sendmsg(buffers[:_MAX_BUFFERS])
        except (BlockingIOError, InterruptedError):
            return 0

    def receive(self, buffer: memoryview) -> int | None:
        try:
            return (self._socket or self._open()).recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return None

    def finish(self) -> None:
        try:
            self._open().shutdown(socket.SHUT_WR)
        except OSError as error:
            # the peer was faster, or we were: nothing is left to be told
            if error.errno not in (errno.ENOTCONN, errno.EBADF):
                raise

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def unacknowledged(self) -> int:
        """Number of bytes that TCP has sent again and again, and the other end's kernel has not got; 0 where that cannot be
        known.

        A peer that does not read is no such case: its kernel says that it has no room.
        """
        sock = self._socket
        if sock is None or sock.family == socket.AF_UNIX or sys.platform != "linux":
            return 0
        try:
            # bytes that were sent once may be on their way on a slow link; after three times the path or the machine is gone
            sent_again = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)[_RETRANSMITS]
            (waiting,) = struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))
        except OSError:
            return 0
        return int(waiting) if sent_again >= _SENT_AGAIN else 0

    def detach(self) -> socket.socket:
        """Give the socket away; the link is closed without closing it."""
        sock = self._open()
        self._socket = None
        return sock


def _peer_uid(sock: socket.socket) -> int:
    """Return the user at the other end of a Unix socket, as the kernel says.

    Raises: NetworkError when it is another user than ours.
    """
    if hasattr(socket, "SO_PEERCRED"):
        _pid, uid, _gid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    else:  # macOS: struct xucred begins with version and uid; SOL_LOCAL is 0, LOCAL_PEERCRED is 1
        _version, uid = struct.unpack("2I", sock.getsockopt(0, 1, 8))
    if uid != os.getuid():
        raise NetworkError(f"The process at the other end of a Unix socket belongs to user {uid}, not to us.")
    return int(uid)


def wait_sockets(
    reading: Sequence[SocketLink | socket.socket], writing: Sequence[SocketLink | socket.socket], timeout: float | None
) -> set[object]:
    """Wait for socket links now and then; plain sockets (a waker, say) may be among them.

    Args:
        reading: those from which bytes or the end are awaited.
        writing: those that shall take bytes.
        timeout: seconds; None waits for ever.

    Returns: the links for which there is an event.
    """
    return _KnownLinks().wait(reading, writing, timeout)


def poll_again() -> Waiter:
    """Make a waiter of socket links for one thread that waits again and again, most often for the same links."""
    return _KnownLinks().wait  # type: ignore[return-value]


def busy_poll(seconds: float) -> Waiter:
    """Make a waiter as `poll_again` does, which polls again and again for so many seconds before it sleeps.

    A core that has nothing to do sleeps deeply, and takes tens of microseconds to wake up when a byte comes: longer than a
    worker waits for the others, if all have a core of their own. Where they share cores it takes time from those that work.
    """

    known = _KnownLinks()

    def wait(
        reading: Sequence[SocketLink | socket.socket], writing: Sequence[SocketLink | socket.socket], timeout: float | None
    ) -> set[object]:
        poll, owners = known.poll(reading, writing)
        end = time.perf_counter() + (seconds if timeout is None else min(seconds, timeout))
        while not (found := poll.poll(0)):
            if time.perf_counter() >= end:
                found = poll.poll(_milliseconds(timeout))
                break
        return {owners[descriptor] for descriptor, _ in found}

    return wait  # type: ignore[return-value]


def _milliseconds(timeout: float | None) -> float | None:
    return None if timeout is None else max(0.0, timeout) * 1000


class _KnownLinks:
    """Links registered with `select.poll`, for as long as they stay the same: to register one costs more than to poll it."""

    def __init__(self) -> None:
        self._known: tuple[int, list[Any], list[int]] | None = None
        self._poll, self._owners = select.poll(), dict[int, Any]()

    def poll(
        self, reading: Sequence[SocketLink | socket.socket], writing: Sequence[SocketLink | socket.socket]
    ) -> tuple[select.poll, dict[int, Any]]:
        """Return the poll object that waits for all of them, and the owner of each descriptor; closed links do not count."""
        links = [*reading, *writing]
        # descriptors, too: a link that has been closed keeps its object, and its number may be another's by now
        known = len(reading), links, [link.fileno() for link in links]
        if known != self._known:
            self._known, self._poll, self._owners = known, select.poll(), {}
            events: dict[int, int] = {}
            for place, (link, descriptor) in enumerate(zip(links, known[2], strict=True)):
                # closed links have -1
                if descriptor >= 0:
                    events[descriptor] = events.get(descriptor, 0) | (select.POLLIN if place < len(reading) else select.POLLOUT)
                    self._owners[descriptor] = link
            for descriptor, event in events.items():
                self._poll.register(descriptor, event)
        return self._poll, self._owners

    def wait(
        self,
        reading: Sequence[SocketLink | socket.socket],
        writing: Sequence[SocketLink | socket.socket],
        timeout: float | None,
    ) -> set[object]:
        """Wait for the first event, for `timeout` seconds at most; None waits for ever."""
        poll, owners = self.poll(reading, writing)
        return {owners[descriptor] for descriptor, _ in poll.poll(_milliseconds(timeout))}


def resolve(address: Address, limit: float) -> list[tuple[socket.AddressFamily, tuple[object, ...]]]:
    """List the socket addresses of `address`, in the order to try; a name server gets `limit` seconds.

    Raises: NetworkError naming the host that is unknown, TimedOut.
    """
    found: list[tuple[socket.AddressFamily, tuple[object, ...]]] = []
    problem: list[str] = []

    def look_up() -> None:
        try:
            # as bytes: for a text Python imports its tables of international names, which an address has none of
            host = address.host.encode("ascii") if is_ip(address.host) else address.host
            infos = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM)
            found.extend((family, sockaddr) for family, _, _, _, sockaddr in infos)
        except (OSError, UnicodeError) as error:  # UnicodeError: a label that is empty or too long
            problem.append(getattr(error, "strerror", None) or str(error))

    if is_ip(address.host):
        look_up()
    else:  # getaddrinfo has no time limit of its own
        thread = threading.Thread(target=look_up, name=f"resolve {address.host}", daemon=True)
        thread.start()
        thread.join(limit)
        # it is a daemon: it may hang in the resolver for minutes, and must not keep the process from ending
        if thread.is_alive():
            raise TimedOut(f"the name server to resolve {address.host}", limit)
    if problem or not found:
        reason = problem[0] if problem else "no address"
        raise NetworkError(f"The host name in {address} cannot be resolved: {reason}.")
    return found


def listen_tcp(address: Address) -> socket.socket:
    """Open a listening, non-blocking TCP socket; port 0 picks a free one. On `::` it serves IPv4, too, elsewhere one family.

    Raises: NetworkError naming the address; PortRefused, which names the repair; NetworkError where nothing could be encrypted.
    """
    # at the start of an agent, not when its first caller comes
    check_library()
    family, sockaddr = resolve(address, NAME_SECONDS)[0]
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:  # a family that this system lacks
        instead = " For all addresses of IPv4 say 0.0.0.0." if address.host == ANYWHERE else ""
        raise NetworkError(f"Cannot listen on {address}: {error.strerror}.{instead}") from error
    try:
        # an agent that is started again must not wait for the connections of its predecessor to time out
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # systems differ in their default
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address.host != ANYWHERE)
        sock.bind(sockaddr)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(address) from error
        if error.errno in (errno.EACCES, errno.EPERM):
            repair = "Choose another port with --port, or 0 for a free one."
            raise PortRefused(address, f"is refused to this user: {error.strerror}", repair) from error
        raise NetworkError(f"Cannot listen on {address}: {error.strerror}.") from error
    sock.setblocking(False)
    return sock


def _holder(address: Address) -> str:
    """Name the listener on a port of this host. Linux tells the user, and the process where we may look at it."""
    # a socket on :: serves IPv4, too, and is listed with IPv6
    for table in ("tcp6", "tcp") if ":" in address.host else ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if int(fields[1].rpartition(":")[2], 16) == address.port and fields[3] == _LISTENS:
                return f"{_process_with(fields[9])} of user {_user_name(int(fields[7]))}"
    return "another process"


def _process_with(inode: str) -> str:
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):  # of another user, or gone
            if os.readlink(link) == f"socket:[{inode}]":
                process = link.parents[1]
                return f"process {process.name} ({(process / 'comm').read_text('utf-8', 'replace').strip()!r})"
    return "a process"


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def listen_unix(path: Path) -> socket.socket:
    """Open a listening, non-blocking Unix socket at `path`, mode 0600; a stale one of ours is replaced.

    Raises: NetworkError when the path is too long for the system or cannot be used.
    """
    if len(os.fsencode(path)) > MAX_UNIX_PATH:
        raise NetworkError(f"The path of a Unix socket may have {MAX_UNIX_PATH} bytes, got {path}.")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        sock.bind(str(path))
        # before `listen`: until then nobody can connect, whatever the umask allows
        path.chmod(0o600)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise NetworkError(f"Cannot listen on {path}: {error.strerror}.") from error
    sock.setblocking(False)
    return sock


def trusted_unix_path(path: str) -> bool:
    """Tell if `path` is a socket of ours in a directory that only we can enter, so that no other user can be behind it."""
    try:
        # lstat: a symbolic link may lead to a folder that others can enter
        entry, folder = os.lstat(path), os.lstat(os.path.dirname(path))
    except OSError:
        return False
    ours = entry.st_uid == os.getuid() == folder.st_uid
    private = stat.S_ISDIR(folder.st_mode) and not folder.st_mode & 0o077
    return ours and private and stat.S_ISSOCK(entry.st_mode) and len(os.fsencode(path)) <= MAX_UNIX_PATH


class Waker:
    """Waker of a thread that waits for sockets: `wake`, from any thread or signal handler, makes `sock` readable until
    `clear`.
    """

    def __init__(self) -> None:
        self._wake_end, self.sock = socket.socketpair()
        # a signal handler must never wait; a full buffer means that the thread will wake anyway
        self._wake_end.setblocking(False)
        self.sock.setblocking(False)

    def wake(self) -> None:
        """Wake the thread that waits for `sock`, now or the next time."""
        with contextlib.suppress(OSError):  # it is awake already, or closed
            self._wake_end.send(b"!")

    def clear(self) -> None:
        """Forget all calls of `wake` so far."""
        with contextlib.suppress(OSError):  # no thread woke it, or it is closed
            self.sock.recv(1024)

    def close(self) -> None:
        self._wake_end.close()
        self.sock.close()

"""What the tests of this package are built from: connected links of every kind, sessions."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from network.keys import SessionKeys
from network.records import AES, Confirmation, Sealer
from network.session import Peer, Session
from network.transport import Link, SocketLink, wait_sockets
from network.wire import TAG_SIZE, Limits, Packed

KEYS = SessionKeys(b"s" * 32, b"c" * 32, AES)
PRIVATE_KEYS = SessionKeys(b"s" * 32, b"c" * 32, "")  # of a link on which only READY is confirmed
MEMORY_BYTES = 1 << 20


def keys_for(sealed: bool) -> SessionKeys:
    """Those of a session whose frames are sealed, or not."""
    return KEYS if sealed else PRIVATE_KEYS


class Wire(NamedTuple):
    """Two connected links and what waits for them."""

    left: Link
    right: Link
    wait: Any


class MemoryLink(Link):
    """One end of two bounded buffers in this process, for one thread: a link that the system knows nothing of."""

    transport = "buffers"

    def __init__(self, outgoing: Buffer, incoming: Buffer, peer: str) -> None:
        self.peer, self.binding = peer, b"memory"
        self._out, self._in = outgoing, incoming
        self._closed = False

    def send(self, buffers: Sequence[bytes | memoryview]) -> int:
        if self._out.ended:
            raise OSError(errno.EPIPE, "the connection is closed")
        before = len(self._out.data)
        for part in buffers:
            self._out.data += part[: MEMORY_BYTES - len(self._out.data)]
        return len(self._out.data) - before

    def receive(self, buffer: memoryview) -> int | None:
        if self._closed:
            raise OSError(errno.EBADF, "the connection is closed")
        data = self._in.data
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        del data[:count]
        return count or (0 if self._in.ended else None)

    def finish(self) -> None:
        self._out.ended = True

    def close(self) -> None:
        self._closed = self._out.ended = self._in.ended = True


@dataclasses.dataclass
class Buffer:
    """One direction."""

    data: bytearray = dataclasses.field(default_factory=bytearray)
    ended: bool = False


def memory_wire() -> Wire:
    there, back = Buffer(), Buffer()
    return Wire(MemoryLink(there, back, "memory:b"), MemoryLink(back, there, "memory:a"), lambda *_: None)


def tcp_sockets() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        caller = socket.create_connection(listener.getsockname())
        return caller, listener.accept()[0]


def tcp_wire() -> Wire:
    left, right = tcp_sockets()
    return Wire(SocketLink(left), SocketLink(right), wait_sockets)


def unix_wire() -> Wire:
    left, right = socket.socketpair(socket.AF_UNIX)
    return Wire(SocketLink(left), SocketLink(right), wait_sockets)


class WireRow(NamedTuple):
    """A kind of link: how to make a pair, the class that it tests, and whether no third process can stand between its ends."""

    make: Callable[[], Wire]
    kind: type[Link]
    private: bool


WIRES: dict[str, WireRow] = {
    "tcp": WireRow(tcp_wire, SocketLink, private=False),
    "unix": WireRow(unix_wire, SocketLink, private=True),
    "memory": WireRow(memory_wire, MemoryLink, private=True),
}


# a kind of link, and whether its sessions are sealed: where somebody may stand between they always are
SEALED_WIRES = [(kind, sealed) for kind, row in sorted(WIRES.items()) for sealed in (False, True) if sealed or row.private]


def travelling(packed: Packed, sealer: Sealer | Confirmation | None = None) -> bytes:
    """A message as it travels, as records of `sealer`."""
    if sealer is None:
        return b"".join(packed.buffers())
    records = [bytearray(sum(map(len, frame)) + TAG_SIZE) for frame in packed.frames]
    for frame, record in zip(packed.frames, records, strict=True):
        sealer.seal(frame, memoryview(record))
    return b"".join(records)


class Talk(NamedTuple):
    """Two ends of one session, its READY exchanged."""

    client: Session
    server: Session
    wait: Any


@contextlib.contextmanager
def talk(kind: str = "unix", *, sealed: bool = False, limits: Limits | None = None) -> Iterator[Talk]:
    wire = WIRES[kind].make()
    keys = keys_for(sealed or not wire.left.private)
    limits = limits or Limits()
    client = Session(wire.left, keys, Peer("peer", 0), is_server=False, limits=limits)
    server = Session(wire.right, keys, Peer("peer", 1), is_server=True, limits=limits)
    try:
        server.send()
        while not client.confirm():
            wire.wait([wire.left], [], 5.0)
            client.receive()
        yield Talk(client, server, wire.wait)
    finally:
        client.close()
        server.close()

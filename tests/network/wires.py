"""What the tests of this package are built from: connected links of every kind, sessions."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from network.session import Peer, Session
from network.transport import Link, SocketLink, wait_sockets
from network.wire import Limits
from tests.network.memory_links import MemoryLink, MemoryNetwork

CLIENT_KEY, SERVER_KEY = b"c" * 32, b"s" * 32


class Wire(NamedTuple):
    """Two connected links and what waits for them."""

    left: Link
    right: Link
    wait: Any


def tcp_sockets(family: socket.AddressFamily = socket.AF_INET) -> tuple[socket.socket, socket.socket]:
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind((host, 0))
        listener.listen(1)
        caller = socket.socket(family, socket.SOCK_STREAM)
        caller.connect(listener.getsockname())
        called, _ = listener.accept()
    return caller, called


def tcp_wire() -> Wire:
    left, right = tcp_sockets()
    return Wire(SocketLink(left), SocketLink(right), wait_sockets)


def unix_wire() -> Wire:
    left, right = socket.socketpair(socket.AF_UNIX)
    return Wire(SocketLink(left), SocketLink(right), wait_sockets)


def memory_wire() -> Wire:
    network = MemoryNetwork()
    return Wire(*network.pair(), network.wait)


# one row per kind of link: how to make a pair, and the class that it tests
WIRES: dict[str, tuple[Callable[[], Wire], type[Link]]] = {
    "tcp": (tcp_wire, SocketLink),
    "unix": (unix_wire, SocketLink),
    "memory": (memory_wire, MemoryLink),
}


# a kind of link, and whether its sessions are sealed: over TCP they always are
SEALED_WIRES = [(kind, sealed) for kind in sorted(WIRES) for sealed in (False, True) if sealed or kind != "tcp"]


class Talk(NamedTuple):
    """Two ends of one session, its READY exchanged."""

    client: Session
    server: Session
    wait: Any


@contextlib.contextmanager
def talk(kind: str = "memory", *, sealed: bool = False, limits: Limits | None = None) -> Iterator[Talk]:
    wire = WIRES[kind][0]()
    sealed = sealed or not wire.left.private
    limits = limits or Limits()
    client = Session(wire.left, CLIENT_KEY, SERVER_KEY, Peer("peer", 0), sealed=sealed, is_server=False, limits=limits)
    server = Session(wire.right, SERVER_KEY, CLIENT_KEY, Peer("peer", 1), sealed=sealed, is_server=True, limits=limits)
    try:
        server.send()
        while not client.confirm():
            wire.wait([wire.left], [], 5.0)
            client.receive()
        yield Talk(client, server, wire.wait)
    finally:
        client.close()
        server.close()

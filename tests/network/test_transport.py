"""The contract of a link, for every kind of link."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import network
from network.transport import Link, Waiter, busy_poll, poll_again
from tests.contract.kinds import public_kinds, row_faults
from tests.sources import ROOT

from ..statements import covers
from .wires import WIRES, Wire

LIMIT = 5.0


@pytest.fixture(params=sorted(WIRES))
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    made = WIRES[request.param].make()
    yield made
    for _ in range(2):
        made.left.close()
        made.right.close()


def subclasses(cls: type[Any]) -> set[type[Any]]:
    return {cls}.union(*(subclasses(sub) for sub in cls.__subclasses__())) - {Link}


def test_every_kind_of_link_has_a_row() -> None:
    ours = ("network", "parallel_sgd", "rpc", "tests.network.wires")
    found = {cls for cls in subclasses(Link) if cls.__module__.startswith(ours)}
    kinds = found | public_kinds(Link, network)
    assert not row_faults(kinds, {row.kind for row in WIRES.values()}, "WIRES in tests/network/wires.py")


def read(wire: Wire, size: int, link: Link | None = None) -> bytes:
    """What arrives at the right end, or at `link`, up to `size` bytes or the end."""
    link, data, buffer = link or wire.right, bytearray(), memoryview(bytearray(1 << 16))
    while len(data) < size:
        count = link.receive(buffer[: size - len(data)])
        if count is None:
            wire.wait([link], [], LIMIT)
        elif not count:
            break
        else:
            data += buffer[:count]
    return bytes(data)


def test_bytes_arrive_in_order_both_ways(wire: Wire) -> None:
    assert wire.right.receive(memoryview(bytearray(4))) is None
    wire.wait([wire.right], [], 0.0)
    assert (wire.left.send([b"ab", memoryview(b"cde"), b"f"]), wire.left.send([b"ghi"])) == (6, 3)
    wire.right.send([b"back"])
    wire.wait([wire.right], [], None)
    assert (read(wire, 9), read(wire, 4, wire.left)) == (b"abcdefghi", b"back")
    parts = [bytes([i]) * 3 for i in range(200)]  # more than the system takes at once
    rest = b"".join(parts)
    sent = 0
    while parts:
        count = wire.left.send(parts)
        assert count > 0
        sent += count
        while parts and count >= len(parts[0]):
            count -= len(parts.pop(0))
        if count:
            parts[0] = parts[0][count:]
    assert sent == len(rest) and read(wire, sent) == rest


@covers("SUB-35")
def test_a_full_stream_takes_nothing_until_it_is_read(wire: Wire) -> None:
    """a receiver that does not read stops the sender; nothing is lost."""
    data = random.Random(1).randbytes(12 << 20)
    total = count = wire.left.send([data])
    while count:
        total += (count := wire.left.send([memoryview(data)[total:]]))
    assert 0 < total < len(data)
    assert read(wire, total) == data[:total]
    wire.wait([], [wire.left], LIMIT)
    assert wire.left.send([b"more"]) == 4 and read(wire, 4) == b"more"


@pytest.mark.parametrize("end", ["finish", "close"])
def test_after_the_end_the_other_side_reads_what_was_sent_before(wire: Wire, end: str) -> None:
    """Who has finished may still receive, and who has closed may not; a wait ends."""
    wire.left.send([b"last"])
    getattr(wire.left, end)()
    wire.wait([wire.right], [], None)
    assert read(wire, 100) == b"last"
    assert [wire.right.receive(memoryview(bytearray(4))) for _ in range(2)] == [0, 0]
    with pytest.raises(OSError):
        wire.left.send([b"x"])
    if end == "finish":
        assert wire.right.send([b"answer"]) == 6 and read(wire, 6, wire.left) == b"answer"
        return
    wire.left.finish()
    with pytest.raises(OSError):
        wire.left.receive(memoryview(bytearray(1)))


def test_sending_to_a_closed_end_fails_soon(wire: Wire) -> None:
    wire.right.close()
    with pytest.raises(OSError) as caught:
        for _ in range(1000):
            wire.left.send([b"x" * 1000])
            wire.wait([wire.left], [], 0.01)
    assert caught.value.errno in (errno.EPIPE, errno.ECONNRESET)


@pytest.mark.parametrize("kind", sorted(WIRES))
def test_a_link_tells_where_it_leads(kind: str) -> None:
    wire = WIRES[kind].make()
    with contextlib.closing(wire.left), contextlib.closing(wire.right):
        assert wire.left.private is wire.right.private is WIRES[kind].private
        assert wire.left.peer and wire.left.binding == wire.right.binding


@pytest.mark.parametrize("waiter", [poll_again, partial(busy_poll, 0.001)])
def test_a_waiter_follows_what_it_is_given(waiter: Callable[[], Waiter]) -> None:
    """Links that come and go, also one that takes the number of one that is closed, and the same ones to read and to write."""
    wait: Any = waiter()
    pairs = [socket.socketpair() for _ in range(3)]
    try:
        (a, _), (b, to_b), (c, to_c) = pairs
        assert wait([a, b], [], 0.0) == set()
        to_b.send(b"1")
        assert wait([a, b], [], 5.0) == {b}
        assert wait([a], [b], 5.0) == {b}
        assert wait([a], [], 0.0) == set()
        to_c.send(b"1")
        os.dup2(c.fileno(), a.fileno())  # what was a's number is another socket now
        assert wait([a], [], 5.0) == {a}
        number = a.fileno()
        a.close()
        assert wait([a, b], [], 5.0) == {b}
        d = socket.socket(fileno=os.dup(to_c.fileno()))
        with d:
            assert d.fileno() == number
            c.send(b"1")
            assert wait([d], [], 5.0) == {d}
    finally:
        for pair in pairs:
            for sock in pair:
                sock.close()


NUMERIC = """
import sys
from network.nodes import Address
from network.transport import resolve

for host in ("127.0.0.1", "::1"):
    assert resolve(Address(host, 7), 1.0)[0][1][:2] == (host, 7)
print("encodings.idna" in sys.modules)
"""


def test_an_address_needs_no_tables_of_international_names() -> None:
    """Python imports them for a text as a host, which takes each process that dials some milliseconds."""
    done = subprocess.run([sys.executable, "-c", NUMERIC], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("False\n", "")

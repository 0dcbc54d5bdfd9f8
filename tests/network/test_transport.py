"""The contract of a link, for every kind of link."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from typing import Any

import pytest

import network
from network.transport import Link
from tests.contract.kinds import public_kinds

from ..statements import covers
from .wires import WIRES, Wire

LIMIT = 5.0


@pytest.fixture(params=sorted(WIRES))
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    made = WIRES[request.param][0]()
    yield made
    made.left.close()
    made.right.close()


def subclasses(cls: type[Any]) -> set[type[Any]]:
    return {cls}.union(*(subclasses(sub) for sub in cls.__subclasses__())) - {Link}


def test_every_kind_of_link_has_a_row() -> None:
    ours = {
        cls
        for cls in subclasses(Link)
        if cls.__module__.startswith(("network", "parallel_sgd", "rpc", "tests.network.memory_links"))
    }
    assert ours | public_kinds(Link, network) == {row[1] for row in WIRES.values()}


def read(wire: Wire, size: int) -> bytes:
    data = bytearray()
    buffer = memoryview(bytearray(1 << 16))
    while len(data) < size:
        count = wire.right.receive(buffer[: size - len(data)])
        if count is None:
            wire.wait([wire.right], [], LIMIT)
            continue
        if not count:
            break
        data += buffer[:count]
    return bytes(data)


def heard(link: Link, wire: Wire) -> bytes:
    buffer = memoryview(bytearray(10))
    wire.wait([link], [], LIMIT)
    return bytes(buffer[: link.receive(buffer) or 0])


def test_bytes_arrive_in_order_both_ways(wire: Wire) -> None:
    assert wire.right.receive(memoryview(bytearray(4))) is None
    wire.wait([wire.right], [], 0.0)
    assert wire.left.send([b"ab", memoryview(b"cde"), b"f"]) == 6
    assert wire.left.send([b"ghi"]) == 3
    wire.right.send([b"back"])
    wire.wait([wire.right], [], None)
    assert read(wire, 9) == b"abcdefghi"
    assert heard(wire.left, wire) == b"back"


def test_many_buffers_are_taken_from_the_front(wire: Wire) -> None:
    parts = [bytes([i]) * 3 for i in range(200)]
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
    assert sent == len(rest)
    assert read(wire, sent) == rest


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
    assert wire.left.send([b"more"]) == 4
    assert read(wire, 4) == b"more"


@pytest.mark.parametrize("end", ["finish", "close"])
def test_after_the_end_the_other_side_reads_what_was_sent_before(wire: Wire, end: str) -> None:
    """Who has finished may still receive."""
    wire.left.send([b"last"])
    getattr(wire.left, end)()
    assert read(wire, 100) == b"last"
    assert wire.right.receive(memoryview(bytearray(4))) == 0
    assert wire.right.receive(memoryview(bytearray(4))) == 0
    with pytest.raises(OSError):
        wire.left.send([b"x"])
    if end == "finish":
        assert wire.right.send([b"answer"]) == 6
        assert heard(wire.left, wire) == b"answer"


def test_sending_to_a_closed_end_fails_soon(wire: Wire) -> None:
    wire.right.close()
    with pytest.raises(OSError) as caught:
        for _ in range(1000):
            wire.left.send([b"x" * 1000])
            wire.wait([wire.left], [], 0.01)
    assert caught.value.errno in (errno.EPIPE, errno.ECONNRESET)


def test_a_closed_link_refuses_everything_and_ends_a_wait(wire: Wire) -> None:
    for _ in range(2):
        wire.left.close()
    wire.left.finish()
    for action in (lambda: wire.left.send([b"x"]), lambda: wire.left.receive(memoryview(bytearray(1)))):
        with pytest.raises(OSError):
            action()
    wire.wait([wire.right], [], None)
    assert wire.right.receive(memoryview(bytearray(1))) == 0


def test_a_link_tells_where_it_leads(wire: Wire) -> None:
    assert wire.left.private is ("127.0.0.1" not in wire.left.peer)  # somebody may have led TCP on
    assert wire.left.peer
    assert wire.left.binding == wire.right.binding


def test_waiting_for_memory_looks_after_other_things_too() -> None:
    wire = WIRES["memory"][0]()
    others: Any = [object()]
    wire.wait([wire.right, *others], [], None)  # returns by itself
    wire.left.close()
    wire.right.close()

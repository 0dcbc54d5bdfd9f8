"""Sessions: messages in order both ways, bounded inboxes, definite ends, and bytes that add up."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from network import session as session_module
from network.errors import ClosedByUs, PeerLost, ProtocolError
from network.session import Peer, Session
from network.wire import HEADER, Kind, Limits
from tests.network.memory_links import MemoryNetwork

from ..statements import covers
from .wires import CLIENT_KEY, SEALED_WIRES, SERVER_KEY, WIRES, Talk, memory_wire, talk


def move(ends: Talk, until: Any, rounds: int = 100_000) -> None:
    """Pump both ends until `until()`."""
    for _ in range(rounds):
        ends.client.send()
        ends.server.send()
        ends.client.receive()
        ends.server.receive()
        if until():
            return
        sessions = (ends.client, ends.server)
        ends.wait([s.link for s in sessions if s.wants_more], [s.link for s in sessions if s.pending_bytes], 1.0)
    raise AssertionError("nothing came")


@covers("SUB-40")
@pytest.mark.parametrize(("kind", "sealed"), SEALED_WIRES)
def test_bytes_are_conserved(kind: str, sealed: bool) -> None:
    """Sent = received, and what each message was said to cost is what travelled."""
    with talk(kind, sealed=sealed) as ends:
        before = ends.client.bytes_sent, ends.server.bytes_sent
        costs = [ends.client.queue([np.zeros(n), "x"]) for n in (0, 5, 70_000)]
        move(ends, lambda: len(ends.server.inbox) == 3)
        assert ends.client.bytes_sent - before[0] == sum(c.raw + c.overhead for c in costs)
        assert ends.client.bytes_sent == ends.server.bytes_read
        assert ends.server.bytes_sent == ends.client.bytes_read
        assert [(m.raw, m.overhead) for m in ends.server.inbox] == [tuple(c) for c in costs]


@covers("SUB-35")
def test_an_inbox_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """a few large messages fill it as many small ones do."""
    monkeypatch.setattr(session_module, "INBOX_BYTES", 1 << 20)
    with talk() as ends:
        for _ in range(50):
            ends.client.queue(np.zeros(1 << 18, np.uint8))
        for _ in range(200):
            ends.client.send()
            ends.server.receive()
        assert 4 <= len(ends.server.inbox) <= 5
        assert not ends.server.wants_more
        ends.server.inbox.clear()
        assert ends.server.wants_more


def test_a_farewell_is_no_loss_and_nothing_may_follow_it() -> None:
    with talk() as ends:
        ends.client.queue("last")
        ends.client.leave()
        ends.client.leave()
        with pytest.raises(ClosedByUs, match="This side has left"):
            ends.client.queue("more")
        move(ends, lambda: ends.server.left)
        assert ends.server.lost is None
        assert not ends.server.alive
        ends.client.close()
        ends.server.receive()
        last = ends.server.take()
        assert last is not None
        assert last.value == "last"
        assert "it has left" in str(ends.server.lost)


@pytest.mark.parametrize("kind", sorted(WIRES))
def test_half_a_message_is_not_kept_after_the_end(kind: str) -> None:
    """Its array may have a gigabyte, and who looks after lost nodes keeps their sessions."""
    with talk(kind, sealed=False) as ends:
        ends.client.queue(np.zeros(32 << 20, np.uint8))
        tracemalloc.start()
        try:
            while ends.server.bytes_read < 2 << 20:  # one frame that is sealed, and more
                ends.client.send()
                ends.server.receive()
            assert tracemalloc.get_traced_memory()[0] > 32 << 20
            ends.client.close()
            while ends.server.alive:
                ends.server.receive()
            assert tracemalloc.get_traced_memory()[0] < 4 << 20
        finally:
            tracemalloc.stop()
        assert isinstance(ends.server.lost, PeerLost)


def test_what_was_not_sent_is_told() -> None:
    with talk() as ends:
        ends.client.queue(np.zeros(1 << 20))
        ends.client.send()
        left = ends.client.pending_bytes
        assert left > 0
        ends.server.close()
        assert ends.client.send() is True
        assert ends.client.pending_bytes == 0
        assert ends.client.unsent_bytes == left
        assert isinstance(ends.client.lost, PeerLost)


def test_a_frame_beyond_the_receivers_limits_ends_the_session() -> None:
    with talk(limits=Limits(meta=100, data=1000, message=5000)) as ends:
        with pytest.raises(ValueError, match="may hold 5000 bytes of arrays, got 8000"):
            ends.client.queue(np.zeros(1000))
        ends.client.link.send([HEADER.pack(Kind.MESSAGE, 0, 0, 101, 0)])
        with pytest.raises(ProtocolError, match=r"announces 101 \+ 0 bytes; allowed are 100 \+ 1000"):
            ends.server.receive()


def test_a_server_without_the_key_is_not_confirmed() -> None:
    wire = memory_wire()
    client = Session(wire.left, CLIENT_KEY, SERVER_KEY, Peer("peer"), sealed=False, is_server=False)
    impostor = Session(wire.right, b"x" * 32, b"y" * 32, Peer("peer"), sealed=False, is_server=True)
    impostor.send()
    assert client.confirm() is False
    with pytest.raises(ProtocolError, match="seal does not verify"):
        client.receive()
    assert client.confirm() is False


def test_ends_that_disagree_on_sealing_do_not_talk() -> None:
    left, right = MemoryNetwork().pair()
    client = Session(left, CLIENT_KEY, SERVER_KEY, Peer("peer"), sealed=True, is_server=False)
    server = Session(right, SERVER_KEY, CLIENT_KEY, Peer("peer"), sealed=False, is_server=True)
    server.send()
    client.receive()
    with pytest.raises(ProtocolError, match="do not agree whether frames are sealed"):
        client.confirm()


def test_values_of_the_class_table_travel_after_it_is_shared() -> None:
    with talk() as ends:
        with pytest.raises(TypeError, match="Limits cannot travel"):
            ends.client.queue(Limits())
        for end in (ends.client, ends.server):
            end.use_classes([Limits])
        ends.client.queue(Limits())
        move(ends, lambda: bool(ends.server.inbox))
        assert ends.server.inbox[0].value == Limits()

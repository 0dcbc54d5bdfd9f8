"""Sessions: messages in order both ways, bounded inboxes, frames that go on, definite ends, and bytes that add up.

A frame that has begun goes on, or ends the connection; between frames there may be any time. All that on a virtual clock.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import rpc.agent.agent as agent_module
import rpc.job.code_session as code_session_module
import rpc.submit.connections as connections_module
from network import session as session_module
from network.controller import Controller
from network.dial import Target, dial
from network.errors import ClosedByUs, NetworkError, PeerLost, ProtocolError
from network.keys import Keyring, SessionKeys, new_key
from network.records import AES, CHACHA, Sealer
from network.session import (
    INBOX_LIMIT,
    JOB_STALL_SECONDS,
    LOOK_SECONDS,
    STALL_BYTES,
    STALL_SECONDS,
    TURN_BYTES,
    Peer,
    Session,
)
from network.testing import VirtualClock
from network.transport import Link, SocketLink, wait_sockets
from network.wire import HEADER, Kind, Limits, pack
from rpc.agent.agent import Agent
from rpc.agent.settings import AgentSettings
from rpc.errors import JobAborted
from rpc.job.code_session import CodeSession
from rpc.messages import Load
from rpc.submit.connections import Connections, Gone

from ..statements import covers
from .wires import KEYS, SEALED_WIRES, WIRES, Talk, keys_for, memory_wire, talk, tcp_wire, travelling

LIMITS = {"submitter": STALL_SECONDS, "agent": STALL_SECONDS, "peer": JOB_STALL_SECONDS, "code": JOB_STALL_SECONDS}


def move(ends: Talk, until: Callable[[], Any], rounds: int = 100_000) -> None:
    """Pump both ends until `until()`."""
    for _ in range(rounds):
        for end in ends[:2]:
            end.send()
        for end in ends[:2]:
            end.receive()
        if until():
            return
        ends.wait([s.link for s in ends[:2] if s.wants_more], [s.link for s in ends[:2] if s.pending_bytes], 1.0)
    raise AssertionError("nothing came")


@covers("SUB-40")
def test_a_link_that_is_not_complete_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its class and what it lacks, before and at the first message."""
    wire = memory_wire()
    monkeypatch.setattr(wire.left, "peer", None)
    with pytest.raises(TypeError, match=r"^MemoryLink.peer must be a text, got None$"):
        Session(wire.left, keys_for(sealed=False), Peer("peer", 0), is_server=True)
    wire = memory_wire()
    server = Session(wire.left, keys_for(sealed=False), Peer("peer", 0), is_server=True)
    monkeypatch.setattr(wire.left, "send", lambda buffers: None)
    with pytest.raises(TypeError, match=r"^MemoryLink.send\(\) must return how many bytes it has taken, got None$"):
        server.send()


@pytest.mark.parametrize(("kind", "sealed"), SEALED_WIRES)
def test_bytes_are_conserved(kind: str, sealed: bool) -> None:
    """Sent = received, and what each message was said to cost is what travelled."""
    with talk(kind, sealed=sealed) as ends:
        before = ends.client.bytes_sent
        costs = [ends.client.queue([np.zeros(n), "x"]) for n in (0, 5, 70_000)]
        move(ends, lambda: len(ends.server.inbox) == 3)
        assert ends.client.bytes_sent - before == sum(c.raw + c.overhead for c in costs)
        assert ends.client.bytes_sent == ends.server.bytes_read
        assert ends.server.bytes_sent == ends.client.bytes_read
        assert [m[2:] for m in ends.server.inbox] == [tuple(c) for c in costs]


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
        assert 4 <= len(ends.server.inbox) <= 5 and not ends.server.wants_more
        ends.server.inbox.clear()
        assert ends.server.wants_more


def test_a_farewell_is_no_loss_and_nothing_may_follow_it() -> None:
    with talk() as ends:
        ends.client.queue("last")
        for _ in range(2):
            ends.client.leave()
        with pytest.raises(ClosedByUs, match="This side has left"):
            ends.client.queue("more")
        move(ends, lambda: ends.server.left)
        assert ends.server.lost is None and not ends.server.alive
        ends.client.close()
        ends.server.receive()
        last = ends.server.take()
        assert last is not None and last.value == "last"
        assert "it has left" in str(ends.server.lost)


@pytest.mark.parametrize("count", [1, INBOX_LIMIT + 50])
@pytest.mark.parametrize("kind", sorted(WIRES))
def test_who_sends_before_it_looks_finds_the_farewell(kind: str, count: int) -> None:
    """A process that was stopped sends to a peer that has left meanwhile: the broken link is the end of that, no loss."""
    with talk(kind) as ends:
        for _ in range(count):
            ends.client.queue("last")
        ends.client.leave()
        assert ends.client.send()
        ends.client.close()
        for _ in range(100):
            if ends.server.lost is not None:
                break
            ends.server.queue(np.zeros(1000))
            ends.server.send()
        assert [message.value for message in ends.server.inbox] == ["last"] * count
        assert ends.server.left and "it has left" in str(ends.server.lost)


@pytest.mark.parametrize("kind", sorted(WIRES))
def test_half_a_message_is_not_kept_after_the_end(kind: str) -> None:
    """Its array may have 1 GiB, and who looks after lost nodes keeps their sessions; the sender tells what was not sent."""
    with talk(kind) as ends:
        ends.client.queue(np.zeros(32 << 20, np.uint8))
        tracemalloc.start()
        try:
            while ends.server.bytes_read < 2 << 20:  # one frame that is sealed, and more
                ends.client.send()
                ends.server.receive()
            assert tracemalloc.get_traced_memory()[0] > 32 << 20
            left = ends.client.pending_bytes
            ends.client.close()
            assert 0 < left == ends.client.unsent_bytes and not ends.client.pending_bytes
            while ends.server.alive:
                ends.server.receive()
            assert tracemalloc.get_traced_memory()[0] < 4 << 20
        finally:
            tracemalloc.stop()
        assert isinstance(ends.server.lost, PeerLost)


def test_what_was_not_sent_to_a_peer_that_is_gone_is_told() -> None:
    with talk() as ends:
        ends.client.queue(np.zeros(1 << 20))
        ends.client.send()
        left = ends.client.pending_bytes
        ends.server.close()
        assert ends.client.send() is True
        assert 0 < left == ends.client.unsent_bytes and not ends.client.pending_bytes
        assert isinstance(ends.client.lost, PeerLost)


def test_a_frame_beyond_the_receivers_limits_ends_the_session() -> None:
    with talk(limits=Limits(meta=100, data=1000, message=5000)) as ends:
        with pytest.raises(ValueError, match="may hold 5000 bytes of arrays, got 8000"):
            ends.client.queue(np.zeros(1000))
        ends.client.link.send([HEADER.pack(Kind.MESSAGE, 0, 0, 101, 0)])
        with pytest.raises(ProtocolError, match=r"announces 101 \+ 0 bytes; allowed are 100 \+ 1000"):
            ends.server.receive()


@pytest.mark.parametrize("cipher", [AES, CHACHA, ""])
def test_a_server_without_the_keys_is_not_confirmed(cipher: str) -> None:
    """Neither where frames are sealed nor where READY alone has a MAC."""
    wire = memory_wire()
    client = Session(wire.left, SessionKeys(b"s" * 32, b"y" * 32, cipher), Peer("peer"), is_server=False)
    Session(wire.right, SessionKeys(b"x" * 32, b"y" * 32, cipher), Peer("peer"), is_server=True).send()
    assert client.confirm() is False
    with pytest.raises(ProtocolError, match="record does not open"):
        client.receive()
    assert client.confirm() is False


@covers("SEC-5")
def test_a_link_on_whose_path_somebody_may_stand_carries_no_session_that_is_not_sealed() -> None:
    for link in tcp_wire()[:2]:
        with contextlib.closing(link), pytest.raises(ValueError, match="must be sealed: somebody may stand on its path"):
            Session(link, keys_for(False), Peer("peer"), is_server=True)


def test_values_of_the_class_table_travel_after_it_is_shared() -> None:
    with talk() as ends:
        with pytest.raises(TypeError, match="Limits cannot travel"):
            ends.client.queue(Limits())
        for end in ends[:2]:
            end.use_classes([Limits])
        ends.client.queue(Limits())
        move(ends, lambda: bool(ends.server.inbox))
        assert ends.server.inbox[0].value == Limits()


# ---- frames that have begun


class Half(NamedTuple):
    """The receiving session, on a virtual clock, and the bare link of who sends to it."""

    session: Session
    sender: Link
    clock: VirtualClock

    def say(self, data: bytes) -> None:
        while data:
            data = data[self.sender.send([data]) :]
            self.session.receive()

    def look(self, seconds: float, every: float = LOOK_SECONDS) -> None:
        """Let time pass, as for somebody who waits."""
        while seconds > 0:
            self.clock.advance(min(every, seconds))
            seconds -= every
            self.session.receive()


@contextlib.contextmanager
def half(kind: str = "memory", *, sealed: bool = False, role: str = "submitter") -> Iterator[Half]:
    wire, clock = WIRES[kind].make(), VirtualClock()
    session = Session(wire.right, keys_for(sealed), Peer(role), is_server=True, clock=clock)
    try:
        yield Half(session, wire.left, clock)
    finally:
        session.close()
        wire.left.close()


def frames(*values: object, sealed: bool = False, limits: Limits | None = None) -> bytes:
    sealer = Sealer(AES, KEYS.client_key) if sealed else None
    return b"".join(travelling(pack(Kind.MESSAGE, (), v, sealed, (), limits or Limits()), sealer) for v in values)


@covers("SEC-7", "SEC-9")
@pytest.mark.parametrize("role", LIMITS)
@pytest.mark.parametrize(("kind", "sealed"), SEALED_WIRES)
@pytest.mark.parametrize("cut", [1, HEADER.size, HEADER.size + 10, -1])
def test_a_frame_that_does_not_go_on_ends_the_connection(kind: str, sealed: bool, cut: int, role: str) -> None:
    """Wherever it stops, and whoever sends it; what came before was delivered."""
    with half(kind, sealed=sealed, role=role) as it:
        first, both = (frames(*values, sealed=sealed) for values in (["whole"], ["whole", np.zeros(4096, np.uint8)]))
        it.say(both[: len(first) + cut] if cut > 0 else both[:cut])
        it.look(LIMITS[role] - LOOK_SECONDS)
        assert it.session.alive and [message.value for message in it.session.inbox] == ["whole"]
        with pytest.raises(ProtocolError, match="does not go on: of a frame that it has begun 0 bytes have come in"):
            it.look(2 * LOOK_SECONDS)
        assert isinstance(it.session.lost, PeerLost)
        with contextlib.suppress(OSError):
            while it.sender.receive(memoryview(bytearray(1 << 16))):  # the READY, then the end
                pass


@covers("SEC-9")
@pytest.mark.parametrize(("rate", "lives"), [(1, False), (STALL_BYTES // 40, False), (STALL_BYTES // 20, True)])
def test_a_frame_has_a_least_speed(rate: int, lives: bool) -> None:
    """Whoever sends a byte now and then holds a frame open no longer than who sends none."""
    with half() as it:
        whole = frames(np.zeros(3 * STALL_BYTES, np.uint8))
        with contextlib.nullcontext() if lives else pytest.raises(ProtocolError, match="does not go on"):
            for at in range(0, len(whole), rate):
                it.say(whole[at : at + rate])
                it.look(1.0)
                assert it.clock.monotonic() < 3 * STALL_SECONDS + 60
        assert bool(it.session.inbox) is lives


def test_between_frames_there_is_no_limit() -> None:
    """Nor is one to blame that is in the midst of another frame each time somebody looks."""
    with half() as it:
        it.say(frames("one"))
        it.look(100_000.0, every=1000.0)
        pieces = [frames(number) for number in range(100)]
        it.say(pieces[0][:5])
        for one, following in itertools.pairwise(pieces):
            it.look(STALL_SECONDS - 1)
            it.say(one[5:] + following[:5])
        assert it.session.alive and len(it.session.inbox) == 100


def test_a_message_that_has_begun_needs_its_other_frames() -> None:
    with half() as it:
        it.say(frames(np.zeros(2500, np.uint8), limits=Limits(data=1000))[: HEADER.size + 1000 + 20])
        with pytest.raises(ProtocolError, match="does not go on"):
            it.look(STALL_SECONDS + LOOK_SECONDS)


def test_only_the_time_of_those_who_look_counts() -> None:
    """A process that was stopped for an hour finds its peer as it left it; one whose inbox is full does not read."""
    with half() as it:
        whole = frames(np.zeros(100, np.uint8))
        it.say(whole[:50])
        for _ in range(2):
            it.look(3600.0, every=3600.0)
        it.say(whole[50:])
        assert it.session.take() is not None
        it.say(frames(*range(INBOX_LIMIT)) + whole[:50])
        assert not it.session.wants_more
        it.look(10 * STALL_SECONDS)
        while it.session.take() is not None:
            pass
        it.look(STALL_SECONDS - 3 * LOOK_SECONDS)
        it.say(whole[50:])
        assert it.session.take() is not None and it.session.alive


def test_a_large_array_comes_in_time() -> None:
    with half("unix") as it:
        data = np.arange(8 * TURN_BYTES, dtype=np.uint8)
        it.say(frames(data))
        assert (it.session.inbox[0].value == data).all()


# ---- all that wait for frames


def passing(clock: VirtualClock) -> Any:
    """In place of `wait_sockets`: when nothing is there, the time that somebody is ready to wait passes at once."""

    def wait(reading: Sequence[Any], writing: Sequence[Any], timeout: float | None) -> None:
        wait_sockets(reading, [], 0.0)
        assert timeout is not None and timeout <= LOOK_SECONDS, "nobody would look at the frame in time"
        clock.advance(timeout)

    return wait


def test_a_controller_that_waits_for_ever_looks() -> None:
    with half("unix", role="agent") as it:
        it.say(frames("x")[:-1])
        com = Controller(0, {1: it.session}, clock=it.clock, wait=passing(it.clock))
        with contextlib.closing(com), pytest.raises(PeerLost, match="of a frame that it has begun 0 bytes have come in"):
            com.get_one()
        assert STALL_SECONDS <= it.clock.monotonic() <= STALL_SECONDS + 2 * LOOK_SECONDS


def test_the_connections_of_a_submitter_look(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with half("unix", role="agent") as it:
        monkeypatch.setattr(connections_module, "wait_sockets", passing(it.clock))
        it.say(frames("x")[:-1])
        with contextlib.closing(Controller(-1, {0: it.session})) as com:
            logger = connections_module.logging.getLogger("connections test")
            connections = Connections(com, {0: "Node(0)"}, logger, it.clock)
            while not (found := connections.wait(None)):
                pass
        assert isinstance(found[0], Gone) and "Node(0) broke the protocol" in caplog.text


def test_a_job_process_looks_while_it_waits_for_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    with half("unix", role="code") as it:
        monkeypatch.setattr(code_session_module, "wait_sockets", passing(it.clock))
        it.say(frames("x")[:-1])
        with pytest.raises((ProtocolError, JobAborted), match="does not go on"):
            CodeSession(it.session, 3600.0).receive(Load)


@covers("SEC-9")
def test_an_agent_closes_what_does_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """256 holders of the key who begin a frame do not keep the others out for more than half a minute."""
    clock, key, told = VirtualClock(), new_key(), tmp_path / "work" / "audit.jsonl"
    monkeypatch.setattr(agent_module, "SystemClock", lambda: clock)
    settings = AgentSettings(port=0, work_dir=str(tmp_path / "work"), keyring=Keyring((key,)))
    with contextlib.closing(Agent(settings)) as agent:
        sessions: list[Session] = []
        called = threading.Thread(
            target=lambda: sessions.extend(dial(Target(agent.address, key, "submitter", "agent")) for _ in range(2))
        )
        called.start()
        while called.is_alive():
            agent.stop()  # rings, so that nobody waits
            agent._step()
        stalled, idle = sessions
        monkeypatch.setattr(agent_module, "wait_sockets", passing(clock))
        assert isinstance(stalled.link, SocketLink)
        stalled.link.send([HEADER.pack(Kind.MESSAGE, 0, 0, 100, 4096) + bytes(10)])
        begin = clock.monotonic()
        while '"protocol"' not in told.read_text():
            agent._step()
            assert clock.monotonic() - begin < 2 * STALL_SECONDS
        agent._step()
        with contextlib.suppress(NetworkError):
            while stalled.lost is None:
                stalled.receive()
        idle.receive()
        assert stalled.lost is not None and idle.alive
        assert "does not go on" in told.read_text()
        for session in sessions:
            session.close()


@covers("SEC-9")
def test_a_record_that_came_in_two_pieces_counts_no_more_when_it_is_there() -> None:
    """One message an hour, each in pieces of which the second is late by a moment."""
    with half(sealed=True) as it:
        values = [np.full(50, number, np.uint8) for number in range(12)]
        data = frames(*values, sealed=True)
        size = len(data) // len(values)
        for number in range(len(values)):
            record = data[number * size : (number + 1) * size]
            it.say(record[:-5])
            it.look(0.001)
            it.say(record[-5:])
            it.look(3600.0, every=3600.0)
        assert it.session.alive and len(it.session.inbox) == len(values)


@covers("SEC-9")
def test_a_message_of_many_small_frames_must_go_on_as_one_does() -> None:
    with half() as it:
        meta = pack(Kind.MESSAGE, (), np.zeros(1 << 20, np.uint8)).frames[0][0][HEADER.size :]
        it.say(HEADER.pack(Kind.MESSAGE, 1, 0, len(meta), 0) + bytes(meta))
        with pytest.raises(ProtocolError, match="does not go on"):
            for _ in range(20):
                it.say(HEADER.pack(Kind.MORE, 1, 0, 0, 1) + b"x")
                it.look(4 * LOOK_SECONDS)

"""Memory that processes of one host share: who sees what, who is refused, what is used again, and what the killed leave."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network.errors import ProtocolError
from network.session import Peer, Session
from network.shared_memory import LEAST_BYTES, PAGE_BYTES, PAGES, MemoryHandle, Outbox, PeerTable, SharedMemory, attach
from network.transport import SocketLink
from network.wire import HEADER, SHARED, Kind, pack

from .test_memory import HOLDERS
from .wires import keys_for

SIZE = 1 << 19
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory needs Linux")
_OWNER = """
import sys
from network.shared_memory import SharedMemory
shared = SharedMemory(int(sys.argv[1]))
shared.memory[:] = bytes([7]) * len(shared.memory)
print(*shared.handle, flush=True)
sys.stdin.read()
"""


def mapped(name: str) -> bool:
    """Whether this process still maps or holds open shared memory of this name."""
    gc.collect()
    links = (os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}"))
    return name in Path("/proc/self/maps").read_text() or any(name in link for link in links)


def test_shared_memory_ends_with_its_last_user_and_a_reader_cannot_write() -> None:
    shared = SharedMemory(SIZE)
    seen, name, memory = attach(shared.handle, SIZE), shared.handle.name, shared.memory
    assert len(seen) == len(memory) == SIZE
    memory[5:9] = b"abcd"
    assert seen[5:9] == b"abcd"
    with pytest.raises(TypeError, match="read-only"):
        seen[0] = 1
    with pytest.raises(PermissionError):  # nor the owner shrink it
        os.ftruncate(shared.handle.descriptor, 0)
    del shared, seen
    assert mapped(name)
    memory[0] = 1  # whoever holds the memory may use it
    del memory
    assert not mapped(name)


def test_memory_of_a_process_that_is_killed_stays_with_its_readers_and_goes_with_them() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(SIZE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        process, descriptor, name, size = owner.stdout.readline().split()
        handle = MemoryHandle(int(process), int(descriptor), name, int(size))
        seen = attach(handle, SIZE)
        owner.kill()
    assert seen == bytes([7]) * SIZE
    with pytest.raises(OSError, match=r"No such file"):
        attach(handle, SIZE)
    assert mapped(name)
    del seen
    assert not mapped(name)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda h, soft: h._replace(name="psgd-of-another"), "is not the shared memory psgd-of-another"),
        (lambda h, soft: h._replace(size=SIZE + 1), "Not the handle of"),
        (lambda h, soft: h._replace(descriptor="3"), "Not the handle of"),
        (lambda h, soft: list(h), "Not the handle of"),
        # it could shrink under its readers
        (lambda h, soft: h._replace(descriptor=soft, name="psgd-soft"), "has not the fixed size"),
    ],
)
def test_other_memory_is_refused(change: Callable[[MemoryHandle, int], object], fault: str) -> None:
    shared = SharedMemory(SIZE)
    soft = os.memfd_create("psgd-soft", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(soft, SIZE)
        with pytest.raises((OSError, ValueError), match=fault):
            attach(change(shared.handle, soft), SIZE)
    finally:
        os.close(soft)


class End:
    """One end of a connection that shares memory."""

    def __init__(self, link: SocketLink, *, is_server: bool, sealed: bool = False) -> None:
        self.session = Session(link, keys_for(sealed), Peer("peer"), is_server=is_server)
        self.outbox = Outbox()
        self.session.share_memory(self.outbox)

    def move(self) -> list[Any]:
        """Move what can be moved; the contents that have come."""
        self.session.send()
        self.session.receive()
        found = [message.within(1 << 20) for message in self.session.inbox]
        self.session.inbox.clear()
        return found


@contextlib.contextmanager
def pair(*, sealed: bool = False) -> Iterator[tuple[End, End]]:
    """Two ends, which have agreed on memory in both directions where they may."""
    one, other = (
        End(SocketLink(sock), is_server=number == 0, sealed=sealed) for number, sock in enumerate(socket.socketpair())
    )
    try:
        for end in (one, other):
            end.session.queue(np.zeros(LEAST_BYTES, np.uint8), (0,))
        for _ in range(3):
            one.move(), other.move()
        yield one, other
    finally:
        one.session.close()
        other.session.close()


def sent(one: End, other: End, value: object, head: tuple[int, ...] = (1,)) -> Any:
    """What comes out at the other end."""
    one.session.queue(value, head)
    while True:
        one.move()
        if found := other.move():
            return found[0]


@pytest.mark.parametrize("sealed", [False, True])
def test_large_arrays_lie_in_memory_and_are_read_there(sealed: bool) -> None:
    """Whoever is on the path of a sealed session must neither read nor change anything: such sessions share no memory."""
    large, small = np.arange(LEAST_BYTES // 4, dtype=np.float32), np.arange(3, dtype=np.int8)
    with pair(sealed=sealed) as (one, other):
        before = one.session.bytes_shared
        for value in (large, (1, 2, large), [small, large, small, large[::2].astype("<f8")], {"x": large}):
            found = sent(one, other, value)
            np.testing.assert_equal(found, value)
            if isinstance(found, np.ndarray):
                assert found.flags.writeable == sealed
        assert sent(one, other, large, ()).flags.writeable  # nobody who takes it knows where it lies
        assert sent(one, other, small).flags.writeable
        shared = 0 if sealed else 4 * large.nbytes + large.nbytes + large.nbytes // 2 * 2 + 2 * small.nbytes
        assert one.session.bytes_shared - before == other.session.bytes_shared - before == shared
        assert one.session.bytes_sent == other.session.bytes_read


@pytest.mark.parametrize("holder", HOLDERS)
def test_pages_that_anything_looks_into_are_left_alone(holder: str) -> None:
    """And are used again at once when nobody does."""
    with pair() as (one, other):
        content = np.full(SIZE, 7, np.uint8)
        found = sent(one, other, content)
        held, place = HOLDERS[holder](found), found.ctypes.data
        del found
        others = [sent(one, other, content) for _ in range(3)]
        assert place not in {each.ctypes.data for each in others}
        del held
        assert sent(one, other, content).ctypes.data == place


def test_what_finds_no_room_travels() -> None:
    """Pages of other sizes are given up for it when they are free."""
    with pair() as (one, other):
        content = np.zeros(PAGES * PAGE_BYTES // 8, np.uint8)
        kept = [sent(one, other, content) for _ in range(9)]
        assert [array.flags.writeable for array in kept] == [False] * 8 + [True]
        kept.clear()
        large = np.zeros(PAGES * PAGE_BYTES // 2, np.uint8)
        assert not sent(one, other, large).flags.writeable


def test_one_copy_serves_all_who_are_sent_the_same_array() -> None:
    """Until something has been sent, after which it may be another one."""
    first, second = socket.socketpair(), socket.socketpair()
    outbox = Outbox()
    ends = [Session(SocketLink(sock), keys_for(False), Peer("peer"), is_server=True) for sock, _ in (first, second)]
    readers = [End(SocketLink(sock), is_server=False) for _, sock in (first, second)]
    content = np.zeros(LEAST_BYTES, np.uint8)
    for end in ends:
        end.share_memory(outbox)
        end.queue(content, (0,))
    try:
        for _ in range(3):
            for each in (*ends, *(reader.session for reader in readers)):
                each.send()
                each.receive()
        held = []
        for turn in (1, 2):
            content[:] = turn
            for end in ends:
                end.queue(content, (1,))
            for end in ends:
                end.send()
            held.append([reader.move()[-1] for reader in readers])
        assert [[int(array[0]) for array in arrays] for arrays in held] == [[1, 1], [2, 2]]
        assert len({int(array.ctypes.data) for arrays in held for array in arrays}) == 4  # two places, mapped twice
        del held[0][0]
        content[:] = 3
        ends[0].queue(content, (1,))
        ends[0].send()
        assert (held[0][0] == 1).all()  # the other reader still holds it
    finally:
        for each in (*ends, *(reader.session for reader in readers)):
            each.close()


def frame(meta: bytes, page: int, size: int, kind: Kind = Kind.MESSAGE, flags: int = SHARED) -> bytes:
    return HEADER.pack(kind, flags, page, len(meta), size) + meta


def meta_of(value: object, head: tuple[int, ...] = (1,)) -> bytes:
    return bytes(pack(Kind.MESSAGE, head, value).frames[0][0][HEADER.size :])


LARGE = np.zeros(LEAST_BYTES, np.uint8)


@pytest.mark.parametrize(
    "claim",
    {
        "a page beyond the end": frame(meta_of(LARGE), PAGES, LEAST_BYTES),
        "more than there is": frame(meta_of(LARGE), PAGES - 1, LEAST_BYTES),
        "nothing": frame(meta_of(LARGE), 0, 0),
        "less than the array": frame(meta_of(LARGE), 0, LEAST_BYTES - 1),
        "less than the arrays": frame(meta_of([LARGE, LARGE]), 0, 2 * LEAST_BYTES - 1),
        "more than memory holds": frame(meta_of(LARGE), 0, (1 << 64) - 1),
        "a frame that goes on": frame(meta_of(LARGE), 0, LEAST_BYTES, flags=SHARED | 1),
        "a part of another message": frame(b"", 0, LEAST_BYTES, Kind.MORE),
        "a farewell": frame(meta_of(None, ()), 0, LEAST_BYTES, Kind.BYE),
        "a page without the flag": frame(meta_of(LARGE), 1, LEAST_BYTES, flags=0) + bytes(LEAST_BYTES),
    }.items(),
    ids=lambda item: item[0],
)
def test_claims_of_what_is_not_there_end_the_session(claim: tuple[str, bytes]) -> None:
    """Whether or not the like has come before."""
    for known in (False, True):
        with pair() as (one, other):
            if known:
                assert not sent(one, other, LARGE).flags.writeable
            assert one.session.link.send([claim[1]]) == len(claim[1])
            with pytest.raises(ProtocolError):
                other.session.receive()
            assert other.session.lost is not None


def test_memory_that_nobody_agreed_on_is_not_looked_at() -> None:
    """Offers of nothing are passed over, in any form; the arrays travel then."""
    offers = (
        None,
        3,
        "x",
        (),
        (1, 2, 3),
        (1, 2, 3, 4),
        ("x", 3),
        ("x", (1, 2, "y", 4)),
        (1 << 80, -1, "psgd-x", PAGES * PAGE_BYTES),
    )
    ends = [End(SocketLink(sock), is_server=number == 0) for number, sock in enumerate(socket.socketpair())]
    one, other = ends
    try:
        one.move(), other.move()
        for offer in offers:
            one.session.link.send(pack(Kind.MEMORY, (), offer).buffers())
            assert other.move() == [] and other.session.lost is None
        assert one.move() == []
        one.session.link.send([frame(meta_of(LARGE), 0, LEAST_BYTES)])
        with pytest.raises(ProtocolError):
            other.session.receive()
    finally:
        for end in ends:
            end.session.close()
    link, back = (SocketLink(sock) for sock in socket.socketpair())
    server = Session(link, keys_for(False), Peer("peer"), is_server=True)
    for _ in range(3):  # an offer and a consent wait until it shares memory, too; there is no third thing to say
        assert server.lost is None
        back.send(pack(Kind.MEMORY, (), None).buffers())
        with contextlib.suppress(ProtocolError):
            server.receive()
    assert server.lost is not None
    back.close()


def test_who_shares_memory_later_takes_what_was_offered_before() -> None:
    """A peer may be ahead, and offer its memory before this side has got as far."""
    sock, back = socket.socketpair()
    one = End(SocketLink(sock), is_server=True)
    late = Session(SocketLink(back), keys_for(False), Peer("peer"), is_server=False)
    one.session.queue(LARGE, (0,))
    one.move()
    late.receive()
    late.share_memory(Outbox())
    late.send()
    one.move()
    one.session.queue(LARGE, (0,))
    one.move()
    late.receive()
    assert (len(late.inbox), late.bytes_shared) == (2, LARGE.nbytes)
    one.session.close()
    late.close()


def test_a_fork_of_the_reader_lets_go_of_nothing() -> None:
    """What it inherits are copies; the pages are free when the reader itself is done."""
    with pair() as (one, other):
        content = np.full(SIZE, 7, np.uint8)
        found = sent(one, other, content)
        place = found.ctypes.data
        child = os.fork()
        if not child:
            del found
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert sent(one, other, content).ctypes.data != place
        del found
        assert sent(one, other, content).ctypes.data == place


def test_a_reader_that_is_gone_keeps_its_pages_from_others() -> None:
    """It may still read them: that its connection has ended says nothing of that."""
    with pair() as (one, other):
        found = sent(one, other, np.full(SIZE, 7, np.uint8))
        other.session.close()
        sock, back = socket.socketpair()
        again = Session(SocketLink(sock), keys_for(False), Peer("peer"), is_server=True)
        again.share_memory(one.outbox)
        reader = End(SocketLink(back), is_server=False)
        for _ in range(4):
            again.queue(np.full(SIZE, 8, np.uint8), (1,))
            again.send(), reader.move(), again.receive()
        assert again.bytes_shared and (found == 7).all()
        again.close()
        reader.session.close()


def test_pages_of_a_reader_that_was_killed_are_used_again() -> None:
    outbox = Outbox()
    assert outbox.handle is not None
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(4 * PAGES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        process, descriptor, name, size = reader.stdout.readline().split()
        table = PeerTable((int(process), int(descriptor), name, int(size)))
        half = [np.zeros(PAGES * PAGE_BYTES // 2, np.uint8) for _ in range(3)]
        assert [outbox.leave(table, [array]) is not None for array in half] == [True, True, False]
        assert not table.ended
        reader.kill()
    memory = SharedMemory(4 * PAGES)
    other = PeerTable(memory.handle)
    assert outbox.leave(other, [half[2]]) == (0, half[2].nbytes)

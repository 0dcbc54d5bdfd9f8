"""Frames: whole messages out of any cut of the stream, and nothing out of a stream that someone has touched."""

from __future__ import annotations

import hmac
import itertools
import random
import struct
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgpack
import numpy as np
import pytest

from network.errors import ProtocolError
from network.frames import FrameReader, Message
from network.keys import MAC_SIZE, Opener, Sealer
from network.wire import HEADER, MAX_HEAD, Kind, Limits, allocate, pack, unpack

from ..statements import covers

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
SMALL = Limits(meta=1 << 12, data=20_000, message=1 << 20)
MIB = 1 << 20
VALUES: list[Any] = [
    None,
    {"word": "text", 1: (2, [3.5])},
    np.arange(5, dtype=np.int16),
    [np.zeros(0), np.float32(3), b"long" * 2000],
    np.arange(30_000, dtype=np.float64).reshape(100, 300),  # 240,000 bytes: twelve frames under SMALL
    {"many": [np.full(4_999, i, np.uint8) for i in range(9)]},
    "end",
]


def frames_of(values: Sequence[Any], sealed: bool = True, key: bytes = KEY, limits: Limits = SMALL) -> list[bytes]:
    """One bytes object per message, as it travels."""
    sealer = Sealer(key) if sealed else None
    return [
        b"".join(pack(Kind.MESSAGE, (number,), value, sealed, (), limits).buffers(sealer))
        for number, value in enumerate(values)
    ]


def reader(sealed: bool = True, key: bytes = KEY, limits: Limits = SMALL, **more: Any) -> FrameReader:
    return FrameReader(Opener(key) if sealed else None, sealed, limits, **more)


def feed(target: FrameReader, data: bytes | bytearray | memoryview, sizes: Iterable[int] = itertools.repeat(1 << 30)) -> None:
    """Give `data` to the reader as a link would, in portions of at most `sizes`."""
    rest = memoryview(data)
    for size in sizes:
        if not rest:
            return
        buffer = target.buffer()
        assert buffer
        count = min(size, len(buffer), len(rest))
        buffer[:count] = rest[:count]
        rest = rest[count:]
        target.advance(count)


def contents(messages: Iterable[Message]) -> list[bytes]:
    """Messages as comparable bytes."""
    return [b"".join(pack(Kind.MESSAGE, m.head, m.value).buffers()) for m in messages]


def expected(values: Sequence[Any]) -> list[bytes]:
    return [b"".join(pack(Kind.MESSAGE, (n,), v).buffers()) for n, v in enumerate(values)]


CUTS: dict[str, Callable[[], Iterable[int]]] = {
    "whole": lambda: itertools.repeat(1 << 30),
    "single bytes": lambda: itertools.repeat(1),
    "sevens": lambda: itertools.repeat(7),
    "random small": lambda: map(random.Random(1).randint, itertools.repeat(1), itertools.repeat(40)),
    "random large": lambda: map(random.Random(2).randint, itertools.repeat(1), itertools.repeat(30_000)),
}


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("cut", CUTS)
def test_messages_arrive_whole_however_the_stream_is_cut(cut: str, sealed: bool) -> None:
    target = reader(sealed)
    feed(target, b"".join(frames_of(VALUES, sealed)), CUTS[cut]())
    assert contents(target.messages) == expected(VALUES)


@covers("SUB-40")
@pytest.mark.parametrize("sealed", [False, True])
def test_the_sizes_of_a_message_add_up_to_its_bytes(sealed: bool) -> None:
    """Raw bytes and overhead are told on both ends and sum to what travels."""
    sealer = Sealer(KEY) if sealed else None
    target = reader(sealed)
    for value in VALUES:
        packed = pack(Kind.MESSAGE, (), value, sealed, (), SMALL)
        data = b"".join(packed.buffers(sealer))
        feed(target, data)
        message = target.messages.pop()
        assert packed.raw == message.raw
        assert packed.overhead == message.overhead
        assert packed.raw + packed.overhead == len(data)


def test_large_arrays_are_read_into_their_own_memory() -> None:
    [data] = frames_of([np.zeros(100_000, np.uint8)], sealed=False, limits=Limits())
    target = reader(sealed=False, limits=Limits())
    feed(target, data[: HEADER.size + HEADER.unpack(data[: HEADER.size])[3]])
    buffer = target.buffer()
    assert len(buffer) == 100_000
    buffer[:] = b"\7" * len(buffer)
    target.advance(len(buffer))
    assert target.messages[0].value.sum() == 7 * 100_000


@pytest.mark.parametrize("array", [np.zeros((0, 3)), np.zeros((3, 0), np.int8), np.array(5.0), np.zeros((1, 1, 1))])
def test_odd_shapes(array: Any) -> None:
    for sealed in (False, True):
        target = reader(sealed)
        feed(target, b"".join(frames_of([[array, array]], sealed)))
        for received in target.messages[0].value:
            assert received.shape == array.shape
            assert received.dtype == array.dtype


# ---- what is not said honestly


def survivors(stream: bytes | bytearray, **more: Any) -> tuple[list[bytes], bool]:
    """Messages that a sealed reader delivers from `stream`, and whether it refused the rest."""
    target = reader(**more)
    try:
        feed(target, stream)
    except ProtocolError:
        return contents(target.messages), True
    return contents(target.messages), False


SHORT: list[Any] = [{"a": 1}, np.arange(7, dtype=np.int32), ["x" * 30, np.float64(2)], (1, 2)]


@covers("SEC-7")
def test_a_bit_flip_at_every_byte_is_refused() -> None:
    """Whichever byte of a sealed recording is altered, the altered message and all after it are never delivered."""
    frames, whole = frames_of(SHORT), expected(SHORT)
    stream = b"".join(frames)
    ends = list(itertools.accumulate(map(len, frames)))
    refused = 0
    for place in range(len(stream)):
        for bit in (1 << place % 8, 0x80):
            altered = bytearray(stream)
            altered[place] ^= bit
            untouched = sum(end <= place for end in ends)
            # what comes next completes a frame whose length was made longer
            delivered, stopped = survivors(altered + bytes(SMALL.meta + SMALL.data + 100))
            assert delivered == whole[:untouched]
            refused += stopped
    assert refused == 2 * len(stream)


@covers("SEC-7")
def test_a_bit_flip_in_a_message_of_many_frames_is_refused() -> None:
    """Also in data that was written to its destination before its MAC came."""
    value = np.arange(9_000, dtype=np.float64)
    [data] = frames_of([value])
    rng = random.Random(3)
    for place in [*rng.sample(range(len(data)), 200), *range(20_000, 20_200)]:
        altered = bytearray(data)
        altered[place] ^= 1 << rng.randrange(8)
        delivered, stopped = survivors(altered + bytes(30_000))
        assert delivered == []
        assert stopped


@covers("SEC-7")
def test_a_cut_stream_delivers_only_what_was_whole() -> None:
    frames, whole = frames_of(SHORT), expected(SHORT)
    stream = b"".join(frames)
    ends = list(itertools.accumulate(map(len, frames)))
    for size in range(len(stream)):
        delivered, stopped = survivors(stream[:size])
        assert delivered == whole[: sum(end <= size for end in ends)]
        assert not stopped


def rearrangements() -> dict[str, tuple[list[bytes], int]]:
    """Streams of whole honest frames in an order that nobody sent, and how many of their messages are still genuine."""
    a, b, c, d = frames_of(SHORT)
    other = frames_of(SHORT, key=OTHER_KEY)
    earlier = frames_of([*SHORT, *SHORT])
    return {
        "replay": ([a, a, b], 1),
        "late replay": ([a, b, c, a], 3),
        "reorder": ([a, c, b, d], 1),
        "swap of the first": ([b, a], 0),
        "drop": ([a, c, d], 1),
        "drop of the first": ([b, c, d], 0),
        "splice from another session": ([a, other[1], c], 1),
        "reflection": ([other[0]], 0),
        "same message at another number": ([a, b, c, d, earlier[0]], 4),
    }


@covers("SEC-4")
@pytest.mark.parametrize("name", rearrangements())
def test_replay_reorder_drop_and_splice_are_refused(name: str) -> None:
    """a frame counts once, in its place, in its session and direction."""
    stream, genuine = rearrangements()[name]
    delivered, stopped = survivors(b"".join(stream))
    assert stopped
    assert delivered == expected(SHORT)[:genuine]


@covers("SEC-4")
def test_frames_of_one_message_cannot_be_exchanged() -> None:
    """MORE frames have no meta of their own, but a place in the sequence."""
    [data] = frames_of([np.arange(9_000, dtype=np.float64)])
    size = HEADER.size + SMALL.data + MAC_SIZE
    first = len(data) - 3 * size
    last = len(data) - first - 2 * size
    second, third = data[-last - 2 * size : -last - size], data[-last - size : -last]
    assert len(second) == len(third) == size
    delivered, stopped = survivors(data[: -last - 2 * size] + third + second + data[-last:])
    assert stopped
    assert not delivered


# ---- seals


def test_a_seal_is_the_hmac_of_the_sequence_number_and_the_frame() -> None:
    """And numbers are never used twice: a session that has used all of them is over."""
    sealer, opener = Sealer(KEY), Opener(KEY)
    for number, parts in enumerate([(b"header-1", b"meta", b"data"), (b"header-2", b"", b""), (b"header-3", bytearray(1000))]):
        seal = sealer.seal(parts)
        assert seal == hmac.digest(KEY, struct.pack("!Q", number) + b"".join(parts), "sha256")
        opener.verify([memoryview(part) for part in parts], bytearray(seal))
    last = Sealer(KEY, first=2**64 - 1)
    assert last.seal([b"x"]) == hmac.digest(KEY, b"\xff" * 8 + b"x", "sha256")
    for use in (lambda: last.seal([b"x"]), lambda: Opener(KEY, first=2**64).verify([b"x"], bytes(32))):
        with pytest.raises(ProtocolError, match=r"used up its 2\*\*64 sequence numbers"):
            use()


@covers("SEC-4")
def test_after_one_bad_frame_nothing_is_accepted_any_more() -> None:
    """An attacker has one try, then the session is over."""
    sealer, opener = Sealer(KEY), Opener(KEY)
    seals = [sealer.seal([b"frame"]) for _ in range(3)]
    for seal in (bytes(32), *seals, seals[0][:31]):
        with pytest.raises(ProtocolError, match="seal does not verify"):
            opener.verify([b"frame"], seal)


# ---- states


def frame(kind: int, meta: bytes = b"", data: bytes = b"", flags: int = 0, reserved: int = 0) -> bytes:
    return HEADER.pack(kind, flags, reserved, len(meta), len(data)) + meta + data


EMPTY = msgpack.packb([[], [], None])
WITH_DATA = msgpack.packb([[], [["|u1", 4]], {"a": 0}])
OUT_OF_STATE: dict[str, list[bytes]] = {
    "unknown kind": [frame(9, EMPTY)],
    "kind zero": [frame(0, EMPTY)],
    "flags": [frame(Kind.MESSAGE, EMPTY, flags=1)],
    "reserved": [frame(Kind.MESSAGE, EMPTY, reserved=1)],
    "no meta": [frame(Kind.MESSAGE)],
    "farewell with nothing": [frame(Kind.BYE)],
    "more without a message": [frame(Kind.MORE, b"", b"1234")],
    "more with meta": [frame(Kind.MESSAGE, WITH_DATA, b"12"), frame(Kind.MORE, EMPTY, b"34")],
    "more with nothing": [frame(Kind.MESSAGE, WITH_DATA, b"12"), frame(Kind.MORE)],
    "more than announced": [frame(Kind.MESSAGE, WITH_DATA, b"12"), frame(Kind.MORE, b"", b"345")],
    "data that nobody announced": [frame(Kind.MESSAGE, EMPTY, b"1")],
    "a message inside a message": [frame(Kind.MESSAGE, WITH_DATA, b"12"), frame(Kind.MESSAGE, EMPTY)],
    "ready out of turn": [frame(Kind.READY, EMPTY)],
    "anything after farewell": [frame(Kind.BYE, EMPTY), frame(Kind.MESSAGE, EMPTY)],
    "farewell twice": [frame(Kind.BYE, EMPTY), frame(Kind.BYE, EMPTY)],
    "head too long": [frame(Kind.MESSAGE, msgpack.packb([[1] * (MAX_HEAD + 1), [], None]))],
    "head of floats": [frame(Kind.MESSAGE, msgpack.packb([[1.0], [], None]))],
    "no head": [frame(Kind.MESSAGE, msgpack.packb([None, [], None]))],
    "two parts": [frame(Kind.MESSAGE, msgpack.packb([[], []]))],
    "a map": [frame(Kind.MESSAGE, msgpack.packb({"a": 1}))],
    "bytes after the meta": [frame(Kind.MESSAGE, EMPTY + b"\0")],
    "array that is not used": [frame(Kind.MESSAGE, msgpack.packb([[], [["|u1", 4]], None]), b"1234")],
}


@covers("SEC-3")
@pytest.mark.parametrize("name", OUT_OF_STATE)
def test_frames_out_of_state_are_refused(name: str) -> None:
    target = reader(sealed=False)
    with pytest.raises(ProtocolError):
        feed(target, b"".join(OUT_OF_STATE[name]))
        (message,) = target.messages  # whose frame is right: what it holds is looked at when somebody asks for it
        _ = message.value


@pytest.mark.parametrize("kind", [Kind.MESSAGE, Kind.BYE])
def test_a_client_accepts_nothing_before_ready(kind: Kind) -> None:
    target = reader(sealed=True, expect_ready=True)
    with pytest.raises(ProtocolError, match="wrong state"):
        feed(target, b"".join(pack(kind, (), None, True).buffers(Sealer(KEY))))


def test_ready_is_sealed_also_where_nothing_else_is() -> None:
    target = FrameReader(Opener(KEY), sealed=False, limits=SMALL, expect_ready=True)
    feed(target, b"".join(pack(Kind.READY, (), {"sealed": False}, True).buffers(Sealer(KEY))))
    assert target.ready == {"sealed": False}
    feed(target, b"".join(frames_of(["plain"], sealed=False)))
    assert target.messages[0].value == "plain"
    impostor = FrameReader(Opener(KEY), sealed=False, limits=SMALL, expect_ready=True)
    with pytest.raises(ProtocolError, match="seal does not verify"):
        feed(impostor, b"".join(pack(Kind.READY, (), {"sealed": False}, True).buffers(Sealer(OTHER_KEY))))


@covers("SUB-38")
def test_a_message_beyond_the_limits_is_refused_before_it_leaves() -> None:
    with pytest.raises(ValueError, match=r"may hold 1048576 bytes of arrays, got 1048584: send it in parts"):
        pack(Kind.MESSAGE, (), np.zeros(131_073), False, (), SMALL)
    with pytest.raises(ValueError, match=r"may hold 4096 bytes beside its arrays, got \d+: send large data as arrays"):
        pack(Kind.MESSAGE, (), ["x" * 100] * 100, False, (), SMALL)
    with pytest.raises(ValueError, match="may have 8 integers, got 9"):
        pack(Kind.MESSAGE, range(9), None)


# ---- memory


def traced_peak(action: Callable[[], object]) -> tuple[int, str]:
    """Peak of traced memory during `action`, which must raise ProtocolError, and the error's text."""
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError) as caught:
            action()
        return tracemalloc.get_traced_memory()[1], str(caught.value)
    finally:
        tracemalloc.stop()


def message(meta: bytes) -> bytes:
    return HEADER.pack(Kind.MESSAGE, 0, 0, len(meta), 0) + meta


def announcing(*layout: Any) -> bytes:
    return message(msgpack.packb([[], list(layout), None]))


HUGE = struct.pack("!I", 0xFFFFFFFF)
BOMBS: dict[str, bytes] = {
    "meta of 4 GiB": HEADER.pack(Kind.MESSAGE, 0, 0, 0xFFFFFFFF, 0),
    "data of 16 EiB": HEADER.pack(Kind.MESSAGE, 0, 0, 1, 2**64 - 1),
    "data of 9 MiB": HEADER.pack(Kind.MESSAGE, 0, 0, 1, 9 * MIB),
    "list of 4 Gi items": message(b"\xdd" + HUGE),
    "map of 4 Gi items": message(b"\xdf" + HUGE),
    "map of 64 Ki items": message(b"\xde\xff\xff" + b"\xa1k\0" * 65535),
    "str of 4 GiB": message(b"\xdb" + HUGE),
    "bytes of 4 GiB": message(b"\xc6" + HUGE),
    "extension of 4 GiB": message(b"\xc9" + HUGE + b"\1"),
    "timestamp": message(b"\x93\x90\x90\xd6\xff\0\0\0\0"),
    "nesting of 100,000": message(b"\x91" * 100_000),
    "tag nesting of 10,000": message(b"\x81\xa1t" * 10_000),
    "array of 32 GiB": announcing(["<f8", 1 << 16, 1 << 16]),
    "array of 2**62 items": announcing(["|u1", 1 << 31, 1 << 31]),
    "arrays of 4 GiB together": announcing(*[["|u1", 1 << 30]] * 4),
    "no items in impossible dimensions": announcing(["<f8", 0, *[1 << 31] * 30]),
    "33 dimensions": announcing(["<f8", *[1] * 33]),
    "negative dimension": announcing(["<f8", -1]),
    "dimension of another type": announcing(["<f8", 1.0]),
    "bool dimension": announcing(["<f8", True]),
    "objects": announcing(["|O", 1]),
    "strings": announcing(["<U9999999", 1]),
    "records": announcing(["|V8", 1]),
    "type that is a list": announcing([["<f8"], 1]),
    "type that is a tag": announcing([{"t": [1]}, 1]),
    "no type": announcing([]),
    "layout that is no list": message(msgpack.packb([[], "x", None])),
}


@covers("SEC-8")
@pytest.mark.parametrize("name", BOMBS)
def test_limits_come_before_allocation(name: str) -> None:
    """What is announced costs nothing; only what was sent does."""
    target = reader(sealed=False, limits=Limits())
    peak, text = traced_peak(lambda: feed(target, BOMBS[name]))
    assert peak < 4 * MIB
    assert text.endswith(".")


@covers("SEC-8")
def test_a_sealed_bomb_is_refused_on_its_header_too() -> None:
    """Lengths are checked before the seal is there to be checked."""
    target = reader(sealed=True, limits=Limits())
    peak, _ = traced_peak(lambda: feed(target, BOMBS["data of 16 EiB"]))
    assert peak < MIB


@covers("SEC-8", "SEC-22")
def test_what_waits_in_line_takes_its_bytes() -> None:
    """a meta made of one-byte lists, the worst case, is 1 MiB of objects for 13 KiB as soon as somebody asks."""
    size = MIB // 8
    data = message(b"\x93\x90\x90" + b"\xdd" + struct.pack("!I", size) + b"\x90" * size)
    target = reader(sealed=False, limits=Limits())
    tracemalloc.start()
    for _ in range(16):
        feed(target, data)
    waiting = tracemalloc.get_traced_memory()[0]
    assert len(target.messages.popleft().value) == size
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert waiting < 18 * size
    assert peak - waiting < 80 * size


@covers("SEC-8")
def test_nested_claims_reserve_nothing() -> None:
    """Lists that claim the whole message each, one inside the other."""
    size = 1 << 16
    claims = (b"\xdd" + struct.pack("!I", size)) * 900
    peak, _ = traced_peak(lambda: unpack(claims + bytes(size - len(claims))))
    assert peak < MIB


def test_allocation_says_what_is_too_much() -> None:
    with pytest.raises(ProtocolError, match="announces 80 bytes of arrays, more than the 79 allowed"):
        allocate([["<f8", 10]], 79)


# ---- memory that somebody has ready


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("cut", CUTS)
def test_an_array_is_read_to_where_it_belongs(cut: str, sealed: bool) -> None:
    sent = [np.arange(n, dtype=np.int16) for n in (3, 30_000)]
    ready = [np.zeros(n, np.int16) for n in (3, 30_000)]
    target = reader(sealed)
    target.place = lambda head: ready[head[0]]
    feed(target, b"".join(frames_of(sent, sealed)), CUTS[cut]())
    for array, message in zip(ready, target.messages, strict=True):
        assert message.value is array
    assert all(np.array_equal(a, b) for a, b in zip(sent, ready, strict=True))


@pytest.mark.parametrize("value", [np.ones(4), np.ones((2, 2), np.float32), [np.ones(3), np.ones(3)], "text", None])
def test_a_place_that_does_not_fit_is_left_alone(value: Any) -> None:
    ready = np.zeros(3)
    target = reader(sealed=False)
    target.place = lambda head: ready if head == (0,) else None
    feed(target, b"".join(frames_of([value, np.ones(3)], sealed=False)))
    assert contents(target.messages) == expected([value, np.ones(3)])
    assert not ready.any()

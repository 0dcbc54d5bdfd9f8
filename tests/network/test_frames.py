"""Frames: whole messages out of any cut of the stream, and nothing out of a stream that someone has touched.

Metadata that came before takes a shorter way: the same bytes and values, and nothing is known that was not checked.
"""

from __future__ import annotations

import itertools
import random
import struct
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.errors import ProtocolError
from network.frames import FrameReader
from network.message import Message
from network.records import AES, Opener, Sealer
from network.values import encode
from network.wire import (
    HEADER,
    LONGEST,
    MAX_HEAD,
    MOST_KNOWN,
    TAG_SIZE,
    Kind,
    KnownTails,
    Limits,
    Sent,
    allocate,
    pack,
    size_of,
    split,
    tail_of,
    unpack,
)

from ..statements import covers
from .wires import travelling

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
    sealer = Sealer(AES, key) if sealed else None
    return [travelling(pack(Kind.MESSAGE, (n,), v, sealed, (), limits), sealer) for n, v in enumerate(values)]


def reader(sealed: bool = True, limits: Limits = SMALL, **more: Any) -> FrameReader:
    return FrameReader(Opener(AES, KEY) if sealed else None, sealed, limits, **more)


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
    return frames_of(values, sealed=False, limits=Limits())


CUTS: dict[str, Callable[[], Iterable[int]]] = {
    "whole": lambda: itertools.repeat(1 << 30),
    "single bytes": lambda: itertools.repeat(1),
    "sevens": lambda: itertools.repeat(7),
    "random small": lambda: map(random.Random(1).randint, itertools.repeat(1), itertools.repeat(40)),
    "random large": lambda: map(random.Random(2).randint, itertools.repeat(1), itertools.repeat(30_000)),
}


@covers("SUB-40")
@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.share(2)
def test_messages_arrive_whole_however_the_stream_is_cut(cut: str, sealed: bool) -> None:
    """Raw bytes and overhead are told on both ends and sum to what travels; an array is read to where it belongs."""
    target, stream = reader(sealed), frames_of(VALUES, sealed)
    feed(target, b"".join(stream), CUTS[cut]())
    assert contents(target.messages) == expected(VALUES)
    for value, message, data in zip(VALUES, target.messages, stream, strict=True):
        packed = pack(Kind.MESSAGE, message.head, value, sealed, (), SMALL)
        assert (packed.raw, packed.overhead) == (message.raw, message.overhead)
        assert packed.raw + packed.overhead == len(data)
    sent = [np.arange(n, dtype=np.int16) for n in (3, 30_000)]
    ready = [np.zeros(n, np.int16) for n in (3, 30_000)]
    target = reader(sealed)
    target.place = lambda head: ready[head[0]]
    feed(target, b"".join(frames_of(sent, sealed)), CUTS[cut]())
    for array, came, message in zip(sent, ready, target.messages, strict=True):
        assert message.value is came and np.array_equal(array, came)


@pytest.mark.parametrize("value", [np.ones(4), np.ones((2, 2), np.float32), [np.ones(3), np.ones(3)], "text", None])
def test_a_place_that_does_not_fit_is_left_alone(value: Any) -> None:
    ready = np.zeros(3)
    target = reader(sealed=False)
    target.place = lambda head: ready if head == (0,) else None
    feed(target, b"".join(frames_of([value, np.ones(3)], sealed=False)))
    assert contents(target.messages) == expected([value, np.ones(3)])
    assert not ready.any()


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
        assert [(a.shape, a.dtype) for a in target.messages[0].value] == [(array.shape, array.dtype)] * 2


# ---- what is not said honestly

SHORT: list[Any] = [{"a": 1}, np.arange(7, dtype=np.int32), ["x" * 30, np.float64(2)], (1, 2)]


def survivors(stream: bytes | bytearray) -> tuple[list[bytes], bool]:
    """Messages that a sealed reader delivers from `stream`, and whether it refused the rest."""
    target = reader()
    try:
        feed(target, stream)
    except ProtocolError:
        return contents(target.messages), True
    return contents(target.messages), False


@covers("SEC-7")
def test_nothing_is_delivered_from_a_flipped_bit_or_a_cut_on() -> None:
    """Whichever byte of a sealed recording is altered, the altered message and all after it are never delivered."""
    frames, whole = frames_of(SHORT), expected(SHORT)
    stream, ends = b"".join(frames), list(itertools.accumulate(map(len, frames)))
    for place in range(len(stream)):
        assert survivors(stream[:place]) == (whole[: sum(end <= place for end in ends)], False)
        for bit in (1 << place % 8, 0x80):
            altered = bytearray(stream)
            altered[place] ^= bit
            # what comes next completes a frame whose length was made longer
            after = survivors(altered + bytes(SMALL.meta + SMALL.data + 100))
            assert after == (whole[: sum(end <= place for end in ends)], True)


@covers("SEC-4", "SEC-7")
def test_a_message_of_many_frames_is_altered_in_none() -> None:
    """Also in data that was written to its destination before its MAC came. MORE frames have no meta of their own, but a place
    in the sequence."""
    [data] = frames_of([np.arange(9_000, dtype=np.float64)])
    rng = random.Random(3)
    for place in [*rng.sample(range(len(data)), 200), *range(20_000, 20_200)]:
        altered = bytearray(data)
        altered[place] ^= 1 << rng.randrange(8)
        assert survivors(altered + bytes(30_000)) == ([], True)
    size = HEADER.size + SMALL.data + TAG_SIZE
    last = len(data) - (len(data) - 3 * size) - 2 * size
    second, third = data[-last - 2 * size : -last - size], data[-last - size : -last]
    assert len(second) == len(third) == size
    assert survivors(data[: -last - 2 * size] + third + second + data[-last:]) == ([], True)


def rearrangements() -> dict[str, tuple[list[bytes], int]]:
    """Streams of whole honest frames in an order that nobody sent, and how many of their messages are still genuine."""
    a, b, c, d = frames_of(SHORT)
    other = frames_of(SHORT, key=OTHER_KEY)
    return {
        "replay": ([a, a, b], 1),
        "late replay": ([a, b, c, a], 3),
        "reorder": ([a, c, b, d], 1),
        "swap of the first": ([b, a], 0),
        "drop": ([a, c, d], 1),
        "drop of the first": ([b, c, d], 0),
        "splice from another session": ([a, other[1], c], 1),
        "reflection": ([other[0]], 0),
        "same message at another number": ([a, b, c, d, frames_of([*SHORT, *SHORT])[0]], 4),
    }


@covers("SEC-4")
@pytest.mark.parametrize("name", rearrangements())
def test_replay_reorder_drop_and_splice_are_refused(name: str) -> None:
    """a frame counts once, in its place, in its session and direction."""
    stream, genuine = rearrangements()[name]
    assert survivors(b"".join(stream)) == (expected(SHORT)[:genuine], True)


# ---- states


def frame(kind: int, meta: bytes = b"", data: bytes = b"", flags: int = 0, reserved: int = 0) -> bytes:
    return HEADER.pack(kind, flags, reserved, len(meta), len(data)) + meta + data


EMPTY = msgpack.packb([[], [], None])
WITH_DATA = msgpack.packb([[], [["|u1", 4]], {"a": 0}])
HALF = frame(Kind.MESSAGE, WITH_DATA, b"12", flags=1)
OUT_OF_STATE: dict[str, bytes] = {
    "unknown kind": frame(9, EMPTY),
    "kind zero": frame(0, EMPTY),
    "flags": frame(Kind.MESSAGE, EMPTY, flags=2),
    "a whole message that says it goes on": frame(Kind.MESSAGE, EMPTY, flags=1),
    "half a message that says it is whole": frame(Kind.MESSAGE, WITH_DATA, b"12"),
    "reserved": frame(Kind.MESSAGE, EMPTY, reserved=1),
    "no meta": frame(Kind.MESSAGE),
    "farewell with nothing": frame(Kind.BYE),
    "more without a message": frame(Kind.MORE, b"", b"1234"),
    "more with meta": HALF + frame(Kind.MORE, EMPTY, b"34"),
    "more with nothing": HALF + frame(Kind.MORE),
    "more than announced": HALF + frame(Kind.MORE, b"", b"345"),
    "data that nobody announced": frame(Kind.MESSAGE, EMPTY, b"1"),
    "a message inside a message": HALF + frame(Kind.MESSAGE, EMPTY),
    "ready out of turn": frame(Kind.READY, EMPTY),
    "anything after farewell": frame(Kind.BYE, EMPTY) + frame(Kind.MESSAGE, EMPTY),
    "farewell twice": frame(Kind.BYE, EMPTY) * 2,
    "head too long": frame(Kind.MESSAGE, msgpack.packb([[1] * (MAX_HEAD + 1), [], None])),
    "head of floats": frame(Kind.MESSAGE, msgpack.packb([[1.0], [], None])),
    "no head": frame(Kind.MESSAGE, msgpack.packb([None, [], None])),
    "two parts": frame(Kind.MESSAGE, msgpack.packb([[], []])),
    "a map": frame(Kind.MESSAGE, msgpack.packb({"a": 1})),
    "bytes after the meta": frame(Kind.MESSAGE, EMPTY + b"\0"),
    "array that is not used": frame(Kind.MESSAGE, msgpack.packb([[], [["|u1", 4]], None]), b"1234"),
}


@covers("SEC-3")
@pytest.mark.parametrize("name", OUT_OF_STATE)
def test_frames_out_of_state_are_refused(name: str) -> None:
    target = reader(sealed=False)
    with pytest.raises(ProtocolError):
        feed(target, OUT_OF_STATE[name])
        (message,) = target.messages  # whose frame is right: what it holds is looked at when somebody asks for it
        _ = message.value


def test_ready_comes_first_and_is_sealed_also_where_nothing_else_is() -> None:
    def start(kind: Kind, value: Any, key: bytes = KEY) -> bytes:
        return travelling(pack(kind, (), value, True), Sealer(AES, key))

    def client(sealed: bool) -> FrameReader:
        return FrameReader(Opener(AES, KEY), sealed, SMALL, expect_ready=True)

    target = client(False)
    assert not target.ready
    feed(target, start(Kind.READY, None)[:20])
    assert not target.ready
    feed(target, start(Kind.READY, None)[20:])
    assert target.ready and not target.told
    feed(target, b"".join(frames_of(["plain"], sealed=False)))
    assert target.messages[0].value == "plain"
    for data, fault in (
        (start(Kind.READY, None, OTHER_KEY), "record does not open"),
        (start(Kind.MESSAGE, None), "wrong state"),
        (start(Kind.BYE, None), "wrong state"),
        (start(Kind.READY, {"Slots": 1}), "READY must hold nothing or a dict of at most 16 names"),
        (start(Kind.READY, np.zeros(3)), "READY must hold nothing or"),
    ):
        with pytest.raises(ProtocolError, match=fault):
            feed(client("state" in fault), data)


@pytest.mark.long
@covers("SUB-38")
def test_a_message_beyond_the_limits_is_refused_before_it_leaves() -> None:
    for head, value, fault in (
        ((), np.zeros(131_073), r"may hold 1048576 bytes of arrays, got 1048584: send it in parts"),
        ((), ["x" * 100] * 100, r"may hold 4096 bytes beside its arrays, got \d+: send large data as arrays"),
        (range(9), None, "may have 8 integers, got 9"),
        ((), [[]] * 1_000_000, r"would become more than .* send numbers as arrays, or in parts"),
    ):
        with pytest.raises(ValueError, match=fault):
            pack(Kind.MESSAGE, head, value, False, (), Limits() if type(value) is list and not value[0] else SMALL)


# ---- memory


def message(meta: bytes) -> bytes:
    return HEADER.pack(Kind.MESSAGE, 0, 0, len(meta), 0) + meta


def announcing(*layout: Any) -> bytes:
    return message(msgpack.packb([[], list(layout), None]))


HUGE = struct.pack("!I", 0xFFFFFFFF)
NESTED_CLAIMS = b"\xdd" + struct.pack("!I", 1 << 16)
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
    "lists that claim it all, one inside the other": message(NESTED_CLAIMS * 900 + bytes((1 << 16) - 4500)),
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
@pytest.mark.parametrize(("name", "sealed"), [*((name, False) for name in BOMBS), ("data of 16 EiB", True)])
def test_limits_come_before_allocation(name: str, sealed: bool) -> None:
    """What is announced costs nothing; only what was sent does. A header is refused before its seal is there."""
    target = reader(sealed, Limits())
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError) as caught:
            feed(target, BOMBS[name])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (MIB if sealed else 4 * MIB) and str(caught.value).endswith(".")


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
    assert waiting < 18 * size and peak - waiting < 80 * size
    with pytest.raises(ProtocolError, match="announces 80 bytes of arrays, more than the 79 allowed"):
        allocate([["<f8", 10]], 79)


# ---- metadata that came before

INTEGERS = st.integers(-(1 << 63), (1 << 64) - 1)


def read(target: FrameReader, data: bytes) -> Message:
    """The one message that a reader makes of bytes."""
    feed(target, data)
    return target.messages.pop()


def wire(head: Sequence[int], value: object) -> bytes:
    return b"".join(pack(Kind.MESSAGE, head, value).buffers())


@given(
    st.lists(INTEGERS, max_size=3),
    st.lists(st.integers(0, 5), max_size=3),
    st.sampled_from(["f4", "f8", "i1", "u2", "?", "c8"]),
    st.lists(INTEGERS, max_size=8),
)
def test_the_short_way_gives_the_same_bytes(integers: list[int], shape: list[int], code: str, head: list[int]) -> None:
    array = np.zeros(shape, code)
    value = (*integers, array) if integers else array
    tree, arrays = encode(value)
    long = msgpack.packb([head, [[a.dtype.str, *a.shape] for a in arrays], tree])
    packed = wire(head, value)
    assert packed[16 : 16 + len(long)] == long
    target = FrameReader()
    for _ in range(3):  # unknown at first, then known
        came = read(target, packed)
        assert came.head == tuple(head)
        got = came.value if integers else (came.value,)
        assert tuple(got[:-1]) == tuple(integers) and all(type(number) is int for number in got[:-1])
        assert got[-1].dtype == array.dtype and got[-1].shape == array.shape


LITTLE = st.one_of(INTEGERS, st.integers(-300, 70_000), st.booleans(), st.none(), st.floats())


@given(
    st.lists(LITTLE, max_size=14),
    st.lists(st.integers(0, 300), max_size=2),
    st.sampled_from(["f4", ">f8", "i1", "u2", "?", "c8"]),
    st.lists(INTEGERS, max_size=8),
    st.booleans(),
    st.sampled_from([Limits(), Limits(data=1000), Limits(data=40_000)]),
)
def test_bytes_of_a_message_are_known_without_it(
    before: list[Any], shape: list[int], code: str, head: list[int], sealed: bool, limits: Limits
) -> None:
    array = np.zeros(shape, code)
    for value in (array, (*before, array), (array, *before)):
        packed = pack(Kind.MESSAGE, head, value, sealed, limits=limits)
        known = size_of(head, value, sealed, limits)
        assert known is None if code == ">f8" else known == Sent(packed.raw, packed.overhead)


def test_bytes_of_large_messages_are_known_at_the_borders_of_records() -> None:
    for size in (0, 1, 32 << 10, (32 << 10) + 1, 1 << 20, (1 << 20) + 1, 2 << 20, (8 << 20) + 1):
        for sealed in (False, True):
            value = (1, np.zeros(size, np.uint8))
            packed = pack(Kind.MESSAGE, (1, 2), value, sealed)
            assert size_of((1, 2), value, sealed) == Sent(packed.raw, packed.overhead), (size, sealed)


@pytest.mark.parametrize(
    "value", [[1], "a", {1: 2}, (1, 2), (1 << 64, np.zeros(1)), np.array(["a"]), (np.float32(1), np.zeros(1)), tuple(range(16))]
)
def test_bytes_of_what_pack_may_refuse_are_not_known(value: Any) -> None:
    assert size_of((1,), value) is None
    assert size_of((True,), np.zeros(1)) is None and size_of(tuple(range(9)), np.zeros(1)) is None


@pytest.mark.parametrize("first", [True, 1.0, "a", None, [1]])
def test_what_only_looks_alike_keeps_its_type(first: Any) -> None:
    """1, True and 1.0 are equal, and different things."""
    known, value = wire([1], (1, np.zeros(2))), (first, np.zeros(2))
    assert tail_of(value) is None
    target = FrameReader()
    for _ in range(2):
        assert type(read(target, known).value[0]) is int
        assert type(read(target, wire([1], value)).value[0]) is type(first)


@pytest.mark.parametrize("array", [np.zeros((4, 4))[:, ::2], np.zeros(3, ">f4"), np.zeros(3, object), np.array("text")])
def test_arrays_that_take_the_long_way(array: Any) -> None:
    assert tail_of(array) is tail_of((1, array)) is None


TAIL = msgpack.packb([["<f4", 2]]) + msgpack.packb({"a": 0})


def note(tails: KnownTails, meta: bytes, shape: int) -> None:
    tails.note(meta[split(meta)[3] :], unpack(meta)[2], [np.zeros(shape, np.float32)])


@given(st.binary(max_size=300))
def test_whatever_stands_before_a_known_tail_is_a_head_or_the_tail_is_not_found(front: bytes) -> None:
    tails = KnownTails()
    note(tails, b"\x93\x90" + TAIL, 2)
    for meta in (front + TAIL, b"\x93" + front + TAIL, front):
        found = tails.find(meta)
        if found is not None:
            assert len(meta) <= LONGEST and len(found[0]) <= MAX_HEAD
            assert all(type(number) is int for number in found[0])
            assert split(meta)[:2] == (list(found[0]), [["<f4", 2]])


def test_tables_are_bounded_and_what_was_wrong_is_not_known() -> None:
    """A tail with a false place is refused each time it comes."""
    tails, metas = KnownTails(), [msgpack.packb([[7, 300], [["<f4", n]], {"a": 0}]) for n in range(MOST_KNOWN + 100)]
    for size, meta in enumerate(metas):
        note(tails, meta, size)
    found = [tails.find(meta) for meta in metas]
    assert sum(known is not None for known in found) == MOST_KNOWN
    assert found[0] is not None and found[0][0] == (7, 300)
    meta = msgpack.packb([[1], [["<f4", 2]], {"a": False}])
    note(tails := KnownTails(), meta, 2)
    assert tails.find(meta) is None
    for _ in range(2):
        with pytest.raises(ProtocolError):
            _ = read(FrameReader(), frame(Kind.MESSAGE, meta, bytes(8))).value


@covers("SEC-8")
def test_a_head_of_too_many_integers_finds_no_tail() -> None:
    """a tail that is known opens no way around the limit of heads: nine integers are refused as before it was known."""
    array = np.zeros(3, np.float32)
    tree, arrays = encode(array)
    layout = [[a.dtype.str, *a.shape] for a in arrays]
    for count in range(16):
        target = FrameReader()
        assert read(target, wire([1], array)).head == (1,), "now the tail is known"
        whole = frame(Kind.MESSAGE, msgpack.packb([list(range(count)), layout, tree]), array.tobytes())
        if count <= MAX_HEAD:
            assert read(target, whole).head == tuple(range(count))
        else:
            with pytest.raises(ProtocolError, match="malformed head"):
                read(target, whole)

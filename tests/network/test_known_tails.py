"""Known metadata: the same bytes and values as the long way, for whatever may come; nothing is known that was not checked."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.errors import ProtocolError
from network.frames import FrameReader
from network.values import encode
from network.wire import HEADER, LONGEST, MAX_HEAD, MOST_KNOWN, Kind, KnownTails, pack, split, tail_of, unpack

from ..statements import covers

INTEGERS = st.integers(-(1 << 63), (1 << 64) - 1)
SHAPES = st.lists(st.integers(0, 5), max_size=3)


def read(reader: FrameReader, data: bytes) -> list[Any]:
    """What a reader makes of bytes, in pieces as it asks for them."""
    while data:
        buffer = reader.buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        reader.advance(count)
        data = data[count:]
    messages = list(reader.messages)
    reader.messages.clear()
    return messages


def wire(head: list[int], value: object) -> bytes:
    return b"".join(bytes(part) for part in pack(Kind.MESSAGE, head, value).buffers())


@given(
    st.lists(INTEGERS, max_size=3), SHAPES, st.sampled_from(["f4", "f8", "i1", "u2", "?", "c8"]), st.lists(INTEGERS, max_size=8)
)
def test_the_short_way_gives_the_same_bytes(integers: list[int], shape: list[int], code: str, head: list[int]) -> None:
    array = np.zeros(shape, code)
    value = (*integers, array) if integers else array
    tree, arrays = encode(value)
    long = msgpack.packb([head, [[a.dtype.str, *a.shape] for a in arrays], tree])
    packed = b"".join(bytes(part) for part in pack(Kind.MESSAGE, head, value).buffers())
    assert packed[16 : 16 + len(long)] == long
    reader = FrameReader()
    for _ in range(3):  # unknown at first, then known
        (message,) = read(reader, packed)
        assert message.head == tuple(head)
        got = message.value if integers else (message.value,)
        assert tuple(got[:-1]) == tuple(integers) and all(type(number) is int for number in got[:-1])
        assert got[-1].dtype == array.dtype and got[-1].shape == array.shape


@pytest.mark.parametrize(
    "value", [(True, np.zeros(2)), (1.0, np.zeros(2)), ("a", np.zeros(2)), (None, np.zeros(2)), ([1], np.zeros(2))]
)
def test_what_only_looks_alike_keeps_its_type(value: Any) -> None:
    """1, True and 1.0 are equal, and different things."""
    pack(Kind.MESSAGE, [], (1, np.zeros(2)))  # known
    assert tail_of(value) is None
    reader = FrameReader()
    for _ in range(2):
        (message,) = read(reader, wire([1], (1, np.zeros(2))))
        assert type(message.value[0]) is int
        (message,) = read(reader, wire([1], value))
        assert type(message.value[0]) is type(value[0])


@pytest.mark.parametrize("array", [np.zeros((4, 4))[:, ::2], np.zeros(3, ">f4"), np.zeros(3, object), np.array("text")])
def test_arrays_that_take_the_long_way(array: Any) -> None:
    assert tail_of(array) is None
    assert tail_of((1, array)) is None


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


def test_what_was_wrong_is_not_known() -> None:
    """A tail with a false place is refused each time it comes."""
    meta = msgpack.packb([[1], [["<f4", 2]], {"a": False}])
    tails = KnownTails()
    note(tails, meta, 2)
    assert tails.find(meta) is None
    frame = b"\x02" + bytes(3) + len(meta).to_bytes(4, "big") + (8).to_bytes(8, "big") + meta + bytes(8)
    for _ in range(2):
        (message,) = read(FrameReader(), frame)
        with pytest.raises(ProtocolError):
            _ = message.value


def test_the_tables_are_bounded() -> None:
    tails = KnownTails()
    for size in range(MOST_KNOWN + 100):
        meta = msgpack.packb([[1], [["<f4", size]], {"a": 0}])
        note(tails, meta, size)
    found = [tails.find(msgpack.packb([[7, 300], [["<f4", size]], {"a": 0}])) for size in range(MOST_KNOWN + 100)]
    assert sum(known is not None for known in found) == MOST_KNOWN
    first = found[0]
    assert first is not None and first[0] == (7, 300)


@covers("SEC-8")
def test_a_head_of_too_many_integers_finds_no_tail() -> None:
    """a tail that is known opens no way around the limit of heads: nine integers are refused as before it was known."""
    array = np.zeros(3, np.float32)
    tree, arrays = encode(array)
    layout = [[a.dtype.str, *a.shape] for a in arrays]
    for count in range(16):
        reader = FrameReader()
        assert read(reader, wire([1], array))[0].head == (1,), "now the tail is known"
        meta = msgpack.packb([list(range(count)), layout, tree])
        whole = HEADER.pack(Kind.MESSAGE, 0, 0, len(meta), array.nbytes) + meta + array.tobytes()
        if count <= MAX_HEAD:
            assert read(reader, whole)[0].head == tuple(range(count))
        else:
            with pytest.raises(ProtocolError, match="malformed head"):
                read(reader, whole)

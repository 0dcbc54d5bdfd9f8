"""Budgets count the objects that a message would become, before they are made."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from network.budget import LARGEST_GROWTH, OBJECT_BYTES, check_tree, object_bytes
from network.errors import ProtocolError
from network.values import decode, encode
from network.wire import Kind, pack, unpack

from ..statements import covers

MIB = 1 << 20
UNBOUNDED = 1 << 60


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = None


def tree_of(value: object) -> bytes:
    packed: bytes = msgpack.packb(encode(value, (Point,))[0])
    return packed


def listed(count: int) -> bytes:
    return b"\xdd" + struct.pack("!I", count)


def peak_of(tree: bytes) -> int:
    """Most memory that the objects of `tree` take while they are made."""
    tracemalloc.start()
    try:
        decode(unpack(tree, UNBOUNDED), [], (Point,))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


COUNT = 6_000  # more than Python keeps tuples and lists for
KINDS: dict[str, Callable[[int], Any]] = {
    "small integers": lambda i: i % 100,
    "integers": lambda i: i * 77_777_777,
    "long integers": lambda i: 1 << (64 + i % 100),
    "floats": float,
    "None": lambda i: None,
    "short texts": lambda i: f"w{i}",
    "texts": lambda i: f"{i}" * 12,
    "texts of Greek": lambda i: "\u03b1" * 9,
    "texts with one emoji": lambda i: "x" * 26 + "\U0001f600",
    "bytes": lambda i: bytes(4 + i % 3),
    "empty lists": lambda i: [],
    "lists of one": lambda i: [1],
    "pairs": lambda i: (i, i),
    "small pairs": lambda i: (1, 2),
    "lists of three": lambda i: [i, i, i],
    "empty dicts": lambda i: {},
    "dicts": lambda i: {"a": i},
    "dicts of six": lambda i: {n: n for n in range(6)},
    "objects": lambda i: Point(i),
    "nested": lambda i: [[[i]]],
}


@covers("SEC-22")
@pytest.mark.parametrize("kind", KINDS)
def test_no_value_takes_more_than_is_counted(kind: str) -> None:
    """And what is counted is not far from the truth, so that honest values have room."""
    tree = tree_of([KINDS[kind](i) for i in range(COUNT)])
    counted, needed = object_bytes(tree, UNBOUNDED), peak_of(tree)
    assert needed <= counted * 1.05 + 4096
    assert counted <= 2.6 * needed + 4096
    assert counted <= LARGEST_GROWTH * 1.1 * len(tree)


def test_a_dict_as_large_as_a_value_may_be() -> None:
    tree = tree_of({f"key {i}": float(i) for i in range(COUNT)})
    assert peak_of(tree) <= object_bytes(tree, UNBOUNDED) * 1.05


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text() | st.binary(max_size=99),
        lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(0, 9), inner),
        max_leaves=40,
    )
)
def test_any_value_is_counted_to_its_last_byte(value: Any) -> None:
    tree = tree_of([value] * 10)
    check_tree(tree)
    counted = object_bytes(tree, UNBOUNDED)
    assert peak_of(tree) <= counted * 1.05 + 4096
    assert object_bytes(tree, counted) == counted


@covers("SEC-22")
@pytest.mark.parametrize("item", [b"\x90", b"\x81\xa1d\x90", b"\xa2xx"])
def test_a_bomb_is_refused_before_it_is_made(item: bytes) -> None:
    count = MIB // 8 // len(item)
    tree = listed(count) + item * count
    limit = MIB + len(tree)
    tracemalloc.start()
    with pytest.raises(
        ProtocolError, match=rf"{len(tree)} bytes would become more than {limit} bytes of objects, which is the"
    ):
        unpack(tree, MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(tree)


@covers("SEC-22")
def test_a_message_may_become_64_mib_of_objects() -> None:
    limit = OBJECT_BYTES + MIB
    with pytest.raises(ProtocolError, match=f"message of {MIB} bytes would become more than {limit} bytes of objects"):
        unpack(listed(MIB - 5) + b"\x90" * (MIB - 5))


def test_a_small_budget_holds_for_small_messages() -> None:
    tree = listed(2000) + b"\x90" * 2000
    assert unpack(tree) == [[]] * 2000
    with pytest.raises(ProtocolError, match="more than 102005 bytes of objects"):
        unpack(tree, 100_000)


@covers("SEC-8")
@pytest.mark.parametrize("data", [b"\xdd\xff\xff\xff\xff", (b"\xdc\xff\xff" * 1000), b"\xdb\xff\xff\xff\xff", b"\xc9" * 9])
def test_lengths_that_are_lies_reserve_nothing(data: bytes) -> None:
    tree = data + b"\x90" * 8192
    tracemalloc.start()
    with pytest.raises(ProtocolError, match="no valid msgpack"):
        unpack(tree)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * len(tree)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 1000))
def test_counting_ends_for_any_bytes(data: bytes, times: int) -> None:
    assert object_bytes(data * times, UNBOUNDED) >= 0
    with contextlib.suppress(ProtocolError):
        check_tree(data * times, 100)


HONEST = {
    "300,000 pairs": lambda: [(i, i) for i in range(300_000)],
    "a dict of 300,000": lambda: {f"{i}": i for i in range(300_000)},
    "1,500,000 floats": lambda: [float(i) for i in range(1_500_000)],
    "a text of 30 MB": lambda: "words " * 5_000_000,
    "400,000 words": lambda: ["word"] * 400_000,
    "100,000 lists of five": lambda: [[i] * 5 for i in range(100_000)],
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_values_have_room(kind: str) -> None:
    value = HONEST[kind]()
    assert decode(unpack(tree_of(value)), []) == value


@covers("SUB-38")
def test_what_nobody_would_take_is_not_sent() -> None:
    with pytest.raises(ValueError, match=r"would become more than .* send numbers as arrays, or in parts"):
        pack(Kind.MESSAGE, (), [[]] * 1_000_000)

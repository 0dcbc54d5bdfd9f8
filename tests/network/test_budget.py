"""Budgets count the objects that a message would become, before they are made."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from network.budget import LARGEST_GROWTH, OBJECT_BYTES, check_tree, object_bytes
from network.errors import ProtocolError
from network.values import decode, encode
from network.wire import unpack
from tests.memory import peak_of

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


def listed(item: bytes, size: int, claimed: int | None = None) -> bytes:
    """A list that takes `size` bytes beside its head."""
    return b"\xdd" + struct.pack("!I", size // len(item) if claimed is None else claimed) + item * (size // len(item))


def needed(tree: bytes) -> int:
    """Bytes of its objects; the second time, when what Python and the libraries make once is there."""
    decode(unpack(tree, UNBOUNDED), [], (Point,))
    return peak_of(lambda: decode(unpack(tree, UNBOUNDED), [], (Point,)))


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
@pytest.mark.share(9)
def test_no_value_takes_more_than_is_counted(kind: str) -> None:
    """And what is counted is not far from the truth, so that honest values have room."""
    tree = tree_of([KINDS[kind](i) for i in range(COUNT)])
    counted, taken = object_bytes(tree, UNBOUNDED), needed(tree)
    assert taken <= counted * 1.05 + 4096
    assert counted <= min(2.6 * taken + 4096, LARGEST_GROWTH * 1.1 * len(tree))


def test_a_dict_as_large_as_a_value_may_be() -> None:
    tree = tree_of({f"key {i}": float(i) for i in range(COUNT)})
    assert needed(tree) <= object_bytes(tree, UNBOUNDED) * 1.05


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text() | st.binary(max_size=99),
        lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(0, 9), inner),
        max_leaves=40,
    )
)
@example(["\u0300" * 205])  # more than a small tree, whose lengths nobody looks at
def test_any_value_is_counted_to_its_last_byte(value: Any) -> None:
    """Before the objects there is what looks at the lengths, whose stack takes 32 KB whatever is in the tree."""
    tree = tree_of([value] * 10)
    looked = peak_of(lambda: check_tree(tree))
    counted = object_bytes(tree, UNBOUNDED)
    assert needed(tree) <= max(counted * 1.05 + 4096, looked)
    assert object_bytes(tree, counted) == counted


TOO_MANY = r"message of {size} bytes would become more than {limit} bytes of objects, which is the limit"
LIE = "no valid msgpack"


@covers("SEC-8", "SEC-22")
@pytest.mark.parametrize(
    ("tree", "budget", "fault", "growth"),
    [
        *((listed(item, MIB // 8), MIB, TOO_MANY, 2) for item in (b"\x90", b"\x81\xa1d\x90", b"\xa2xx")),
        (listed(b"\x90", MIB - 5), OBJECT_BYTES, TOO_MANY, 2),  # what any message may become
        (listed(b"\x90", 2000), 100_000, TOO_MANY, 30),  # a small budget holds for small messages
        *(
            (lie + b"\x90" * 8192, OBJECT_BYTES, LIE, 10)
            for lie in (b"\xdd\xff\xff\xff\xff", b"\xdc\xff\xff" * 1000, b"\xdb\xff\xff\xff\xff", b"\xc9" * 9)
        ),
    ],
)
def test_a_bomb_is_refused_before_it_is_made_and_lengths_that_are_lies_reserve_nothing(
    tree: bytes, budget: int, fault: str, growth: int
) -> None:
    def refuse() -> None:
        with pytest.raises(ProtocolError, match=fault.format(size=len(tree), limit=budget + len(tree))):
            unpack(tree, budget)

    assert peak_of(refuse) < growth * len(tree)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 1000))
def test_counting_ends_for_any_bytes(data: bytes, times: int) -> None:
    assert object_bytes(data * times, UNBOUNDED) >= 0
    with contextlib.suppress(ProtocolError):
        check_tree(data * times, 100)


HONEST: dict[str, Callable[[], Any]] = {
    "2,000 empty lists": lambda: [[]] * 2000,
    "300,000 pairs": lambda: [(i, i) for i in range(300_000)],
    "a dict of 300,000": lambda: {f"{i}": i for i in range(300_000)},
    "1,500,000 floats": lambda: [float(i) for i in range(1_500_000)],
    "a text of 30 MB": lambda: "words " * 5_000_000,
    "400,000 words": lambda: ["word"] * 400_000,
    "100,000 lists of five": lambda: [[i] * 5 for i in range(100_000)],
}


@pytest.mark.parametrize("kind", HONEST)
@pytest.mark.share(6)
def test_honest_values_have_room(kind: str) -> None:
    value = HONEST[kind]()
    assert decode(unpack(tree_of(value)), []) == value

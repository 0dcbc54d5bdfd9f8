"""Values: what may travel comes back as it was, what may not is named, and nothing that arrives can run."""

from __future__ import annotations

import array
import collections
import contextlib
import functools
import gc
import random
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.errors import ProtocolError
from network.values import LONG_INTEGER, MAX_DEPTH, Tag, decode, encode
from network.wire import Kind, pack, unpack
from tests.network.value_kinds import (
    CLASSES,
    Color,
    Crate,
    Failure,
    Frozen,
    Guarded,
    Loose,
    Numbers,
    Overshadowing,
    Pair,
    Permission,
    Plain,
    Slotted,
    Ticket,
    arrays,
    nested,
    same,
    travel,
    values,
)

from ..statements import covers


def looped() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def with_field(name: str) -> Loose:
    item = Loose()
    item.__dict__[name] = 1
    return item


class Tagged(NamedTuple):
    value: int


class Annotated(Tagged):
    pass


annotated = Annotated(1)
annotated.note = "lost"  # type: ignore[attr-defined]

REFUSED: list[tuple[Any, str]] = [
    ({1, 2}, r"builtins\.set cannot travel: send arrays, numbers"),
    (bytearray(3), r"builtins\.bytearray cannot travel"),
    (1j, r"builtins\.complex cannot travel"),
    (array.array("d"), r"array\.array cannot travel"),
    (lambda: 1, r"builtins\.function cannot travel"),
    (Loose, r"builtins\.type cannot travel"),
    (Loose(), r"Loose cannot travel: .*define its class in the module of the code that is shipped"),
    (collections.OrderedDict(), r"collections\.OrderedDict cannot travel"),
    (functools.partial(int), r"functools\.partial cannot travel"),
    ({1.5: 2}, r"int or str keys, got a key of type float"),
    ({True: 2}, r"int or str keys, got a key of type bool"),
    ({(1,): 2}, r"int or str keys, got a key of type tuple"),
    (np.array([None]), r"An array of type object cannot travel: use bool, integers"),
    (np.array(["a"]), r"An array of type <U1 cannot travel"),
    (np.array([1], "datetime64[s]"), r"An array of type datetime64\[s\] cannot travel"),
    (np.zeros(2, [("a", "i4")]), r"An array of type .* cannot travel"),
    (np.zeros(2, np.longdouble), r"An array of type .* cannot travel"),
    (np.str_("a"), r"numpy\.str_ cannot travel"),
    (np.zeros(2).view(np.recarray), r"recarray cannot travel: send a plain numpy\.ndarray"),
    (np.ma.masked_array([1.0]), r"MaskedArray cannot travel: send a plain numpy\.ndarray"),
    (nested(MAX_DEPTH + 2), r"nested more than 64 levels"),
    (looped(), r"nested more than 64 levels \(or into itself\)"),
    (1 << (8 * LONG_INTEGER), rf"An integer of {LONG_INTEGER + 1} bytes cannot travel"),
    ([Permission.READ | Permission.WRITE], r"combination of members of .*Permission cannot travel: send its value"),
    (Numbers([1]), r"Numbers cannot travel: it extends a built-in type"),
    (Ticket(3), r"Ticket cannot travel: it extends a built-in type"),
    (Crate((1,)), r"Crate cannot travel: it extends a built-in type"),
    (Failure("text"), r"Failure cannot travel: it extends a built-in type"),
    (annotated, r"Annotated cannot travel: it extends a built-in type"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=lambda v: v[:40] if isinstance(v, str) else "")
def test_what_may_not_travel_is_named(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        encode({"deep": [value]}, (*CLASSES, Annotated))


@pytest.mark.parametrize("name", ["__class__", "__x", "a b", "", "1"])
def test_a_field_that_the_other_side_would_refuse_is_refused_here(name: str) -> None:
    with pytest.raises(TypeError, match=r"its field .* is no plain name"):
        encode(with_field(name), (Loose,))


def test_an_array_of_too_many_dimensions_is_named() -> None:
    if int(np.__version__.split(".")[0]) < 2:
        pytest.skip("this NumPy has at most 32 dimensions")
    with pytest.raises(TypeError, match="An array of 33 dimensions cannot travel: at most 32"):
        encode(np.zeros((1,) * 33))


def test_text_that_is_no_unicode_is_named() -> None:
    with pytest.raises(TypeError, match="A str that is no valid Unicode cannot travel"):
        pack(Kind.MESSAGE, (), {"name": "\ud800"})


class Closing:
    """Python calls its `__del__` in the end, whoever has made it."""

    path = "nothing"

    def __del__(self) -> None:
        self.__class__.closed.append(self.path)  # type: ignore[attr-defined]


Closing.closed = []  # type: ignore[attr-defined]


class ClosingLater(Closing):
    pass


@pytest.mark.parametrize("kind", [Closing, ClosingLater])
def test_a_class_with_a_finalizer_is_refused_at_both_ends(kind: type[Any]) -> None:
    """It would run for an instance that a peer has filled: here it would close what the peer names."""
    with pytest.raises(TypeError, match=rf"{kind.__name__} cannot travel: its __del__ would run"):
        encode([kind()], (kind,))
    Closing.closed.clear()  # type: ignore[attr-defined]
    with pytest.raises(ProtocolError, match=f"A received {kind.__name__} may not travel: its __del__ would run"):
        decode(Tag("o", [0, ["path", "/etc/passwd"]]), [], (kind,))
    gc.collect()
    assert Closing.closed == []  # type: ignore[attr-defined]


# ---- trees that encode never makes

SCALAR, VECTOR, OCTETS = np.zeros(()), np.zeros(3), np.zeros(3, np.uint8)
MALFORMED: list[tuple[Any, list[Any]]] = [
    (Tag("a", 0), []),
    (Tag("a", 1), [VECTOR]),
    (Tag("a", -1), [VECTOR]),
    (Tag("a", True), [VECTOR]),
    (Tag("a", 0.0), [VECTOR]),
    ([Tag("a", 0), Tag("a", 0)], [VECTOR]),
    ([Tag("b", 0)] * 1000, [OCTETS]),
    ([Tag("a", 1), Tag("a", 0)], [VECTOR, VECTOR]),
    (None, [VECTOR]),
    (Tag("s", 0), [VECTOR]),
    (Tag("b", 0), [VECTOR]),
    (Tag("b", 0), [np.zeros((2, 2), np.uint8)]),
    (Tag("t", None), []),
    (Tag("d", [1]), []),
    (Tag("d", [1, 2, 1, 3]), []),
    (Tag("d", [1.0, 2]), []),
    (Tag("d", [True, 2]), []),
    (Tag("d", [[], 2]), []),
    (Tag("i", "12"), []),
    (Tag("i", b""), []),
    (Tag("i", bytes(LONG_INTEGER + 1)), []),
    (Tag("x", 1), []),
    (Tag("o", 1), []),
    (Tag("o", [99, []]), []),
    (Tag("o", [-1, []]), []),
    (Tag("o", [True, []]), []),
    (Tag("o", [0, ["number"]]), []),
    (Tag("o", [0, ["__class__", 1]]), []),
    (Tag("o", [0, ["__dict__", 1]]), []),
    (Tag("o", [0, ["a", 1, "a", 2]]), []),
    (Tag("o", [0, [1, 2]]), []),
    (Tag("o", [0, [[], 2]]), []),
    (Tag("o", [1, ["other", 2]]), []),  # no such slot and no __dict__
    (Tag("o", [2, ["_name_", "x"]]), []),
    (Tag("o", [4, []]), []),
    (Tag("o", [8, []]), []),
    (Tag("o", [11, []]), []),
    (Tag("e", [2, "BLUE"]), []),
    (Tag("e", [2, []]), []),
    (Tag("e", [0, "number"]), []),
    (Tag("n", [4, [1]]), []),
    (Tag("n", [4, [1, 2, 3]]), []),
    (Tag("n", [4, 1]), []),
    (Tag("n", [10, [1]]), []),
    (Tag("n", [0, [1]]), []),
    (nested(MAX_DEPTH + 2), []),
    ({"raw": "map"}, []),
    ({1}, []),
    (Loose(), []),
]


@pytest.mark.parametrize(("tree", "given_arrays"), MALFORMED)
def test_a_malformed_tree_is_refused(tree: Any, given_arrays: list[Any]) -> None:
    with pytest.raises(ProtocolError, match=r"^A received .*\.$"):
        decode(tree, given_arrays, CLASSES)


trees = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 14) | st.floats() | st.text(max_size=3) | st.binary(max_size=3)
    | st.sampled_from(["number", "content", "left", "value", "RED", "__init__"]),
    lambda inner: st.lists(inner, max_size=4) | st.builds(Tag, st.sampled_from([*"tdasbioen", "x"]), inner),
    max_leaves=15,
)  # fmt: skip


@covers("SUB-36")
@settings(max_examples=600, deadline=None)
@given(trees, st.lists(st.sampled_from([SCALAR, VECTOR, OCTETS]), max_size=3))
def test_any_tree_is_a_value_or_refused(tree: Any, given_arrays: list[Any]) -> None:
    """Nothing that arrives raises anything but ProtocolError."""
    with contextlib.suppress(ProtocolError):
        decode(tree, given_arrays, CLASSES)


@covers("SUB-36")
def test_mutants_of_real_messages_are_values_or_refused() -> None:
    """10,000 altered messages; each is decoded to a value or refused by ProtocolError."""
    rng = random.Random(20)
    value = [Plain(1, Frozen({"k": (1, 2.5)}, [np.arange(3), b"x" * 9])), Pair(Color.RED, 1 << 70), Slotted("s"), None, -5]
    tree, held = encode(value, CLASSES)
    original = msgpack.packb(tree)
    refused = 0
    for _ in range(10_000):
        mutant = bytearray(original)
        for _ in range(rng.randint(1, 4)):
            kind = rng.randrange(3)
            place = rng.randrange(len(mutant))
            if kind == 0:
                mutant[place] = rng.randrange(256)
            elif kind == 1:
                del mutant[place : place + rng.randint(1, 5)]
            else:
                mutant[place:place] = rng.randbytes(rng.randint(1, 5))
        try:
            decode(unpack(mutant), held, CLASSES)
        except ProtocolError:
            refused += 1
    assert refused > 5_000


# ---- what comes back


@settings(max_examples=400, deadline=None)
@given(values)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert same(value, travel(value))


@settings(max_examples=200, deadline=None)
@given(arrays())
def test_an_array_comes_back_bit_for_bit(array: Any) -> None:
    assert same(array, travel(array))


def test_contiguous_arrays_are_not_copied() -> None:
    source = np.arange(10.0)
    _, [sent] = encode(source)
    assert sent is source


def test_an_array_that_arrives_can_be_written_to() -> None:
    received = travel(np.broadcast_to(np.float32(1), (3,)))
    received += 1
    assert received.tolist() == [2, 2, 2]


@covers("SUB-36")
def test_hooks_do_not_run() -> None:
    """An instance is filled field by field; no __init__, __setattr__, __setstate__, __reduce__ or property runs."""
    guarded = object.__new__(Guarded)
    guarded.__dict__.update(shown=1, other=(2,))
    received = travel(guarded)
    assert type(received) is Guarded
    assert received.__dict__ == {"shown": 1, "other": (2,)}


def test_slots_travel_under_their_true_names_and_empty_ones_stay_empty() -> None:
    received = travel(Slotted(5))
    assert received == Slotted(5)
    assert not hasattr(received, "empty")


def test_a_property_that_hides_a_slot_does_not_run() -> None:
    item = object.__new__(Overshadowing)
    Slotted.__dict__["value"].__set__(item, 3)
    item.__dict__["more"] = 4
    received = travel(item)
    assert Slotted.__dict__["value"].__get__(received) == 3
    assert received.__dict__ == {"more": 4}


def test_enum_aliases_come_back_as_the_member() -> None:
    assert travel(Color.CRIMSON) is Color.RED

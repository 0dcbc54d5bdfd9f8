"""Values: what may travel comes back as it was, what may not is named, and nothing that arrives can run."""

from __future__ import annotations

import array
import collections
import contextlib
import dataclasses
import enum
import functools
import gc
import random
import re
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from network.errors import ProtocolError
from network.values import DTYPES, LONG_BYTES, LONG_INTEGER, MAX_DEPTH, Tag, decode, encode
from network.wire import Kind, allocate, pack, unpack

from ..sources import ROOT
from ..statements import covers

# ---- what may travel, if its class is shared


class Forbidden(Exception):
    """Raised by code that must not run."""


def forbidden(*_: Any) -> Any:
    raise Forbidden


@dataclasses.dataclass
class Plain:
    number: int
    content: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    left: Any
    right: Any


class Color(enum.Enum):
    RED = 1
    GREEN = "g"
    CRIMSON = 1  # noqa: PIE796  an alias


class Permission(enum.Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    first: Any
    second: Any


class Guarded:
    """Every hook that a decoder could trip over."""

    __init__ = __setstate__ = __reduce__ = __setattr__ = __getattr__ = forbidden
    shown = property(forbidden, forbidden)


class Slotted:
    __slots__ = ("__hidden", "empty", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.__hidden = [value]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and self.value == other.value and self.__hidden == other.__hidden

    __hash__ = None  # type: ignore[assignment]


class Overshadowing(Slotted):
    """A property that hides a slot of the base, and fields in a `__dict__`."""

    value = property(forbidden, forbidden)


class Numbers(list[int]):
    pass


class Ticket(int):
    pass


class Crate(tuple[int, ...]):
    pass


class Failure(Exception):
    pass


class Annotated(NamedTuple("Tagged", [("value", int)])):
    pass


class Loose:
    pass


CLASSES = (Plain, Frozen, Color, Permission, Pair, Guarded, Slotted, Overshadowing, Numbers, Ticket, Crate, Failure, Annotated)


def travel(value: Any) -> Any:
    """Through everything that the network does to a value."""
    tree, arrays = encode(value, CLASSES)
    received = allocate(unpack(msgpack.packb([[a.dtype.str, *a.shape] for a in arrays])), 1 << 30)
    for target, source in zip(received, arrays, strict=True):
        target[...] = source
    return decode(unpack(msgpack.packb(tree)), received, CLASSES)


def same(left: Any, right: Any) -> bool:
    """Equal, of the same types, NaN equal to NaN, arrays by content and shape."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        little = left.dtype.newbyteorder("<")
        return bool(right.dtype == little) and left.shape == right.shape and left.astype(little).tobytes() == right.tobytes()
    if isinstance(left, np.generic):
        return bool(left.tobytes() == right.tobytes())
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[k], right[k]) for k in left)
    if isinstance(left, (Plain, Frozen)):
        return all(same(getattr(left, f.name), getattr(right, f.name)) for f in dataclasses.fields(left))
    return bool(left == right or (left != left and right != right))


def test_the_protocol_names_the_types_that_may_travel() -> None:
    """In docs/protocol.md, for who writes a second implementation."""
    text = " ".join((ROOT / "docs" / "protocol.md").read_text("utf-8").split())
    told = text.partition("The types are ")[2].partition(", as NumPy")[0]
    assert re.findall("`(.+?)`", told) == list(DTYPES)


dtypes = st.sampled_from([*DTYPES, ">i2", ">u4", ">f4", ">f8", ">c16"]).map(np.dtype)


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Arrays as users have them: any type, strided, transposed, Fortran order, read-only."""
    dtype, shape = draw(dtypes), draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    bits = random.Random(draw(st.integers(0, 2**32 - 1))).randbytes(int(np.prod(shape)) * dtype.itemsize)
    plain = (np.frombuffer(bits, np.uint8) % 2 == 1 if dtype.kind == "b" else np.frombuffer(bits, dtype)).reshape(shape)
    forms = ["plain", "transposed", *(["fortran", "strided", "reversed"] if plain.ndim else [])]
    form = draw(st.sampled_from(forms))
    return {
        "plain": plain,
        "transposed": plain.T,
        "fortran": np.asfortranarray(plain) if plain.ndim else plain,
        "strided": plain[::2] if plain.ndim else plain,
        "reversed": plain[::-1] if plain.ndim else plain,
    }[form]


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**300), 10**300)
    | st.floats()
    | text
    | st.binary(max_size=30)
    | st.sampled_from([*Color, *Permission, bytes(LONG_BYTES), bytes(LONG_BYTES + 1), 2**64, 2**64 - 1, -(2**63), -(2**63) - 1])
    | arrays()
    | dtypes.filter(lambda d: d.str in DTYPES).map(lambda d: d.type(1))
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.integers() | text, inner, max_size=4)
        | st.builds(Plain, st.integers(), inner)
        | st.builds(Frozen, inner, inner)
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(values, arrays())
def test_a_value_comes_back_as_it_was_bit_for_bit(value: Any, array: Any) -> None:
    assert same(value, travel(value)) and same(array, travel(array))


def test_contiguous_arrays_are_not_copied_and_what_arrives_can_be_written_to() -> None:
    source = np.arange(10.0)
    assert encode(source)[1][0] is source
    received = travel(np.broadcast_to(np.float32(1), (3,)))
    received += 1
    assert received.tolist() == [2, 2, 2]


@covers("SUB-36")
def test_hooks_do_not_run() -> None:
    """An instance is filled field by field; no __init__, __setattr__, __setstate__, __reduce__ or property runs, nor one that
    hides a slot. Slots travel under their true names and empty ones stay empty; an alias comes back as the member."""
    guarded = object.__new__(Guarded)
    guarded.__dict__.update(shown=1, other=(2,))
    received = travel(guarded)
    assert type(received) is Guarded and received.__dict__ == {"shown": 1, "other": (2,)}
    slotted = travel(Slotted(5))
    assert slotted == Slotted(5) and not hasattr(slotted, "empty")
    item = object.__new__(Overshadowing)
    Slotted.__dict__["value"].__set__(item, 3)
    item.__dict__["more"] = 4
    received = travel(item)
    assert Slotted.__dict__["value"].__get__(received) == 3 and received.__dict__ == {"more": 4}
    assert travel(Color.CRIMSON) is Color.RED


# ---- what may not


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def looped() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def with_field(item: Any, name: str) -> Any:
    item.__dict__[name] = 1
    return item


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
    (with_field(Annotated(1), "note"), r"Annotated cannot travel: it extends a built-in type"),
    # fields that the other side would refuse
    *((with_field(Plain(1), name), r"its field .* is no plain name") for name in ("__class__", "__x", "a b", "", "1")),
]
if int(np.__version__.split(".")[0]) >= 2:  # before, 32 dimensions were the most
    REFUSED.append((np.zeros((1,) * 33), "An array of 33 dimensions cannot travel: at most 32"))


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=lambda v: v[:40] if isinstance(v, str) else "")
def test_what_may_not_travel_is_named(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        encode({"deep": [value]}, CLASSES)


def test_values_may_be_so_deep_and_no_deeper() -> None:
    deep = nested(MAX_DEPTH + 1)
    tree, arrays = encode(deep, ())
    assert decode(tree, arrays, ()) == deep
    with pytest.raises(TypeError, match="nested more than 64 levels"):
        encode([deep], ())


def test_text_that_is_no_unicode_is_named() -> None:
    with pytest.raises(TypeError, match="A str that is no valid Unicode cannot travel"):
        pack(Kind.MESSAGE, (), {"name": "\ud800"})


class Closing:
    """Python calls its `__del__` in the end, whoever has made it."""

    path = "nothing"
    closed: list[str]

    def __del__(self) -> None:
        self.__class__.closed.append(self.path)


Closing.closed = []


class ClosingLater(Closing):
    pass


@pytest.mark.parametrize("kind", [Closing, ClosingLater])
def test_a_class_with_a_finalizer_is_refused_at_both_ends(kind: type[Any]) -> None:
    """It would run for an instance that a peer has filled: here it would close what the peer names."""
    with pytest.raises(TypeError, match=rf"{kind.__name__} cannot travel: its __del__ would run"):
        encode([kind()], (kind,))
    Closing.closed.clear()
    with pytest.raises(ProtocolError, match=f"A received {kind.__name__} may not travel: its __del__ would run"):
        decode(Tag("o", [0, ["path", "/etc/passwd"]]), [], (kind,))
    gc.collect()
    assert Closing.closed == []


# ---- trees that encode never makes

SCALAR, VECTOR, OCTETS = np.zeros(()), np.zeros(3), np.zeros(3, np.uint8)
MALFORMED: list[tuple[Any, list[Any]]] = [
    *((Tag("a", place), [VECTOR]) for place in (1, -1, True, 0.0)),
    ([Tag("a", 0), Tag("a", 0)], [VECTOR]),
    ([Tag("b", 0)] * 1000, [OCTETS]),
    ([Tag("a", 1), Tag("a", 0)], [VECTOR, VECTOR]),
    (None, [VECTOR]),
    (Tag("s", 0), [VECTOR]),
    (Tag("b", 0), [VECTOR]),
    (Tag("b", 0), [np.zeros((2, 2), np.uint8)]),
    *((Tag("d", items), []) for items in ([1], [1, 2, 1, 3], [1.0, 2], [True, 2], [[], 2])),
    *((Tag("i", number), []) for number in ("12", b"", bytes(LONG_INTEGER + 1))),
    *((Tag("e", member), []) for member in ([2, "BLUE"], [2, []], [0, "number"])),
    *((Tag("n", fields), []) for fields in ([4, [1]], [4, [1, 2, 3]], [4, 1], [10, [1]], [0, [1]])),
    *(
        (Tag("o", fields), [])
        for fields in (
            *(1, [99, []], [-1, []], [True, []], [0, ["number"]], [0, ["__class__", 1]], [0, ["__dict__", 1]]),
            *([0, ["a", 1, "a", 2]], [0, [1, 2]], [0, [[], 2]], [2, ["_name_", "x"]], [4, []], [8, []], [11, []]),
            [1, ["other", 2]],  # no such slot and no __dict__
        )
    ),
    *((tree, []) for tree in (Tag("a", 0), Tag("t", None), Tag("x", 1), nested(MAX_DEPTH + 2), {"raw": "map"}, {1}, Loose())),
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


@pytest.mark.long
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
            kind, place = rng.randrange(3), rng.randrange(len(mutant))
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

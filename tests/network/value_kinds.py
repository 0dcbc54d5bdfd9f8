"""Values of every kind that may travel, and the way that they take."""

from __future__ import annotations

import dataclasses
import enum
import random
from typing import Any, NamedTuple

import msgpack
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from network.values import DTYPES, LONG_BYTES, decode, encode
from network.wire import allocate, unpack


class Forbidden(Exception):
    """Raised by code that must not run."""


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

    def __init__(self) -> None:
        raise Forbidden

    def __setstate__(self, state: Any) -> None:
        raise Forbidden

    def __reduce__(self) -> Any:
        raise Forbidden

    def __setattr__(self, name: str, value: Any) -> None:
        raise Forbidden

    def __getattr__(self, name: str) -> Any:
        raise Forbidden

    @property
    def shown(self) -> Any:
        raise Forbidden

    @shown.setter
    def shown(self, value: Any) -> None:
        raise Forbidden


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

    @property
    def value(self) -> Any:
        raise Forbidden

    @value.setter
    def value(self, content: Any) -> None:
        raise Forbidden


class Numbers(list[int]):
    pass


class Ticket(int):
    pass


class Crate(tuple[int, ...]):
    pass


class Failure(Exception):
    pass


CLASSES = (Plain, Frozen, Color, Permission, Pair, Guarded, Slotted, Overshadowing, Numbers, Ticket, Crate, Failure)


def travel(value: Any, classes: tuple[type, ...] = CLASSES) -> Any:
    """Through everything that the network does to a value."""
    tree, arrays = encode(value, classes)
    layout = [[a.dtype.str, *a.shape] for a in arrays]
    received = allocate(unpack(msgpack.packb(layout)), 1 << 30)
    for target, source in zip(received, arrays, strict=True):
        target[...] = source
    return decode(unpack(msgpack.packb(tree)), received, classes)


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
        names = [field.name for field in dataclasses.fields(left)]
        return all(same(getattr(left, n), getattr(right, n)) for n in names)
    return bool(left == right or (left != left and right != right))


dtypes = st.sampled_from([*DTYPES, ">i2", ">u4", ">f4", ">f8", ">c16"]).map(np.dtype)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Arrays as users have them: any type, strided, transposed, Fortran order, read-only."""
    dtype, shape = draw(dtypes), draw(shapes)
    seed = draw(st.integers(0, 2**32 - 1))
    size = int(np.prod(shape))
    bits = random.Random(seed).randbytes(size * dtype.itemsize)
    plain = (
        np.frombuffer(bits, dtype).reshape(shape)
        if dtype.kind != "b"
        else (np.frombuffer(bits, np.uint8) % 2 == 1).reshape(shape)
    )
    form = draw(st.sampled_from(["plain", "fortran", "strided", "reversed", "transposed"]))
    if form == "fortran":
        return np.asfortranarray(plain) if plain.ndim else plain
    if form == "strided" and plain.ndim:
        return plain[::2]
    if form == "reversed" and plain.ndim:
        return plain[::-1]
    return plain.T if form == "transposed" else plain


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


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


class Loose:
    pass

"""Values that may travel: plain data and arrays, turned into a msgpack tree plus raw array buffers and back.

A value is None, bool, int, float, str, bytes, list, tuple, dict (int and str keys), a NumPy array or scalar of the listed
types, or an instance of a class in the *class table* that both sides share. Arrays are not copied: the tree holds their place,
the caller moves their bytes. Decoding never imports, calls or constructs anything but these: an instance is made by
`object.__new__` and filled field by field, so no `__init__`, `__reduce__` or `__setstate__` runs; a class with a `__del__` may
not travel.

In the tree a scalar stands for itself, a list for a list; everything else is a map with one key, the tag: `t` tuple, `d` dict
as a flat list of keys and values, `a` array number i, `s` NumPy scalar and `b` long bytes in array number i, `i` integer beyond
64 bits, `o` object (class number, fields), `e` enum member, `n` named tuple. Arrays are numbered in the order of the tree and
each is used once, so a short tree cannot grow into much memory.

A caller that passes a `Conversion` can send more: it turns values of further types into data and back, under tags of more than
one letter, and dicts may have keys of any kind that hashes without code of a class that a peer could fill.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from .errors import ProtocolError
from .names import numpy as np

Array: TypeAlias = "np.typing.NDArray[Any]"
_CODES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16")
# `dtype.str` of everything that may travel, little-endian, and its `itemsize`; object, string and void types may not
DTYPES = {code: int(code[2:]) for code in _CODES}
MAX_DEPTH = 64
MAX_DIMENSIONS = 32  # that every supported NumPy can hold
LONG_BYTES = 4096  # shorter byte strings stay in the tree
LONG_INTEGER = 512  # bytes of the longest integer
_PLAIN = frozenset({type(None), bool, float, str})
_LEAVES = _PLAIN | {int, bytes}  # types of values that stand for themselves in a received tree
_NUMBERS = "biufc"  # kinds of the dtypes that travel as they are
_ADVICE = (
    "send arrays, numbers, strings, tuples, lists or dicts, or define its class in the module of the code that is shipped "
    "with the job"
)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class made by a class statement


class Tag(NamedTuple):
    """Tagged node of a received tree: `name` of the tag, and `body`."""

    name: str
    body: Any


class Conversion(Protocol):
    """Conversion of values of further types to data and back; for one message."""

    def advice(self) -> str:
        """Return advice about a type of which no values travel."""

    def has(self, kind: type) -> bool:
        """Tell if the user has registered a converter for `kind`."""

    def to_data(self, value: Any) -> tuple[str, Any] | None:
        """Convert `value` to (name of the converter, longer than a letter, data); None for a type that has none.

        Raises: TypeError for one of these values that cannot travel.
        """

    def from_data(self, name: str, data: Any) -> Any:
        """Make the value again.

        Args:
            name: name of its converter.
            data: the data that `to_data` gave.

        Raises: ProtocolError for a name or data that are not from there.
        """


def encode(value: object, classes: Sequence[type] = (), conversion: Conversion | None = None) -> tuple[Any, list[Array]]:
    """Turn a value into a tree for msgpack and the contiguous arrays that it refers to, by number.

    Args:
        value: the value.
        classes: class table that both sides share.
        conversion: converts values of further types.

    Raises: TypeError naming the type that cannot travel and a replacement to send.
    """
    sent = _Sent(classes, conversion)
    return _encode(value, sent, 0), sent.arrays


def decode(tree: Any, arrays: Sequence[Array], classes: Sequence[type] = (), conversion: Conversion | None = None) -> Any:
    """Make the value that `encode` was given.

    Args:
        tree: from `wire.unpack` (tuples arrive as tuples, other maps as `Tag`); it is used up.
        arrays: the arrays of the message, in the order of the tree.
        classes: class table that both sides share.
        conversion: converts values of further types.

    Raises: ProtocolError when the tree is not one that `encode` makes.
    """
    received = _Received(arrays, classes, conversion)
    try:
        value = _decode(tree, received, 0)
    # whatever a made-up tree stumbles over, the sender is to blame for it
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise ProtocolError(f"A received value is malformed: {error}.") from error
    # arrays that no place uses would be memory for nothing
    if received.used != len(arrays):
        raise ProtocolError(f"A received value uses {received.used} of its {len(arrays)} arrays.")
    return value


class _Sent:
    """A value on its way out: its arrays so far."""

    __slots__ = ("arrays", "classes", "conversion")

    def __init__(self, classes: Sequence[type], conversion: Conversion | None) -> None:
        self.classes, self.conversion = classes, conversion
        self.arrays: list[Array] = []


class _Received:
    """A value on its way in: its arrays, which must be used one after the other."""

    __slots__ = ("_arrays", "classes", "conversion", "used")

    def __init__(self, arrays: Sequence[Array], classes: Sequence[type], conversion: Conversion | None) -> None:
        self._arrays, self.classes, self.conversion = arrays, classes, conversion
        self.used = 0

    def take(self, number: Any) -> Array:
        if type(number) is not int or number != self.used or number >= len(self._arrays):
            raise ProtocolError(f"A received value does not refer to array {self.used} of {len(self._arrays)} in its turn.")
        self.used += 1
        return self._arrays[number]


def _encode(value: Any, sent: _Sent, depth: int) -> Any:
    kind = type(value)
    # by exact type: a subclass of str has content that would be lost
    if kind in _PLAIN:
        return value
    if kind is int:
        return value if -(1 << 63) <= value < 1 << 64 else {"i": _long_integer(value)}
    # far below Python's own limit, which a receiver could meet at another depth
    if depth > MAX_DEPTH:
        raise TypeError(f"A value nested more than {MAX_DEPTH} levels (or into itself) cannot travel.")
    if kind is bytes:
        return value if len(value) <= LONG_BYTES else _place_bytes(value, sent)
    if kind is tuple:
        return {"t": [v if type(v) in _PLAIN else _encode(v, sent, depth + 1) for v in value]}
    if kind is list:
        return [_encode(v, sent, depth + 1) for v in value]
    if kind is dict:
        return _encode_dict(value, sent, depth)
    if kind is np.ndarray and (sent.conversion is None or value.dtype.kind in _NUMBERS):
        return {"a": _place(value, sent.arrays)}
    # before NumPy's scalars and the class table: a registered converter has the first word
    converted = None if sent.conversion is None else sent.conversion.to_data(value)
    if converted is not None:
        return {converted[0]: _encode(converted[1], sent, depth + 1)}
    if isinstance(value, np.generic) and not isinstance(value, (np.str_, np.bytes_)):
        return {"s": _place(np.asarray(value), sent.arrays)}
    if isinstance(value, np.ndarray):  # a subclass would arrive as a plain array
        raise TypeError(f"{_name(kind)} cannot travel: send a plain numpy.ndarray.")
    return _encode_object(value, sent, depth)


def _encode_dict(value: dict[Any, Any], sent: _Sent, depth: int) -> Any:
    flat: list[Any] = []
    for key, item in value.items():
        if type(key) not in (int, str):
            _check_key(key, sent)
        flat.append(_encode(key, sent, depth + 1))
        flat.append(_encode(item, sent, depth + 1))
    return {"d": flat}


def _check_key(key: Any, among: _Sent | _Received) -> None:
    """Raise TypeError for a key that may not travel, or with a hash that is code of a class that a peer could fill."""
    kind = type(key)
    if kind in (int, str):
        return
    if among.conversion is None:
        raise TypeError(f"A dict that travels has int or str keys, got a key of type {kind.__qualname__}.")
    if kind in among.classes and not among.conversion.has(kind) and not _hashes_without_code(kind):
        raise TypeError(
            f"{_name(kind)} cannot travel as a key or in a set: its __hash__ or __eq__ would run for what a peer has made up; "
            f"send pairs, or register the class."
        )
    if isinstance(key, tuple):
        for item in key:
            _check_key(item, among)


def _hashes_without_code(kind: type) -> bool:
    """Tell if equality and hash of `kind` are those of Python's own types: tuples, members of an enum, identity."""
    for name in ("__hash__", "__eq__"):
        # in the order of inheritance: the first class that defines it is the one that runs
        found = next(vars(base)[name] for base in kind.__mro__ if name in vars(base))
        if not isinstance(found, types.WrapperDescriptorType) and getattr(found, "__module__", "") != "enum":
            return False
    return True


def _encode_object(value: Any, sent: _Sent, depth: int) -> Any:
    kind = type(value)
    try:
        number = sent.classes.index(kind)
    except ValueError:
        advice = _ADVICE if sent.conversion is None else sent.conversion.advice()
        raise TypeError(f"{_name(kind)} cannot travel: {advice}.") from None
    if hasattr(kind, "__del__"):
        raise TypeError(f"{_name(kind)} cannot travel: its __del__ would run for what a peer has made up; send its content.")
    if isinstance(value, enum.Enum):
        if value.name not in kind.__members__:
            raise TypeError(f"A combination of members of {_name(kind)} cannot travel: send its value.")
        return {"e": [number, value.name]}
    # fields of a named tuple, unless a subclass keeps more beside them
    if isinstance(value, tuple) and hasattr(kind, "_fields") and not getattr(value, "__dict__", None):
        return {"n": [number, [_encode(v, sent, depth + 1) for v in value]]}
    if not all(base.__flags__ & _HEAP_TYPE for base in kind.__mro__[:-1]):  # only its fields would arrive, not its content
        raise TypeError(f"{_name(kind)} cannot travel: it extends a built-in type; keep the content in a field.")
    fields: list[Any] = []
    for name, item in fields_of(value).items():
        if not _is_field(name):
            raise TypeError(f"{_name(kind)} cannot travel: its field {name!r} is no plain name.")
        fields.append(name)
        fields.append(_encode(item, sent, depth + 1))
    return {"o": [number, fields]}


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_field(name: Any) -> bool:
    # names with two underscores would reach `__class__` or `__dict__`
    return isinstance(name, str) and name.isidentifier() and not name.startswith("__")


def fields_of(value: Any) -> dict[str, Any]:
    """Return the instance's own fields: its `__dict__` and filled `__slots__`."""
    state = dict(getattr(value, "__dict__", {}))
    for name, slot in _slots(type(value)).items():
        try:
            state[name] = slot.__get__(value)
        except AttributeError:  # an empty slot
            continue
    return state


def _slots(cls: type) -> dict[str, types.MemberDescriptorType]:
    """Map names to slots. Their descriptors are used directly: a property of a subclass may hide one, and would be code."""
    bases = reversed(cls.__mro__)
    return {n: d for base in bases for n, d in vars(base).items() if isinstance(d, types.MemberDescriptorType)}


def _long_integer(value: int) -> bytes:
    # one bit for the sign
    size = value.bit_length() // 8 + 1
    if size > LONG_INTEGER:
        raise TypeError(f"An integer of {size} bytes cannot travel: at most {LONG_INTEGER} bytes.")
    return value.to_bytes(size, "big", signed=True)


class _Octets:
    """Long bytes in line, as much of an array as leaves in a frame: an agent sends files without NumPy."""

    __slots__ = ("data", "nbytes", "shape")
    dtype = types.SimpleNamespace(str="|u1", kind="u")

    def __init__(self, value: bytes) -> None:
        self.data, self.nbytes, self.shape = memoryview(value), len(value), (len(value),)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.data, dtype or np.uint8, copy=copy)

    def tobytes(self) -> bytes:
        return self.data.tobytes()


def _place_bytes(value: bytes, sent: _Sent) -> dict[str, int]:
    # a conversion is for values whose arrays travel apart from their tree, so they have to be arrays
    octets: Any = _Octets(value) if sent.conversion is None else np.frombuffer(value, np.uint8)
    sent.arrays.append(octets)
    return {"b": len(sent.arrays) - 1}


def _place(array: Array, arrays: list[Array]) -> int:
    code = array.dtype.str
    if array.ndim > MAX_DIMENSIONS:
        raise TypeError(f"An array of {array.ndim} dimensions cannot travel: at most {MAX_DIMENSIONS}.")
    # big-endian numbers are turned round here, so that a receiver has one order only
    if code not in DTYPES:
        little = array.dtype.newbyteorder("<")
        if little.str not in DTYPES:
            raise TypeError(f"An array of type {array.dtype} cannot travel: use bool, integers, floats or complex numbers.")
        array = array.astype(little)
    # asarray keeps 0-d arrays 0-d, which ascontiguousarray would not
    arrays.append(array if array.flags.c_contiguous else np.asarray(array, order="C"))
    return len(arrays) - 1


def _decode(tree: Any, received: _Received, depth: int) -> Any:
    kind = type(tree)
    if kind in _LEAVES:
        return tree
    if depth > MAX_DEPTH:
        raise ProtocolError(f"A received value is nested more than {MAX_DEPTH} levels.")
    if kind is list:
        return _decode_items(tree, received, depth)
    if kind is tuple:
        # most tuples of a training are integers and an array, most others plain: no copy for these
        return tree if _LEAVES.issuperset(map(type, tree)) else tuple(_decode_items(list(tree), received, depth))
    if kind is not Tag:
        raise ProtocolError(f"A received value holds the unknown type {kind.__qualname__}.")
    name, body = tree
    if name == "a":
        return received.take(body)
    if name == "d":
        return _decode_dict(body, received, depth)
    if name == "s":
        return _of_kind(received.take(body), 0)[()]
    if name == "b":
        return _of_kind(received.take(body), 1, np.uint8).tobytes()
    if name == "i":
        if type(body) is not bytes or not 0 < len(body) <= LONG_INTEGER:
            raise ProtocolError(f"A received integer has not 1 to {LONG_INTEGER} bytes.")
        return int.from_bytes(body, "big", signed=True)
    if len(name) > 1 and received.conversion is not None:
        return received.conversion.from_data(name, _decode(body, received, depth + 1))
    return _decode_object(name, body, received, depth)


def _decode_dict(body: Any, received: _Received, depth: int) -> dict[Any, Any]:
    flat = _decode_items(_listed(body), received, depth)
    # before the dict is made: a key's hash may be code of the class that a peer has chosen
    for key in flat[::2]:
        if type(key) not in (int, str):
            _check_key(key, received)
    result = dict(zip(flat[::2], flat[1::2], strict=True))
    # two keys that are equal: a sender has none such
    if len(result) * 2 != len(flat):
        raise ProtocolError("A received dict has a repeated key.")
    return result


def _decode_items(items: list[Any], received: _Received, depth: int) -> list[Any]:
    """Decode the items in place: each raw item is free at once, so that a value never takes the memory of two."""
    for number, item in enumerate(items):
        if type(item) not in _LEAVES:
            items[number] = _decode(item, received, depth + 1)
    return items


def _decode_object(name: str, body: Any, received: _Received, depth: int) -> Any:
    number, content = _listed(body)
    classes = received.classes
    if type(number) is not int or not 0 <= number < len(classes):
        raise ProtocolError(f"A received value names none of the {len(classes)} classes that may travel.")
    cls: Any = classes[number]
    # here, too: the sender that checks is the honest one
    if hasattr(cls, "__del__"):
        raise ProtocolError(f"A received {cls.__qualname__} may not travel: its __del__ would run.")
    if name == "e" and issubclass(cls, enum.Enum):
        return cls.__members__[content]
    if name == "n" and issubclass(cls, tuple) and len(_listed(content)) == len(cls._fields):
        # past `cls.__new__`, which would be code that runs
        return tuple.__new__(cls, _decode_items(content, received, depth))
    if name != "o" or issubclass(cls, (enum.Enum, tuple, type)):
        raise ProtocolError(f"A received {cls.__qualname__} does not fit its tag {name!r:.40}.")
    flat = _listed(content)
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    if len(fields) * 2 != len(flat) or not all(map(_is_field, fields)):
        raise ProtocolError(f"A received {cls.__qualname__} has a repeated or forbidden field.")
    instance, slots = object.__new__(cls), _slots(cls)
    for field, item in fields.items():
        decoded = _decode(item, received, depth + 1)
        if field in slots:
            slots[field].__set__(instance, decoded)
        else:  # past a property of that name, whose setter would be code that runs
            instance.__dict__[field] = decoded
    return instance


def _of_kind(array: Array, dimensions: int, dtype: Any = None) -> Array:
    if array.ndim != dimensions or (dtype is not None and array.dtype != dtype):
        raise ProtocolError("A received scalar or byte string comes as an array of another kind.")
    return array


def _listed(body: Any) -> list[Any]:
    if type(body) is not list:
        raise ProtocolError("A received value has a malformed tag.")
    return body

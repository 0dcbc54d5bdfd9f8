"""Values that may travel: plain data and arrays, turned into a msgpack tree plus raw array buffers and back.

A value is None, bool, int, float, str, bytes, list, tuple, dict (int and str keys), a NumPy array or scalar of the listed
types, or an instance of a class in the *class table* that both sides share. Arrays are not copied: the tree holds their
place, the caller moves their bytes. Decoding never imports, calls or constructs anything but these: an instance is made by
`object.__new__` and filled field by field, so no `__init__`, `__reduce__` or `__setstate__` runs.

In the tree a scalar stands for itself, a list for a list; everything else is a map with one key, the tag:
`t` tuple, `d` dict as a flat list of keys and values, `a` array number i, `s` NumPy scalar and `b` long bytes in array
number i, `i` integer beyond 64 bits, `o` object (class number, fields), `e` enum member, `n` named tuple.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import ProtocolError

Array = NDArray[Any]
# little-endian codes of everything that may travel; object, string and void types may not
DTYPES = {
    np.dtype(code).str: np.dtype(code)
    for code in "b1 i1 u1 <i2 <u2 <i4 <u4 <i8 <u8 <f2 <f4 <f8 <c8 <c16".replace("b1", "?").split()
}
MAX_DEPTH = 64
LONG_BYTES = 4096  # shorter byte strings stay in the tree
_PLAIN = frozenset({type(None), bool, float, str})
_BUILT_IN = (int, float, complex, str, bytes, bytearray, list, dict, set, frozenset)


class Tag(NamedTuple):
    """One tagged node of a received tree."""

    name: str
    body: Any


def encode(value: object, classes: Sequence[type] = ()) -> tuple[Any, list[Array]]:
    """Turn `value` into a tree for msgpack and the contiguous arrays that it refers to, by number.

    Raises: TypeError naming the type that cannot travel and what to send instead.
    """
    arrays: list[Array] = []
    return _encode(value, arrays, classes, 0), arrays


def decode(tree: Any, arrays: Sequence[Array], classes: Sequence[type] = ()) -> Any:
    """The value that `encode` was given; `tree` comes from `wire.unpack` (maps arrive as `Tag`).

    Raises: ProtocolError when the tree is not one that `encode` makes.
    """
    try:
        return _decode(tree, arrays, classes, 0)
    except ProtocolError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise ProtocolError(f"A received value is malformed: {error}.") from error


def _encode(value: Any, arrays: list[Array], classes: Sequence[type], depth: int) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > MAX_DEPTH:
        raise TypeError(f"A value nested more than {MAX_DEPTH} levels (or into itself) cannot travel.")
    if kind is int:
        return value if -(1 << 63) <= value < 1 << 64 else {"i": str(value)}
    if kind is np.ndarray:
        return {"a": _place(value, arrays)}
    if kind is bytes:
        return value if len(value) <= LONG_BYTES else {"b": _place(np.frombuffer(value, np.uint8), arrays)}
    if kind is tuple:
        return {"t": [_encode(v, arrays, classes, depth + 1) for v in value]}
    if kind is list:
        return [_encode(v, arrays, classes, depth + 1) for v in value]
    if kind is dict:
        flat: list[Any] = []
        for key, item in value.items():
            if type(key) not in (int, str):
                raise TypeError(f"A dict that travels has int or str keys, got a key of type {type(key).__qualname__}.")
            flat.append(_encode(key, arrays, classes, depth + 1))
            flat.append(_encode(item, arrays, classes, depth + 1))
        return {"d": flat}
    if isinstance(value, np.generic) and not isinstance(value, (np.str_, np.bytes_)):
        return {"s": _place(np.asarray(value), arrays)}
    if isinstance(value, np.ndarray):  # a subclass would arrive as a plain array
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} cannot travel: send a plain numpy.ndarray.")
    return _encode_object(value, arrays, classes, depth)


def _encode_object(value: Any, arrays: list[Array], classes: Sequence[type], depth: int) -> Any:
    kind = type(value)
    try:
        number = classes.index(kind)
    except ValueError:
        raise TypeError(
            f"{kind.__module__}.{kind.__qualname__} cannot travel: send arrays, numbers, strings, tuples, lists or dicts, "
            f"or define its class in the module of the code that is shipped with the job."
        ) from None
    if isinstance(value, enum.Enum):
        return {"e": [number, value.name]}
    if isinstance(value, tuple):
        return {"n": [number, [_encode(v, arrays, classes, depth + 1) for v in value]]}
    if isinstance(value, _BUILT_IN):  # only its fields would arrive, not what it contains
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} cannot travel: it extends a built-in container or number.")
    fields: list[Any] = []
    for name, item in _state(value).items():
        fields.append(name)
        fields.append(_encode(item, arrays, classes, depth + 1))
    return {"o": [number, fields]}


def _state(value: Any) -> dict[str, Any]:
    """The instance's own fields: its `__dict__` and filled `__slots__`."""
    state = dict(getattr(value, "__dict__", {}))
    state.update((name, getattr(value, name)) for name in _slots(type(value)) if hasattr(value, name))
    return state


def _slots(cls: type) -> list[str]:
    names: list[str] = []
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _place(array: Array, arrays: list[Array]) -> int:
    code = array.dtype.str
    if code not in DTYPES:
        little = array.dtype.newbyteorder("<")
        if little.str not in DTYPES:
            raise TypeError(f"An array of type {array.dtype} cannot travel: use bool, integers, floats or complex numbers.")
        array = array.astype(little)
    # asarray keeps 0-d arrays 0-d, which ascontiguousarray would not
    arrays.append(array if array.flags.c_contiguous else np.asarray(array, order="C"))
    return len(arrays) - 1


def _decode(tree: Any, arrays: Sequence[Array], classes: Sequence[type], depth: int) -> Any:
    kind = type(tree)
    if kind in _PLAIN or kind is int or kind is bytes:
        return tree
    if depth > MAX_DEPTH:
        raise ProtocolError(f"A received value is nested more than {MAX_DEPTH} levels.")
    if kind is list:
        return [_decode(v, arrays, classes, depth + 1) for v in tree]
    if kind is not Tag:
        raise ProtocolError(f"A received value holds the unknown type {kind.__qualname__}.")
    name, body = tree
    if name == "a":
        return arrays[_index(body, len(arrays))]
    if name == "t":
        return tuple([_decode(v, arrays, classes, depth + 1) for v in _listed(body)])
    if name == "d":
        flat = [_decode(v, arrays, classes, depth + 1) for v in _listed(body)]
        result = dict(zip(flat[::2], flat[1::2], strict=True))
        if len(result) * 2 != len(flat) or not all(type(k) in (int, str) for k in result):
            raise ProtocolError("A received dict has a repeated key or a key that is neither int nor str.")
        return result
    if name == "s":
        return arrays[_index(body, len(arrays))][()]
    if name == "b":
        return arrays[_index(body, len(arrays))].tobytes()
    if name == "i":
        if not isinstance(body, str) or len(body) > 1024:
            raise ProtocolError("A received integer is longer than 1024 digits.")
        return int(body)
    return _decode_object(name, body, arrays, classes, depth)


def _decode_object(name: str, body: Any, arrays: Sequence[Array], classes: Sequence[type], depth: int) -> Any:
    number, content = _listed(body)
    cls: Any = classes[_index(number, len(classes))]
    if name == "e" and issubclass(cls, enum.Enum):
        return cls.__members__[content]
    if name == "n" and issubclass(cls, tuple):
        return tuple.__new__(cls, [_decode(v, arrays, classes, depth + 1) for v in _listed(content)])
    if name != "o" or issubclass(cls, (enum.Enum, tuple, type)):
        raise ProtocolError(f"A received value has the tag {name!r}, which {cls.__qualname__} does not take.")
    instance = object.__new__(cls)
    flat, slots = _listed(content), _slots(cls)
    for field, item in zip(flat[::2], flat[1::2], strict=True):
        if not isinstance(field, str) or not field.isidentifier() or field.startswith("__"):
            raise ProtocolError(f"A received {cls.__qualname__} has the forbidden field {field!r}.")
        decoded = _decode(item, arrays, classes, depth + 1)
        if field in slots:
            object.__setattr__(instance, field, decoded)
        else:  # past a property of that name, whose setter would be code that runs
            instance.__dict__[field] = decoded
    return instance


def _index(number: Any, count: int) -> int:
    if type(number) is not int or not 0 <= number < count:
        raise ProtocolError(f"A received value refers to entry {number!r} of {count}.")
    return number


def _listed(body: Any) -> list[Any]:
    if type(body) is not list:
        raise ProtocolError("A received value has a malformed tag.")
    return body

"""Metadata that comes again and again: of block after block only the key in front differs.

A training step sends a few dozen messages that are one array, or a few integers and one array, of the same shapes every time.
For these both ends keep what follows the key: the sender the bytes, the receiver what it found in them after it had checked
everything. Whatever looks otherwise takes the long way. Both tables are bounded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgpack
import numpy as np

from .values import DTYPES, MAX_DIMENSIONS, Array, Tag

MOST_KNOWN = 512
LONGEST = 256  # bytes of metadata that are worth keeping
MAX_HEAD = 8  # integers in the head of a message
_NO_HEAD = 0x90  # msgpack: an empty list; the next ones begin those of one element, two, ...
_INTEGERS = {0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}  # first byte: length of a msgpack integer

_INT = frozenset({int})  # not bool

_sent: dict[tuple[Any, ...], bytes] = {}


def tail_of(value: object) -> tuple[bytes, Array] | None:
    """What follows the head in the metadata of `value`, and its array; None where it takes the long way."""
    integers: tuple[Any, ...] = ()
    if type(value) is np.ndarray:
        array = value
    elif type(value) is tuple and 1 < len(value) <= 4 and type(value[-1]) is np.ndarray:
        array, integers = value[-1], value[:-1]
    else:
        return None
    if not array.flags.c_contiguous:
        return None
    key = (array.dtype, array.shape, integers)
    try:
        known = _sent.get(key)
    except TypeError:  # something among the integers that cannot be a key is no integer
        return None
    if known is None:
        known = _make(array, integers)
        if known is None:
            return None
        if len(_sent) < MOST_KNOWN:
            _sent[key] = known
    # equal keys may differ in type: True for 1, 1.0 for 1
    return (known, array) if _INT.issuperset(map(type, integers)) else None


def _make(array: Array, integers: tuple[Any, ...]) -> bytes | None:
    code = array.dtype.str
    small = all(type(number) is int and -(1 << 63) <= number < 1 << 64 for number in integers)
    if code not in DTYPES or array.ndim > MAX_DIMENSIONS or not small:
        return None
    place: Any = {"a": 0}
    tree = {"t": [*integers, place]} if integers else place
    return bytes(msgpack.packb([[code, *array.shape]])) + bytes(msgpack.packb(tree))


class Known(NamedTuple):
    """What the receiver has found in a tail: the type, shape, length and bytes of the one array, and the integers before it."""

    dtype: np.dtype[Any]
    shape: list[int]
    length: int  # numbers in it
    size: int
    integers: tuple[int, ...]  # (): the value is the array itself

    def value(self, array: Array) -> Any:
        return (*self.integers, array) if self.integers else array


class KnownTails:
    """Those of one connection."""

    def __init__(self) -> None:
        self._known: dict[bytes, Known] = {}

    def find(self, meta: bytes | bytearray | memoryview) -> tuple[tuple[int, ...], Known] | None:
        """Head and tail of metadata whose tail was there before, or None."""
        end = head_end(meta)
        if end is None:
            return None
        known = self._known.get(bytes(meta[end:]))
        if known is None:
            return None
        return tuple(msgpack.unpackb(meta[1:end])), known

    def note(self, meta: bytes | bytearray | memoryview, tree: Any, arrays: list[Array]) -> None:
        """Keep the tail of metadata that was found right, if it is one of the simple ones."""
        if len(arrays) != 1 or len(self._known) >= MOST_KNOWN:
            return
        end = head_end(meta)
        integers = _integers_of(tree)
        if end is not None and integers is not False:
            array = arrays[0]
            self._known[bytes(meta[end:])] = Known(array.dtype, list(array.shape), array.size, array.nbytes, integers)


def _integers_of(tree: Any) -> Any:
    """The integers before the array in a tree, () for the array alone, False for any other tree."""
    if _is_place(tree):
        return ()
    if type(tree) is not tuple or len(tree) < 2:
        return False
    *integers, place = tree
    return tuple(integers) if _is_place(place) and all(type(number) is int for number in integers) else False


def _is_place(item: Any) -> bool:
    return type(item) is Tag and item[0] == "a" and type(item[1]) is int and item[1] == 0


def head_end(meta: bytes | bytearray | memoryview) -> int | None:
    """Where the head ends in metadata of three parts that begin with a short list of integers; None for anything else."""
    if not 2 < len(meta) <= LONGEST or meta[0] != 0x93 or not _NO_HEAD <= meta[1] <= _NO_HEAD + MAX_HEAD:
        return None
    at = 2
    for _ in range(meta[1] - _NO_HEAD):
        if at >= len(meta):
            return None
        first = meta[at]
        step = 1 if first < 0x80 or first >= 0xE0 else _INTEGERS.get(first, 0)
        if not step:
            return None
        at += step
    return at if at < len(meta) else None

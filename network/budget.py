"""Memory that the objects of a msgpack tree take, known before the first of them is made.

A limit in bytes bounds no memory: a list costs one byte on the wire and some 80 in memory. So a message or file from outside
may become at most 64 MiB of objects, and once more the bytes that it came in; arrays are counted apart, by their own bytes.
That is room for half a million pairs or two million numbers; more of them have to come as arrays.
"""

from __future__ import annotations

import re

import msgpack

from .errors import ProtocolError

OBJECT_BYTES = 64 << 20
LARGEST_GROWTH = 80  # bytes of objects per byte of a tree, at most: empty lists
_SMALL_TREE = 1 << 12  # lengths that such a tree claims without having them reserve little

_LIST = 88  # an empty list, the block of its items, and its place in its container
_TAG = 72
_DICT = 96  # taken by a dict or an object beyond the tag and the list that it comes as
_FEW = 10  # keys and values of the smallest dict
_ENTRY = 48  # of a larger one, for each of key and value, beside the place of one in a list
_NUMBER = 40
_STRING = 64
_PLACE = 8

# one byte each: small integers, None, booleans and the empty string, which are shared, and empty lists
_SHARED = re.compile(rb"[\x00-\x7f\xe0-\xff\xc0\xc2\xc3\xa0]+")
_EMPTY = re.compile(rb"\x90+")
_FLOATS = re.compile(rb"(?:\xcb[\s\S]{8}){1,1024}")
_WIDE = re.compile(rb"[\xf0-\xf4]")  # of characters beyond the 65,536 first: each character of the string then takes 4 bytes
_NUMBERS = {0xCA: 5, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}  # bytes on the wire
_IS_SHARED = bytes(_SHARED.match(bytes([first])) is not None for first in range(256))
_LENGTHS = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4}  # bytes of the length that follows


def check_tree(tree: bytes | bytearray | memoryview, budget: int = OBJECT_BYTES) -> None:
    """Check that the objects of `tree` take at most `budget` bytes and those of the tree, and that its lengths are true.

    Costs 3 ns per byte, and nothing for a short tree; only where the bytes alone do not tell that there is room, each item is
    looked at, in about the time that it takes to make it.

    Raises: ProtocolError naming the limit.
    """
    size = len(tree)
    if size > _SMALL_TREE:
        _check_lengths(tree)
    # less 1: the objects may take the bytes of the tree beside the budget
    if size * (LARGEST_GROWTH - 1) > budget:
        limit = budget + size
        needed = object_bytes(tree, limit)
        if needed > limit:
            raise _too_much(size, limit)


def check_sent(tree: bytes) -> None:
    """Check that a receiver will take `tree`.

    Raises: ValueError naming the limit.
    """
    if len(tree) * (LARGEST_GROWTH - 1) > OBJECT_BYTES:
        try:
            check_tree(tree)
        except ProtocolError as error:
            raise ValueError(f"{error}.") from None


class Room:
    """Limit of the memory for values made of a tree's objects, such as sets and tables.

    They may take, together with these objects, `OBJECT_BYTES` and the bytes that all came in, and twice those of arrays, so
    that with the arrays it is three times the wire, as everywhere.

    Args:
        tree: the msgpack tree.
        array_bytes: bytes of the arrays beside it.
    """

    __slots__ = ("_counted", "_plain", "_tree", "limit")

    def __init__(self, tree: bytes, array_bytes: int) -> None:
        self._tree = tree
        self.limit = OBJECT_BYTES + len(tree) + 2 * array_bytes
        self._plain, self._counted = LARGEST_GROWTH * len(tree), False  # at most, until they are counted

    def check(self, made: int) -> None:
        """Check that `made` bytes have room. The objects of the tree are counted only where the bytes alone do not tell.

        Raises: ProtocolError naming the limit.
        """
        if self._plain + made > self.limit and not self._counted:
            self._plain, self._counted = object_bytes(self._tree, self.limit), True
        if self._plain + made > self.limit:
            raise _too_much(len(self._tree), self.limit)


def _too_much(size: int, limit: int) -> ProtocolError:
    return ProtocolError(
        f"A message of {size} bytes would become more than {limit} bytes of objects, which is the limit: "
        f"send numbers as arrays, or in parts"
    )


def is_within(text: str) -> bool:
    """Tell if a text in JSON would become at most `OBJECT_BYTES` of objects and twice its own bytes.

    Counted by brackets and commas, those within strings, too.
    """
    return 88 * text.count("[") + 320 * text.count("{") + 64 * text.count(",") <= OBJECT_BYTES + 2 * len(text)


def _check_lengths(tree: bytes | bytearray | memoryview) -> None:
    """Find out without reserving whether the announced items are there: msgpack reserves a list when it has read its length."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(tree))
    try:
        unpacker.feed(tree)
        unpacker.skip()
    except (ValueError, RecursionError, msgpack.UnpackException) as error:
        raise ProtocolError(f"A received message is no valid msgpack: {error}.") from error


def object_bytes(tree: bytes | bytearray | memoryview, enough: int) -> int:
    """Estimate the bytes that the objects of `tree` take, temporary ones included; counting ends beyond `enough`."""
    data = bytes(tree)
    at, total, size = 0, 0, len(data)
    entries = False  # whether the next list is that of a dict, or of an object
    while at < size and total <= enough:
        first = data[at]
        if _IS_SHARED[first]:
            end = _end(_SHARED, data, at)
            total += _PLACE * (end - at)
            at = end
        elif first == 0xCB:
            end = _end(_FLOATS, data, at)
            total += _NUMBER * ((end - at) // 9)
            at = end
        elif first in _NUMBERS:
            total += _NUMBER
            at += _NUMBERS[first]
        elif first == 0x90:
            end, entries = _end(_EMPTY, data, at), False
            total += _LIST * (end - at)
            at = end
        elif first & 0xF0 == 0x90:
            count = first & 0x0F
            total += _LIST + (_ENTRY * (count - _FEW) if entries and count > _FEW else 0)
            at, entries = at + 1, False
        elif first & 0xF0 == 0x80:
            tag = data[at + 1 : at + 3]
            entries = tag in (b"\xa1d", b"\xa1o")
            total += 0 if tag == b"\xa1t" else _TAG + (_DICT if entries else 0)  # a tuple takes as much as its list
            at += 3 if tag[:1] == b"\xa1" else 1
        else:
            prefix = _LENGTHS.get(first, 0)
            length = first & 0x1F if not prefix else int.from_bytes(data[at + 1 : at + 1 + prefix], "big")
            at += 1 + prefix
            if first in (0xDC, 0xDD):
                total += _LIST + (_ENTRY * length if entries else 0)
                entries = False
            else:
                is_text = first < 0xC4 or first > 0xC6
                total += _STRING + length * _width(data, at, at + length, is_text)
                at += length
    return total


def _end(run: re.Pattern[bytes], data: bytes, at: int) -> int:
    """Find the end of the items of a kind that begin at `at`; beyond the data for one that is cut."""
    found = run.match(data, at)
    return at + 9 if found is None else found.end()


def _width(data: bytes, start: int, end: int, is_text: bool) -> int:
    """Bytes in memory for each byte of a string on the wire, at most."""
    if not is_text or data[start:end].isascii():
        return 1
    return 4 if _WIDE.search(data, start, end) else 2

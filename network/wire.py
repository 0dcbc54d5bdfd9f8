"""Frames: the form of a message on a connection.

    header `!BBHIQ` = kind, flags, reserved, meta length, data length (16 bytes)
    meta   msgpack [head, layout, tree]; absent in MORE frames
    data   raw bytes of the arrays, in the order of the layout

Between processes of one host arrays of 16 KiB and more lie in memory that both map (see `shared_memory`). Their frame has the
flag SHARED, the page where they begin in place of the 0 in the header, and no data; the data length tells where they end. Where
an attacker may stand on the path each frame travels as a record: meta and data encrypted, and a tag (see `records`).

`head` is a short list of integers (the key of an exchanged block, or empty), `layout` lists dtype and shape of every array,
`tree` is the value with places for the arrays (see `values`). A message with arrays beyond one frame continues in MORE frames,
and the flag CONTINUES says of a frame that such a one follows. Arrays go out from their own memory and come in straight into
new arrays, into which records are decrypted: so a large array has records of its own, beside that of the meta. Limits are
checked on the header before anything is allocated, and of a record nothing is decoded before it has opened.

A training step sends a few dozen messages that are one array, or a few integers and one array, of the same shapes every time.
Of these both ends keep the part of the meta behind the head, the *tail*: the sender its bytes, the receiver its content after
it had checked everything. All other messages take the long way. Both tables are bounded.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgpack

from .budget import OBJECT_BYTES, check_sent, check_tree
from .errors import ProtocolError
from .memory import SlabPool
from .names import numpy as np
from .shared_memory import LEAST_BYTES, Places
from .values import DTYPES, MAX_DIMENSIONS, Array, Tag, encode

HEADER = struct.Struct("!BBHIQ")
MAX_HEAD = 8  # integers in the head of a message
MOST_KNOWN = 512  # tails
LONGEST = 256  # bytes of meta whose tail is worth keeping
_HEADS = [bytes([0x93, 0x90 + count]) for count in range(MAX_HEAD + 1)]  # msgpack: a list of three, the first a list of so many
_INT = frozenset({int})  # not bool
_FEW = 15  # items of which msgpack tells the number in one byte
_OTHER_LENGTHS: dict[type, int] = {bool: 1, float: 9, type(None): 1}  # in msgpack
_MOST_DIMENSIONS = min(MAX_DIMENSIONS, _FEW - 1)
_LONG_WAY = frozenset({dict, list, str, type(None)})  # operations and the like, which need no test for an array
CONTINUES = 1  # flag of a frame that is not the last of its message
SHARED = 2  # flag of a message whose arrays lie in memory that both ends map
TAG_SIZE = 16  # bytes that a record is longer than its frame
RECORD_BYTES = 1 << 20  # data of one record: its text and its cipher text stay in the caches of both ends
_TOGETHER = 32 << 10  # bytes of arrays that share a record with their meta; they are copied once more


class Kind(enum.IntEnum):
    """Kind of a frame."""

    READY = 1  # the server's first frame, which confirms the keys: a record on every connection
    MESSAGE = 2
    MORE = 3  # continues the data of the message before it
    BYE = 4  # the sender's last frame: it leaves on purpose, and the connection's end is no loss
    MEMORY = 5  # where shared memory is, or the consent to use that of the peer


KINDS = frozenset(Kind)


class Limits(NamedTuple):
    """Limits of a receiver in bytes: of the `meta` and `data` of a frame, and of the arrays of a `message`."""

    meta: int = 1 << 20
    data: int = 8 << 20
    message: int = 2 << 30


_tails: dict[tuple[Any, ...], bytes] = {}  # of messages that were sent

Frame = list[bytes | memoryview]  # header and meta in one, then data

#: Leaves arrays in memory for the peer; the page where they begin and the bytes to their end, None where they are to travel.
Leave: TypeAlias = Callable[[Sequence[Array]], "tuple[int, int] | None"]


class Sent(NamedTuple):
    """Cost of a message in bytes.

    Args:
        raw: its arrays.
        overhead: the protocol's own (headers, meta, tags).
        shared: whether the arrays do not travel, but lie in memory that the peer reads.
    """

    raw: int
    overhead: int
    shared: bool = False

    @property
    def wire(self) -> int:
        return self.raw + self.overhead


class Packed(NamedTuple):
    """Message ready to leave.

    Args:
        frames: its frames, not sealed.
        raw: as in `Sent`.
        overhead: as in `Sent`, that of the tags included.
        shared: bytes of it that lie in shared memory.
    """

    frames: list[Frame]
    raw: int
    overhead: int
    shared: int = 0

    def buffers(self) -> list[bytes | memoryview]:
        """Return the buffers that travel where nothing is encrypted."""
        return [part for frame in self.frames for part in frame]


def pack(
    kind: Kind,
    head: Sequence[int],
    value: object,
    sealed: bool = False,
    classes: Sequence[type] = (),
    limits: Limits = Limits(),  # noqa: B008
    leave: Leave | None = None,
) -> Packed:
    """Frame one message.

    Args:
        kind: kind of its first frame.
        head: at most 8 integers.
        value: any value that `values.encode` takes.
        sealed: whether its frames become records.
        classes: class table that both sides share.
        limits: those of the receiver.
        leave: leaves its arrays in memory; see `Leave`.

    Raises: TypeError when the value cannot travel, ValueError when it exceeds `limits`.
    """
    if len(head) > MAX_HEAD:
        raise ValueError(f"The head of a message may have {MAX_HEAD} integers, got {len(head)}.")
    known = tail_of(value)
    if known is not None:
        tail, array = known
        meta, arrays = _HEADS[len(head)] + b"".join(map(_integer, head)) + tail, [array]
    else:
        tree, arrays = encode(value, classes)
        try:
            meta = msgpack.packb([list(head), [[a.dtype.str, *a.shape] for a in arrays], tree])
        except UnicodeEncodeError as error:
            raise TypeError(f"A str that is no valid Unicode cannot travel: {error.reason}.") from None
        check_sent(meta)
    raw = arrays[0].nbytes if len(arrays) == 1 else sum(a.nbytes for a in arrays)
    tag = TAG_SIZE if sealed else 0
    size = len(meta)
    # told here, where the caller has its value at hand; the receiver could only end the connection
    if size > limits.meta:
        raise ValueError(f"A message may hold {limits.meta} bytes beside its arrays, got {size}: send large data as arrays.")
    if raw > limits.message:
        raise ValueError(f"A message may hold {limits.message} bytes of arrays, got {raw}: send it in parts.")
    if leave is not None and raw >= LEAST_BYTES and (left := leave(arrays)) is not None:
        page, end = left
        return Packed([[HEADER.pack(kind, SHARED, page, size, end) + meta]], raw, HEADER.size + size, raw)
    together = min(limits.data, _TOGETHER) if sealed else limits.data
    if raw <= together:  # one frame, as almost always
        parts: Frame = [HEADER.pack(kind, 0, 0, size, raw) + meta]
        for array in arrays:
            if array.nbytes:
                parts.append(as_bytes(array))
        return Packed([parts], raw, HEADER.size + size + tag)
    views = [as_bytes(a) for a in arrays if a.nbytes]
    chunks = [[], *_chunks(views, min(limits.data, RECORD_BYTES))] if sealed else list(_chunks(views, limits.data))
    frames: list[Frame] = []
    for number, chunk in enumerate(chunks):
        flags = CONTINUES if number < len(chunks) - 1 else 0
        data = sum(map(len, chunk))
        header = HEADER.pack(Kind.MORE, flags, 0, 0, data) if number else HEADER.pack(kind, flags, 0, size, data) + meta
        frames.append([header, *(part for part in chunk if len(part))])
    return Packed(frames, raw, size + len(frames) * (HEADER.size + tag))


def size_of(head: Sequence[int], value: object, sealed: bool = False, limits: Limits = Limits()) -> Sent | None:  # noqa: B008
    """Return the bytes of a message that `pack` makes, without making it; None for a value of which `pack` has to tell.

    Known are the values that codecs send: an array, or a tuple of at most 15 integers, other plain numbers and arrays.

    Args:
        head: at most 8 integers.
        value: the value.
        sealed: whether its frames become records.
        limits: those of the receiver.
    """
    items = value if type(value) is tuple else (value,)
    if len(items) > _FEW or len(head) > MAX_HEAD or not _INT.issuperset(map(type, head)):
        return None
    raw, arrays = 0, 0
    # begin of the message, of the head, of the arrays and, for a tuple, of the tree and of its items
    meta = 3 + sum(map(_length, head)) + (4 if type(value) is tuple else 0)
    for item in items:
        kind = type(item)
        if kind is int:
            length = _length(item)
            if not length:
                return None
            meta += length
        elif kind is np.ndarray:
            length = _length_of_array(item.dtype, item.shape)
            if not length:
                return None
            raw += item.nbytes
            meta += length
            arrays += 1
        elif kind in _OTHER_LENGTHS:
            meta += _OTHER_LENGTHS[kind]
        else:
            return None
    if not arrays or raw > limits.message or meta > limits.meta:
        return None
    if sealed:
        chunk = min(limits.data, RECORD_BYTES)
        # arrays too large for the record of the meta: one frame for the meta, then those that they fill
        frames = 1 if raw <= min(limits.data, _TOGETHER) else 1 - (-raw // chunk)
    else:
        frames = max(1, -(-raw // limits.data))
    return Sent(raw, meta + frames * (HEADER.size + (TAG_SIZE if sealed else 0)))


@lru_cache(maxsize=1 << 12)
def _length_of_array(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Return the bytes in the meta of a message that stand for an array, 0 for one that takes the long way."""
    if len(shape) > _MOST_DIMENSIONS or dtype.str not in DTYPES:
        return 0
    # a byte each for the list and the text in the layout, four for the place in the tree
    return 6 + len(dtype.str) + sum(map(_length, shape))


@lru_cache(maxsize=1 << 12)
def _length(number: int) -> int:
    """Return the bytes of an integer in msgpack, 0 for one of more than 64 bits."""
    if -32 <= number < 128:
        return 1
    if number < 0:
        number = -2 * number - 1  # its sign takes a bit
    if number < 1 << 8:
        return 2
    if number < 1 << 16:
        return 3
    if number < 1 << 32:
        return 5
    return 9 if number < 1 << 64 else 0


def tail_of(value: object) -> tuple[bytes, Array] | None:
    """Find the bytes of the meta of `value` behind the head, and its array; None for a value that takes the long way."""
    integers: tuple[Any, ...] = ()
    if type(value) is tuple and 1 < len(value) <= 4:
        integers, value = value[:-1], value[-1]
    if type(value) in _LONG_WAY or type(value) is not np.ndarray:
        return None
    array = value
    if not array.flags.c_contiguous:
        return None
    key = (array.dtype, array.shape, integers)
    try:
        tail = _tails.get(key)
    except TypeError:  # something among the integers that cannot be a key is no integer
        return None
    if tail is None:
        tail = _make_tail(array, integers)
        if tail is None:
            return None
        if len(_tails) < MOST_KNOWN:
            _tails[key] = tail
    # equal keys may differ in type: True for 1, 1.0 for 1
    return (tail, array) if _INT.issuperset(map(type, integers)) else None


def _make_tail(array: Array, integers: tuple[Any, ...]) -> bytes | None:
    code = array.dtype.str
    small = all(type(number) is int and -(1 << 63) <= number < 1 << 64 for number in integers)
    if code not in DTYPES or array.ndim > MAX_DIMENSIONS or not small:
        return None
    place: Any = {"a": 0}
    tree = {"t": [*integers, place]} if integers else place
    return bytes(msgpack.packb([[code, *array.shape]])) + bytes(msgpack.packb(tree))


class Known(NamedTuple):
    """Content of a tail, as the receiver has found it: the type, shape and bytes of the one array, and the integers before
    it.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    size: int
    integers: tuple[int, ...]  # (): the value is the array itself

    def value(self, array: Array) -> Any:
        return (*self.integers, array) if self.integers else array


@lru_cache(maxsize=1 << 12)
def _integer(number: int) -> bytes:
    """Encode one integer of a head; a packer of msgpack makes more effort to begin than to pack all of them."""
    return bytes(msgpack.packb(number))


class KnownTails:
    """Tails that one connection has seen."""

    def __init__(self) -> None:
        self._known: dict[bytes, Known] = {}
        self._lengths: tuple[int, ...] = ()

    def find(self, meta: bytes) -> tuple[tuple[int, ...], Known] | None:
        """Split meta with a tail that was there before into head and `Known`; None for any other."""
        for length in self._lengths:
            known = self._known.get(meta[-length:])
            # the head is not part of what was kept, so it is checked afresh
            if known is not None and meta[0] == 0x93 and len(meta) <= LONGEST:
                try:
                    head = msgpack.unpackb(meta[1:-length], use_list=False)
                except (ValueError, TypeError, msgpack.UnpackException):  # not one thing: the tail is another, longer one
                    continue
                if type(head) is tuple and len(head) <= MAX_HEAD and _INT.issuperset(map(type, head)):
                    return head, known
        return None

    def note(self, tail: bytes, tree: Any, arrays: list[Array]) -> None:
        """Keep `tail`, with its `tree` and `arrays` found right, if it is one of the simple ones."""
        if len(arrays) != 1 or len(self._known) >= MOST_KNOWN:
            return
        integers = _integers_of(tree)
        if integers is not False:
            array = arrays[0]
            self._known[tail] = Known(array.dtype, array.shape, array.nbytes, integers)
            self._lengths = tuple(dict.fromkeys((*self._lengths, len(tail))))


def _integers_of(tree: Any) -> Any:
    """Return the integers before the array in a tree, () for the array alone, False for any other tree."""
    if _is_place(tree):
        return ()
    if type(tree) is not tuple or len(tree) < 2:
        return False
    *integers, place = tree
    return tuple(integers) if _is_place(place) and _INT.issuperset(map(type, integers)) else False


def _is_place(item: Any) -> bool:
    return type(item) is Tag and item[0] == "a" and type(item[1]) is int and item[1] == 0


def as_bytes(array: Array) -> memoryview:
    """View the memory of a contiguous array that is not empty, byte by byte."""
    if array.dtype.kind == "c":  # memoryviews know no complex numbers
        return array.reshape(-1).view(np.uint8).data
    return array.data.cast("B")


def _chunks(views: list[memoryview], size: int) -> Iterator[list[memoryview]]:
    """Cut the concatenation of `views` into pieces of `size` bytes; at least one, possibly empty."""
    chunk: list[memoryview] = []
    room = size
    for view in views:
        while len(view) > room:
            chunk.append(view[:room])
            yield chunk
            view, chunk, room = view[room:], [], size
        chunk.append(view)
        room -= len(view)
    yield chunk


def unpack(meta: bytes | bytearray | memoryview, budget: int = OBJECT_BYTES) -> Any:
    """Decode msgpack from the network: maps become tuples and `Tag`. `budget` bounds the bytes of its objects, see
    `check_tree`.

    Raises: ProtocolError for bytes that `pack` does not make, and for more objects than the budget allows.
    """
    # first: msgpack would reserve whatever length the peer announces
    check_tree(meta, budget)
    size = len(meta)
    try:
        return msgpack.unpackb(
            meta,
            raw=False,
            strict_map_key=True,
            object_pairs_hook=_one_tag,
            ext_hook=_no_extension,
            max_array_len=size,
            # every map is one tag
            max_map_len=1,
            max_str_len=size,
            max_bin_len=size,
            max_ext_len=0,
        )
    except ProtocolError:
        raise
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise ProtocolError(f"A received message is no valid msgpack: {error}.") from error


def split(meta: bytes | bytearray | memoryview) -> tuple[Any, Any, bytes, int]:
    """Split a message's meta into its head and layout, decoded, its tree as bytes, and the place where its tail begins.

    Raises: ProtocolError for anything that has not three parts.
    """
    check_tree(meta)
    size = len(meta)
    unpacker = msgpack.Unpacker(
        raw=False, object_pairs_hook=_one_tag, ext_hook=_no_extension, max_array_len=size, max_map_len=1, max_buffer_size=size
    )
    try:
        unpacker.feed(meta)
        parts = unpacker.read_array_header()
        # the tree stays bytes: it is opened when its value is asked for, which for many messages is never
        head, tail_at, layout = unpacker.unpack(), unpacker.tell(), unpacker.unpack()
    except ProtocolError:
        raise
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise ProtocolError(f"A received message is no valid msgpack: {error}.") from error
    if parts != 3:
        raise ProtocolError("A received message is malformed.")
    return head, layout, bytes(memoryview(meta)[unpacker.tell() :]), tail_at


def _one_tag(pairs: list[tuple[Any, Any]]) -> Tag | tuple[Any, ...]:
    if len(pairs) != 1 or not isinstance(pairs[0][0], str):
        raise ProtocolError("A received message holds a map that is not a tag.")
    name, body = pairs[0]
    if name == "t" and type(body) is list:
        return tuple(body)
    return Tag(name, body)


def _no_extension(code: int, _data: bytes) -> Any:
    raise ProtocolError(f"A received message holds the msgpack extension {code}.")


def allocate(layout: Any, limit: int, pool: SlabPool | Places | None = None) -> list[Array]:
    """Make arrays for a received layout.

    Args:
        layout: [[dtype, length, ...], ...] as it came.
        limit: bytes of all of them.
        pool: gives their memory; default: new memory.

    Raises: ProtocolError when a type is not allowed, a shape malformed, or the sum exceeds `limit` bytes.
    """
    if type(layout) is not list:
        raise ProtocolError("A received message has a malformed layout.")
    specs: list[tuple[str, list[int], int]] = []
    total = 0
    for entry in layout:
        if type(entry) is not list or not 1 <= len(entry) <= MAX_DIMENSIONS + 1:
            raise ProtocolError("A received message has a malformed layout.")
        code, *shape = entry
        if type(code) is not str or code not in DTYPES:
            raise ProtocolError("A received message describes an array of a type that may not travel.")
        size = DTYPES[code]
        for length in shape:
            # not isinstance: True is an int, too
            if type(length) is not int or not 0 <= length <= limit:
                raise ProtocolError("A received message describes an array of an impossible shape.")
            size *= length
        total += size
        if total > limit:
            raise ProtocolError(f"A received message announces {total} bytes of arrays, more than the {limit} allowed.")
        # nothing is allocated before the last array has been counted
        specs.append((code, shape, size))
    try:
        if pool is None:
            return [np.empty(shape, code) for code, shape, _ in specs]
        return [pool.empty(shape, np.dtype(code), size) for code, shape, size in specs]
    except (ValueError, MemoryError) as error:  # a 0 among dimensions whose product no index can count, or no memory
        raise ProtocolError(f"A received message describes arrays that cannot be made here: {error}.") from error

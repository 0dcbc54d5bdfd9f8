"""Finds the messages in the bytes of a connection, for faults that handle them whole."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator

from network.errors import ProtocolError
from network.hello import HEAD, LENGTH, hello_length, reply_length
from network.seal import MAC_SIZE
from network.values import DTYPES, decode
from network.wire import HEADER, KINDS, Kind, unpack


class Place(enum.Enum):
    """Where in a connection one of its directions is."""

    HELLO = enum.auto()
    PROOF = enum.auto()
    REPLY = enum.auto()
    FRAMES = enum.auto()
    UNKNOWN = enum.auto()


class Seals:
    """Whether the frames of a connection carry seals. Its two directions share one, because only READY tells."""

    def __init__(self, sealed: bool = False) -> None:
        self.sealed = sealed


class MessageSplitter:
    """Cuts one direction of a connection into what belongs together.

    `place` is where it begins: HELLO for what a client sends from the start, REPLY for a server, FRAMES after the handshake.
    Bytes that are no Parallel-SGD connection pass as they come.
    """

    def __init__(self, place: Place, seals: Seals) -> None:
        self._place = place
        self._seals = seals
        self._data = bytearray()

    def split(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Add bytes; yield the parts that are complete, and whether each is a message."""
        self._data += data
        while self._data:
            try:
                size, is_message = self._measure()
            except ProtocolError:
                self._place = Place.UNKNOWN
                continue
            if not size or size > len(self._data):
                return
            part = bytes(self._data[:size])
            del self._data[:size]
            if self._place is not Place.UNKNOWN:
                self._place = Place.PROOF if self._place is Place.HELLO else Place.FRAMES
            yield part, is_message

    def rest(self) -> bytes:
        """What came and is not complete."""
        rest = bytes(self._data)
        self._data.clear()
        return rest

    def _measure(self) -> tuple[int, bool]:
        """The size of the part at the begin, 0 while it is not known, and whether it is a message."""
        data = self._data
        if self._place is Place.HELLO:
            return (HEAD.size + hello_length(data[: HEAD.size]) if len(data) >= HEAD.size else 0), False
        if self._place is Place.PROOF:
            return MAC_SIZE, False
        if self._place is Place.REPLY:
            if data[0]:  # a refusal
                raise ProtocolError("A reply must begin with 0.")
            start = 1 + LENGTH.size
            return (start + reply_length(bytes(data[1:start])) if len(data) >= start else 0), False
        return self._measure_message() if self._place is Place.FRAMES else (len(data), False)

    def _measure_message(self) -> tuple[int, bool]:
        """A frame and those that continue it."""
        data, end, missing, first = self._data, 0, 0, 0
        while not end or missing > 0:
            if len(data) < end + HEADER.size:
                return 0, False
            kind, _, _, meta_bytes, data_bytes = HEADER.unpack_from(data, end)
            if kind not in KINDS:
                raise ProtocolError(f"A frame of unknown kind {kind} came by.")
            if not end:
                first = kind
                if len(data) < HEADER.size + meta_bytes:
                    return 0, False
                missing = self._array_bytes(kind, bytes(data[HEADER.size : HEADER.size + meta_bytes]))
            missing -= data_bytes
            sealed = self._seals.sealed or kind == Kind.READY
            end += HEADER.size + meta_bytes + data_bytes + (MAC_SIZE if sealed else 0)
        return end, first == Kind.MESSAGE

    def _array_bytes(self, kind: int, metadata: bytes) -> int:
        meta = unpack(metadata)
        if not isinstance(meta, list) or len(meta) != 3:
            raise ProtocolError("A malformed message came by.")
        _, layout, tree = meta
        if kind == Kind.READY:
            value = decode(tree, [], ())
            self._seals.sealed = isinstance(value, dict) and bool(value.get("sealed"))
        try:
            return sum(DTYPES[code].itemsize * math.prod(shape) for code, *shape in layout)
        except (TypeError, ValueError, KeyError) as error:
            raise ProtocolError("A message with a malformed layout came by.") from error

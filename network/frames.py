"""Reader of frames: a machine without I/O that says where the next bytes belong and collects whole messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from .errors import ProtocolError
from .hello import Caps, parse_ready
from .memory import SlabPool
from .message import Message, Undecoded, unpacked
from .names import numpy as np
from .records import DIRECT_BYTES, Confirmation, Opener, RecordReader, check_header
from .shared_memory import PeerMemory, Places
from .values import Array
from .wire import (
    CONTINUES,
    HEADER,
    LONGEST,
    MAX_HEAD,
    SHARED,
    TAG_SIZE,
    Kind,
    Known,
    KnownTails,
    Limits,
    allocate,
    as_bytes,
    split,
    unpack,
)

SCRATCH_BYTES = 1 << 18
MOST_NOTES = 2  # about memory, that wait: an offer, and the consent to ours
_INTEGERS = frozenset({int})  # not bool
_READY, _MESSAGE, _MORE, _BYE = map(int, (Kind.READY, Kind.MESSAGE, Kind.MORE, Kind.BYE))  # members compare ten times slower


#: Where the array of a message with this head shall be read to: a contiguous array; None, or one that does not fit the message:
#: to new memory. Its content means nothing until the message is there: a record is decrypted first and checked then.
Place: TypeAlias = "Callable[[tuple[int, ...]], Array | None]"


class FrameReader:
    """Parser that turns a byte stream into messages, with one copy at most for small frames and none for large arrays.

    Ask `buffer()` where to read to, read there, call `advance(n)` with the number of bytes that came; whole messages appear in
    `messages`. `ready` is True once READY has come, and `told` is its content; `ended` says that BYE came, after which nothing
    may come.

    `place`, where it is set, finds the memory for messages of one array. Where nothing is sealed the ends may share memory:
    `notes` holds the peer's messages about that, `memory` is the memory in which the peer leaves arrays. Those of a message
    with a head are read there, and cannot be written to; `left` counts their bytes until its owner sets it to 0.

    Args:
        opener: opens the first frame, which must be a record; None: no frame is one.
        sealed: whether every later frame must be a record, too.
        limits: bytes that are accepted.
        expect_ready: whether the first frame must be READY.
    """

    # with more than thirty attributes in a dict CPython takes a longer way to all of them: a tenth of a small message's time
    __slots__ = (
        "_arrays",
        "_continues",
        "_data_bytes",
        "_fill",
        "_fresh",
        "_head",
        "_header",
        "_kind",
        "_known",
        "_limits",
        "_metadata",
        "_missing",
        "_overhead",
        "_pool",
        "_records",
        "_scratch",
        "_sealed",
        "_shared",
        "_sinks",
        "_step",
        "_tag",
        "_tails",
        "_tree",
        "classes",
        "completed",
        "direct",
        "ended",
        "left",
        "memory",
        "messages",
        "notes",
        "place",
        "ready",
        "told",
        "watched",
    )

    def __init__(
        self,
        opener: Opener | Confirmation | None = None,
        sealed: bool = False,
        limits: Limits = Limits(),  # noqa: B008
        expect_ready: bool = False,
    ) -> None:
        self.messages: deque[Message] = deque()
        self.completed = 0  # messages, so far
        self.classes: Sequence[type] = ()
        self.place: Place | None = None
        self.memory: PeerMemory | None = None
        self.notes: list[Any] = []
        self.left = 0
        self.ready = not expect_ready
        self.told: Caps = {}
        self.ended = False
        self._pool = SlabPool()
        self._tails = KnownTails()
        self._limits = limits
        self._sealed = sealed
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.direct = False  # whether the last `buffer()` belongs to a large array, so that more is on its way
        self._header = memoryview(bytearray(HEADER.size))
        self._records = None if opener is None else RecordReader(opener, limits, self._scratch, first_only=not sealed)
        self._tag = TAG_SIZE if opener is not None else 0
        self._reset()
        self._begin()

    def _reset(self) -> None:
        """Forget the message in the making."""
        self._arrays: list[Array] = []
        self._head: tuple[int, ...] = ()
        self._tree = b""
        self._known: Known | None = None
        self._kind = _MESSAGE
        self._shared: tuple[int, int] | None = None  # page and bytes of arrays that do not travel
        self._missing = 0  # bytes of the message's arrays that no frame has brought yet
        self._sinks: deque[memoryview] = deque()  # where those bytes go
        self._overhead = 0

    def _begin(self) -> None:
        self._step: Callable[[], None] = self._on_header
        self._fill: list[memoryview] = [self._header]
        self._fresh = True  # nothing of the frame has come yet
        if not self._missing:
            self.watched = False  # whether the reader's owner counts the seconds of this message
        self._metadata: bytes | bytearray = b""

    def forget(self) -> None:
        """Free the memory of a session that is over: a message in the making and memory for others. Nothing more will come."""
        self._reset()
        self._begin()
        self._pool = SlabPool()
        # `advance` refuses from here on: without this it would take records for plain frames
        self._records = self.memory = None

    def buffer(self) -> memoryview:
        """Return the memory for the next received bytes; never empty."""
        if self._records is not None:
            buffer = self._records.buffer()
            self.direct = self._records.direct
            return buffer
        self.direct = len(self._fill[0]) >= DIRECT_BYTES
        return self._fill[0] if self.direct else self._scratch

    @property
    def begun(self) -> bool:
        """Whether more must come: of a frame, or of a message."""
        return not self._fresh or self._missing > 0 or (self._records is not None and self._records.begun)

    def advance(self, count: int) -> None:
        """Take note that `count` bytes were put into the last `buffer()`.

        Raises: ProtocolError; the connection must then be closed.
        """
        if self._records is not None:
            for frames in self._records.frames(count, self._begin_more, self._finish_frame):
                self._read(frames)
            if not self._sealed and self.ready:  # that was the record which confirms the keys
                rest, self._records, self._tag = self._records.rest(), None, 0
                self._read(memoryview(rest))
            return
        if self._sealed:
            raise ProtocolError("Nothing can come any more in a session that is over.")
        if self.direct:
            self._fill[0] = self._fill[0][count:]
        self._read(self._scratch[: 0 if self.direct else count])

    def feed(self, data: bytes | bytearray | memoryview, most: int = 1 << 30) -> None:
        """Read bytes that are here already, in portions of at most `most` bytes. Raises as `advance`."""
        rest = memoryview(data)
        while rest:
            buffer = self.buffer()
            count = min(len(buffer), len(rest), most)
            buffer[:count] = rest[:count]
            self.advance(count)
            rest = rest[count:]

    def _read(self, unread: memoryview) -> None:
        while True:
            # most of a training's messages are known and whole, and end in this loop
            while self._fresh and len(unread) >= HEADER.size:
                unread = self._take_known(unread)
                unread = self._take_start(unread) if len(unread) >= HEADER.size else unread
            if self._fresh and not unread:
                return
            unread = self._drain(unread)
            if self._fill:  # then everything unread has found its place
                return
            self._step()

    def _take_known(self, unread: memoryview) -> memoryview:
        """Make the messages in front that have known tails, as most of a training step are; return the bytes behind them."""
        at, size = 0, len(unread)
        # in the midst of a message, before READY and after BYE each frame has to be checked by the state
        if self._missing or not self.ready or self.ended or self.place:
            return unread
        while size - at >= HEADER.size:
            kind, flags, reserved, meta_bytes, data_bytes = HEADER.unpack_from(unread, at)
            end = at + HEADER.size + meta_bytes
            shared = flags == SHARED
            stop = end if shared else end + data_bytes
            # anything unusual breaks off here, and the long way finds what is wrong with it
            if (
                kind != _MESSAGE
                or stop > size
                or ((flags or reserved) and not shared)
                or not 0 < data_bytes <= self._limits.data
            ):
                break
            found = self._tails.find(unread[end - meta_bytes : end].tobytes())
            if found is None or found[1].size != data_bytes:
                break
            head, known = found
            if shared:
                # values without a head may be changed by their receiver, so the long way copies them
                if self.memory is None or not head:
                    break
                array = self.memory.take(reserved, known.shape, known.dtype, data_bytes)
                self.left += data_bytes
            else:
                # a copy: the scratch memory is written over by the next read
                array = np.ndarray(known.shape, known.dtype, unread, end).copy()
            content = (*known.integers, array) if known.integers else array
            self.messages.append(Message(head, content, data_bytes, end - at + self._tag, shared))
            self.completed += 1
            at = stop
            # a whole message came, so its sender goes on
            self.watched = False
        return unread[at:]

    def _take_start(self, unread: memoryview) -> memoryview:
        """Read header and, where it has come whole, meta of a frame in place; return the bytes behind them."""
        self._fresh = False
        meta_bytes = self._check_header(HEADER.unpack_from(unread))
        end = HEADER.size + meta_bytes
        if len(unread) < end:
            self._await_meta(meta_bytes)
            return unread[HEADER.size :]
        if meta_bytes:
            self._open_meta(unread[HEADER.size : end])
        self._step, self._fill = self._finish_frame, self._take(self._data_bytes)
        return unread[end:]

    def _drain(self, unread: memoryview) -> memoryview:
        """Move `unread` into the targets, drop those that are full, and return the bytes left over."""
        fill = self._fill
        while fill:
            target = fill[0]
            size = len(target)
            if size > len(unread):
                if unread:
                    self._fresh = False
                    target[: len(unread)] = unread
                    fill[0] = target[len(unread) :]
                    unread = unread[:0]
                break
            if size:
                target[:] = unread[:size]
                unread = unread[size:]
            fill.pop(0)
        return unread

    def _on_header(self) -> None:
        self._fresh = False
        self._await_meta(self._check_header(HEADER.unpack(self._header)))

    def _await_meta(self, meta_bytes: int) -> None:
        # of a length that `_check_header` has found within the limits
        meta = bytearray(meta_bytes)
        self._metadata = meta
        self._step, self._fill = self._on_meta, [memoryview(meta)]

    def _check_header(self, header: tuple[int, ...]) -> int:
        """Check a header and note its fields; return the length of the frame's meta."""
        kind, flags, page, meta_bytes, data_bytes = header
        # only after the peer's memory is mapped here; else `check_header` refuses the flag
        if flags == SHARED and kind == _MESSAGE and self.memory is not None and not self._missing:
            self._shared = page, data_bytes
            # its data do not travel; what it says of pages is checked when they are taken
            header, flags, data_bytes = (kind, 0, 0, meta_bytes, 0), 0, 0
        check_header(header, self._limits.meta, self._limits.data)
        more = kind == _MORE
        if more != (self._missing > 0) or more == (meta_bytes > 0) or (more and not data_bytes):
            raise ProtocolError(f"A frame of kind {Kind(kind).name} came out of turn or without content.")
        # READY exactly once and first, nothing after BYE, notes only where nothing is sealed, and few at a time
        if not more:
            if (
                self.ended
                or self.ready == (kind == _READY)
                or (kind > _BYE and (self._sealed or len(self.notes) >= MOST_NOTES))
            ):
                raise ProtocolError(f"A frame of kind {Kind(kind).name} came in the wrong state of the session.")
            self._kind = kind
        self._data_bytes = data_bytes
        self._continues = flags == CONTINUES
        self._overhead += HEADER.size + meta_bytes + self._tag
        return meta_bytes

    def _begin_more(self, header: tuple[int, ...]) -> list[memoryview]:
        """Return the memory for the data of a frame of kind MORE that is about to be opened."""
        self._check_header(header)
        return self._take(self._data_bytes)

    def _on_meta(self) -> None:
        if self._metadata:
            self._open_meta(self._metadata)
        self._step, self._fill = self._finish_frame, self._take(self._data_bytes)

    def _open_meta(self, metadata: bytes | bytearray | memoryview) -> None:
        found = self._tails.find(bytes(metadata)) if len(metadata) <= LONGEST else None
        if found is None:
            self._open_unknown(metadata)
        else:
            self._head, known = found
            self._known = known
            if self._shared is None:
                self._arrays = [self._place_for(known)]
            else:
                self._arrays = self._in_memory([[known.dtype.str, *known.shape]])
        if self._shared is None:
            self._sinks = deque([as_bytes(a) for a in self._arrays if a.nbytes])
            self._missing = sum(map(len, self._sinks))

    def _place_for(self, known: Known) -> Array:
        """Find memory for the array of a message once its metadata has come."""
        if self.place is not None:
            found = self.place(self._head)
            # a place that does not fit is no fault: shapes may differ, and the caller finds that by itself
            if found is not None and found.dtype == known.dtype and found.shape == known.shape:
                return found
        return self._pool.empty(known.shape, known.dtype, known.size)

    def _open_unknown(self, metadata: bytes | bytearray | memoryview) -> None:
        head, layout, self._tree, tail_at = split(metadata)
        if type(head) is not list or len(head) > MAX_HEAD or not _INTEGERS.issuperset(map(type, head)):
            raise ProtocolError("A received message has a malformed head.")
        self._head = tuple(head)
        found = self.place(self._head) if self.place is not None else None
        if self._shared is not None:
            self._arrays = self._in_memory(layout)
        elif found is not None and layout == [[found.dtype.str, *found.shape]]:
            self._arrays = [found]
        else:
            self._arrays = allocate(layout, self._limits.message, self._pool)
        # only now that head, layout and tree have been found right: a known tail is not checked again
        if len(metadata) <= LONGEST:
            self._tails.note(bytes(metadata[tail_at:]), unpack(self._tree), self._arrays)

    def _in_memory(self, layout: Any) -> list[Array]:
        """Find the arrays of a message in shared memory; copies for a message without a head: its receiver knows nothing
        of that.
        """
        if self._shared is None or self.memory is None:
            raise ProtocolError("A message tells of memory in a session that is over.")
        # the layout is checked against the bytes that the frame tells of, and those against the memory
        arrays = allocate(layout, self._shared[1], Places(self.memory, *self._shared))
        self.left += sum(a.nbytes for a in arrays)
        return arrays if self._head else [a.copy() for a in arrays]

    def _take(self, count: int) -> list[memoryview]:
        """Take the next `count` bytes of the message's arrays, as targets."""
        if count > self._missing:
            raise ProtocolError(f"A frame brings {count} bytes where {self._missing} were announced.")
        self._missing -= count
        targets: list[memoryview] = []
        while count:
            sink = self._sinks[0]
            part = sink[:count]
            targets.append(part)
            count -= len(part)
            if len(part) == len(sink):
                self._sinks.popleft()
            else:
                self._sinks[0] = sink[len(part) :]
        return targets

    def _finish_frame(self) -> None:
        if self._continues != (self._missing > 0):
            raise ProtocolError("A frame says that its message goes on, or ends, where it does not.")
        if not self._missing:
            self._finish_message()
            self._reset()
        self._begin()

    def _finish_message(self) -> None:
        known, arrays = self._known, self._arrays
        # not decoded here: a message that waits takes no more than its bytes
        content = Undecoded(self._tree, arrays, self.classes) if known is None else known.value(arrays[0])
        if self._kind == _MESSAGE:
            raw = arrays[0].nbytes if len(arrays) == 1 else sum(a.nbytes for a in arrays)
            self.messages.append(Message(self._head, content, raw, self._overhead, self._shared is not None))
            self.completed += 1
        elif self._kind == _READY:
            self.ready, self.told = True, parse_ready(unpacked(content))
        elif self._kind == _BYE:
            self.ended = True
        else:
            self.notes.append(unpacked(content))

"""Reading records: collects them as they come, and opens them to the frames that they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .errors import ProtocolError
from .memory import SpareBuffers
from .records import TAG_SIZE, Opener
from .wire import CONTINUES, HEADER, KINDS, RECORD_BYTES, Kind, Limits

DIRECT_BYTES = 1 << 13  # a gap of at least this size is read straight into its destination
_FRAMES_BYTES = 1 << 14  # for small frames that are read together
LARGE_BUFFERS = SpareBuffers(RECORD_BYTES + (1 << 16), most=4)  # each for a large record and the small one before it
_MORE = int(Kind.MORE)


class RecordReader:
    """Ask `buffer()` where to read to, read there, then take the `frames` in what has come.

    `scratch` is memory for many small records, for as long as none is larger. With `first_only` it opens one record.
    `direct` says whether the last buffer ends with a large record, of which more is on its way.
    """

    __slots__ = ("_filled", "_first_only", "_frames", "_lacking", "_limits", "_opener", "_records", "_scratch", "direct")

    def __init__(self, opener: Opener, limits: Limits, scratch: memoryview, first_only: bool) -> None:
        self._opener = opener
        self._limits = limits
        self._scratch = self._records = scratch  # what has come
        self._filled = 0  # bytes of it
        self._lacking = 0  # bytes of the first record that have not come, as soon as its header is there
        self._frames = memoryview(b"")  # what the records hold, but for arrays that have records of their own
        self._first_only = first_only
        self.direct = False

    @property
    def begun(self) -> bool:
        """Whether a part of a record is there."""
        return self._filled > 0

    def buffer(self) -> memoryview:
        """Room for the rest of the first record and the header of the next one, or for many small ones."""
        self.direct = self._lacking >= DIRECT_BYTES
        room = self._lacking + HEADER.size
        if not self.direct:
            room = max(room, len(self._scratch) - self._filled)
        if len(self._records) < self._filled + room:
            larger = LARGE_BUFFERS.take(self._filled + room)
            larger[: self._filled] = self._records[: self._filled]
            self._let_go()
            self._records = larger
        return self._records[self._filled : self._filled + room]

    def frames(
        self, count: int, more: Callable[[tuple[int, ...]], list[memoryview]], done: Callable[[], None]
    ) -> Iterator[memoryview]:
        """Whole frames, one after the other, of the records that `count` bytes more in the last buffer complete.

        A frame of kind MORE goes where its data belong: `more`, which is given the header, says where, `done` is told after.
        Raises: ProtocolError for a record that does not open, or is too large.
        """
        records, filled, at, end = self._records, self._filled + count, 0, 0
        self._filled = self._lacking = 0
        try:
            while filled - at >= HEADER.size:
                kind, _, _, meta_bytes, data_bytes = fields = HEADER.unpack_from(records, at)
                check_header(fields, self._limits.meta, min(self._limits.data, RECORD_BYTES))
                size = HEADER.size + meta_bytes + data_bytes
                stop = at + size + TAG_SIZE
                if stop > filled:
                    self._lacking = stop - filled
                    break
                record, at = records[at:stop], stop
                if kind == _MORE:
                    yield self._frames[:end]
                    end = 0
                    self._open_into(more(fields), record)
                    done()
                    continue
                if len(self._frames) < end + size:
                    yield self._frames[:end]
                    end = 0
                    if len(self._frames) < size:
                        self._frames = memoryview(bytearray(max(_FRAMES_BYTES, size)))
                frame = self._frames[end : end + size]
                frame[: HEADER.size] = record[: HEADER.size]
                self._opener.open(record, frame[HEADER.size :])
                end += size
                if self._first_only:
                    break
        except ProtocolError:
            yield self._frames[:end]  # what came before is right
            raise
        yield self._frames[:end]
        if len(self._frames) > _FRAMES_BYTES:
            self._frames = memoryview(b"")
        self._filled = filled - at
        if self._records is not self._scratch and self._filled <= len(self._scratch) and not self._lacking:
            self._scratch[: self._filled] = records[at:filled]
            self._let_go()
        elif at:
            records[: self._filled] = records[at:filled]

    def _let_go(self) -> None:
        """Leave memory for a large record to others, to whom one comes now."""
        if self._records is not self._scratch:
            LARGE_BUFFERS.give(self._records)
            self._records = self._scratch

    def _open_into(self, targets: list[memoryview], record: memoryview) -> None:
        if len(targets) == 1:
            self._opener.open(record, targets[0])
            return
        held = memoryview(bytearray(sum(map(len, targets))))
        self._opener.open(record, held)
        for target in targets:
            target[:] = held[: len(target)]
            held = held[len(target) :]

    def rest(self) -> bytes:
        """What has come behind the last record that was opened."""
        return bytes(self._records[: self._filled])


def check_header(header: tuple[int, ...], meta: int, data: int) -> None:
    """Raise ProtocolError for the header of a frame that does not exist, or announces more than `meta` and `data` bytes."""
    kind, flags, reserved, meta_bytes, data_bytes = header
    if kind not in KINDS or flags & ~CONTINUES or reserved:
        raise ProtocolError(f"A frame of unknown kind {kind} (flags {flags}, reserved {reserved}) came in.")
    if meta_bytes > meta or data_bytes > data:
        raise ProtocolError(f"A frame announces {meta_bytes} + {data_bytes} bytes; allowed are {meta} + {data}.")

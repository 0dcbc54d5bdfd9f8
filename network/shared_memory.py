"""Memory that processes of one host share: a process leaves the arrays of its messages there, and peers read them in place.

A message with arrays in the memory has a frame like any other (flag SHARED, see `wire`), which tells the page where they begin
and has no data. So the connection wakes, orders memory between processors, and shows that a peer is gone, as it does without;
it saves two copies through the kernel. A process has one `Outbox` for all its peers. Each peer counts in a table of its own,
which the process reads, how often it has let go of the arrays that began on a page: no two processes write to one place.

Memory has no name in any file system: it lives until the last process that maps it has ended, however it ended. A reader needs
its handle, and the right to look at the descriptors of the owner: the same user, the same view of processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import platform
import secrets
import select
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from .errors import ProtocolError
from .names import numpy as np
from .values import Array

PAGE_BYTES = 1 << 12
PAGES = 1 << 15  # of an outbox; pages that were never written to take no memory
BOARD_BYTES = (8 << 20) + 2 * PAGE_BYTES  # behind them, for data that peers look at without a message
OUTBOX_BYTES = PAGES * PAGE_BYTES + BOARD_BYTES
LEAST_BYTES = 16 << 10  # less is as fast on the connection
ALIGNMENT = 64  # a cache line
_TABLE_BYTES = 4 * PAGES  # a count of 32 bits for each page
_COUNTS = 1 << 32
LOADS_FIRST = platform.machine() in {"x86_64", "AMD64"}  # no load is seen by others after a store that follows it


class MemoryHandle(NamedTuple):
    """Place of shared memory, for other processes of this host: `process` id and file `descriptor` of its owner, its random
    `name`, and its `size` in bytes.
    """

    process: int
    descriptor: int
    name: str  # random: another process, or a later file, under the same numbers is noticed
    size: int


class SharedMemory:
    """Fresh memory of `size` bytes, writable in `memory`; its readers attach to it by `handle`.

    Raises: OSError when the system has no such memory.
    """

    def __init__(self, size: int) -> None:
        if sys.platform != "linux":
            raise OSError(f"Shared memory needs Linux, this is {sys.platform}.")
        name = f"psgd-{secrets.token_hex(16)}"
        # CLOEXEC: a program that this process starts must not keep the memory alive
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        # readers find the memory by its descriptor, which stays open for as long as this object lives
        weakref.finalize(self, os.close, descriptor)
        os.ftruncate(descriptor, size)
        # for ever: a process that reads beyond the end of a file that has shrunk is killed
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self.memory = memoryview(mmap.mmap(descriptor, size))
        self.handle = MemoryHandle(os.getpid(), descriptor, name, size)


def attach(content: object, size: int) -> memoryview:
    """Map the shared memory of `size` bytes of a process of this host by its handle in `content`, read-only.

    Raises: OSError when it is not there, may not be read, or could shrink under its readers; ValueError for content that is no
    handle.
    """
    # it is the word of a peer; True is no int here
    if not isinstance(content, tuple) or tuple(map(type, content)) != (int, int, str, int) or content[3] != size:
        raise ValueError(f"Not the handle of {size} bytes of shared memory: {content!r}")
    handle = MemoryHandle(*content)
    path = f"/proc/{handle.process:d}/fd/{handle.descriptor:d}"
    # before it is opened: opening another process's pipe or device could have effects
    if not os.readlink(path).startswith(f"/memfd:{handle.name} "):
        raise OSError(f"Descriptor {handle.descriptor} of process {handle.process} is not the shared memory {handle.name}.")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fixed = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
        # of the open file, not of the name, which could mean another by now
        if not fixed or os.fstat(descriptor).st_size != size:
            raise OSError(f"The shared memory {handle.name} has not the fixed size of {size} bytes.")
        return memoryview(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ))
    finally:
        os.close(descriptor)


class Segment:
    """Pages of an outbox, `pages` from `start` on. `waiting` is the count of each reader at which it has let go of them."""

    __slots__ = ("pages", "start", "waiting")

    def __init__(self, start: int, pages: int) -> None:
        self.start, self.pages = start, pages
        self.waiting: dict[PeerTable, int] = {}

    @property
    def free(self) -> bool:
        # equal, not at least: counts wrap at 2^32
        return all(table.counts[self.start] == count for table, count in self.waiting.items())


class PeerTable:
    """Counts of one reader of an outbox, as its table has them and as they will be. `handle` is that of the table."""

    def __init__(self, handle: object) -> None:
        self.counts = attach(handle, _TABLE_BYTES).cast("I")
        self._expected: dict[int, int] = {}
        self._process = select.poll()
        with contextlib.suppress(OSError):  # a kernel before 5.3: its pages stay, should it be killed
            descriptor = os.pidfd_open(handle[0])  # type: ignore[index]  # it is one: attached
            weakref.finalize(self, os.close, descriptor)
            self._process.register(descriptor)

    @property
    def ended(self) -> bool:
        """Whether the process of the reader has ended; the end of its connection alone would tell nothing of its reading."""
        return bool(self._process.poll(0))

    def expect(self, segment: Segment) -> None:
        """Expect that the reader will read `segment`, and count it."""
        count = (self._expected.get(segment.start, 0) + 1) % _COUNTS
        self._expected[segment.start] = count
        segment.waiting[self] = count


class Outbox:
    """Place where this process leaves arrays for others of its host. Pages are used again when all their readers have let
    go.
    """

    def __init__(self) -> None:
        self._shared: SharedMemory | None = None
        self._possible = True
        self._lines: dict[int, list[Segment]] = {}  # by the number of pages
        self._end = 0  # pages that were used so far
        self.last: tuple[Array, Segment] | None = None  # left since the last message: it has not changed

    @property
    def handle(self) -> MemoryHandle | None:
        """Handle of the memory; None where the system has no such memory."""
        # asked once: a system that has none would be asked for each array
        if self._shared is None and self._possible:
            try:
                self._shared = SharedMemory(OUTBOX_BYTES)
            except OSError:
                self._possible = False
        return None if self._shared is None else self._shared.handle

    @property
    def board(self) -> memoryview | None:
        """Memory behind the pages."""
        return None if self._shared is None else self._shared.memory[-BOARD_BYTES:]

    def leave(self, reader: PeerTable, arrays: Sequence[Array]) -> tuple[int, int] | None:
        """Copy `arrays` to memory for `reader`.

        Returns: the page where they begin and the bytes to their end, None without room.
        """
        # one array is the rule, and needs no walk
        size = arrays[0].nbytes if len(arrays) == 1 else _extent(arrays)
        if self.last is not None and len(arrays) == 1 and self.last[0] is arrays[0]:  # for another reader
            segment = self.last[1]
        else:
            found = self._segment(size)
            if found is None or self._shared is None:
                return None
            segment, at = found, found.start * PAGE_BYTES
            segment.waiting.clear()
            for array in arrays:
                # vector instructions of the readers want whole cache lines
                at += -at % ALIGNMENT
                np.copyto(np.ndarray(array.shape, array.dtype, self._shared.memory, at), array)
                at += array.nbytes
            self.last = (arrays[0], segment) if len(arrays) == 1 else None
        reader.expect(segment)
        return segment.start, size

    def _segment(self, size: int) -> Segment | None:
        pages = -(-size // PAGE_BYTES)
        # by size: messages of a training repeat their sizes, so nearly each finds a segment of its own
        line = self._lines.setdefault(pages, [])
        for segment in line:
            if segment.free:
                return segment
        if self._end + pages > PAGES and not self._make_room(pages):
            if self._forget_the_ended():
                return self._segment(size)
            return None
        segment = Segment(self._end, pages)
        self._end += pages
        line.append(segment)
        return segment

    def _forget_the_ended(self) -> bool:
        """Stop waiting for readers that were killed; return whether there were any."""
        segments = [segment for line in self._lines.values() for segment in line]
        ended = {table for segment in segments for table in segment.waiting if table.ended}
        for segment in segments:
            for table in ended & segment.waiting.keys():
                del segment.waiting[table]
        return bool(ended)

    def _make_room(self, pages: int) -> bool:
        """Forget the free segments at the end; return whether `pages` fit there now."""
        # from the end, since only what is free there makes one piece
        for segment in sorted((s for line in self._lines.values() for s in line), key=lambda each: -each.start):
            if not segment.free:
                break
            self._end = segment.start
            self._lines[segment.pages].remove(segment)
        return self._end + pages <= PAGES


def _extent(arrays: Sequence[Array]) -> int:
    """Bytes of arrays that lie one after the other, each aligned."""
    end = 0
    for array in arrays:
        end += -end % ALIGNMENT + array.nbytes
    return end


class PeerMemory:
    """Outbox of a peer, as its reader sees it; `handle` is that of the table in which the reader counts.

    Place and size of arrays are checked before they are made, and the memory cannot shrink; its owner may change their content
    at any time, as it might have sent any. The argument is the handle of the outbox.
    """

    def __init__(self, handle: object) -> None:
        whole = attach(handle, OUTBOX_BYTES)
        self._memory, self.board = whole[:-BOARD_BYTES], whole[-BOARD_BYTES:]
        self._table = SharedMemory(_TABLE_BYTES)
        self.handle = self._table.handle
        self._counts = self._table.memory.cast("I")
        self._held: dict[int, tuple[weakref.ref[Array], int]] = {}
        self._fence = threading.Lock()  # only to order memory, for which Python has no other means

    def take(self, page: int, shape: Sequence[int], dtype: np.dtype[Any], size: int) -> Array:
        """Return the one array that begins on a page, read-only; the page is let go of when the array and all its views are
        gone.

        Args:
            page: number of the page.
            shape: dimensions of the array.
            dtype: its type.
            size: its bytes.

        Raises: ProtocolError when it does not end in this memory.
        """
        if not 0 < size <= len(self._memory) - page * PAGE_BYTES:
            raise ProtocolError(f"A message tells of {size} bytes on page {page} of memory, which has {PAGES}.")
        array = np.ndarray(shape, dtype, self._memory, page * PAGE_BYTES)
        held = weakref.ref(array, self._let_go)  # a view of the array holds it: its memory is no array
        self._held[id(held)] = held, page
        return array

    def _let_go(self, held: weakref.ref[Array]) -> None:
        _, page = self._held.pop(id(held))
        if os.getpid() != self.handle.process:  # a fork of the reader has let go, and not the reader
            return
        if not LOADS_FIRST:
            for _ in range(2):  # a value read before the first is let go of cannot be seen after the second is taken
                with self._fence:
                    pass
        self._counts[page] = (self._counts[page] + 1) % _COUNTS


class Places:
    """Allocator of the arrays of one message, which lie one after the other from `page` on; in place of a pool
    (`wire.allocate`).

    Args:
        memory: outbox of the sender.
        page: number of the page.
        size: bytes to the end of the last array.

    Raises: ProtocolError, as `PeerMemory.take`.
    """

    def __init__(self, memory: PeerMemory, page: int, size: int) -> None:
        self._whole = memory.take(page, (size,), np.dtype(np.uint8), size)
        self._at = 0

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any], size: int) -> Array:
        """Return the next array, of `size` bytes in all. Raises: ProtocolError beyond the end."""
        at = self._at + -self._at % ALIGNMENT
        self._at = at + size
        if self._at > len(self._whole):
            raise ProtocolError("A message tells of less memory than its arrays take.")
        return self._whole[at : self._at].view(dtype).reshape(shape)

"""Flight recorder: memory that a job process writes its signals to and its agent reads, also after the process was killed.

The agent makes it and the process inherits it. A signal is an entry in a ring; nothing is sent and no process is woken. Behind
the ring is the stack that the process writes when it is asked where it is (see `rpc.job.process`).

header   8 bytes magic, u64 entries written so far, f64 last sign of life, f64 last time that bytes came or went, or work
         ended in a wait, u64 the piece of work that was begun last, from 1, by a count of the program's own
entry    u64 number, f64 time, u32 kind, u32 epoch, u64 batch; entry n lies at place n modulo CAPACITY
links    u64 how many, and for each i64 peer, u64 messages sent to it, u64 messages that came from it; after a wait in vain

Times are those of CLOCK_MONOTONIC, which all processes of a system share. Only the agent's descriptor is trusted: it reads by
`pread`, so that all that the process does to the memory harms the process alone.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import mmap
import os
import signal
import struct
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from .limits import APART_SECONDS

CAPACITY = 4096
STACK_SIGNAL = signal.SIGUSR1
"""Asks the process for the stacks of its threads."""
STACK_BYTES = 16 << 10  # of a stack, its beginning: the innermost calls come first
MOST_COUNT = 1 << 31
MOST_WORK = 1 << 40
_MAGIC = b"PSGDrec1"
_HEADER = struct.Struct("=8sQdd")
_ENTRY = struct.Struct("=QdIIQ")
_COUNT, _LIVES = struct.Struct("=Q"), struct.Struct("=dd")
_COUNT_AT, _LIFE_AT, _WORK_AT = 8, 16, 32
_RING_AT = 64
MOST_LINKS = 256
_MOST_MESSAGES = 1 << 53
_LINK = struct.Struct("=qQQ")
_LINKS_AT = _RING_AT + CAPACITY * _ENTRY.size
SIZE = _LINKS_AT + _COUNT.size + MOST_LINKS * _LINK.size


class Kind(enum.IntEnum):
    """Kind of a signal."""

    STARTED = 1  # the executor runs, and will signal its batches
    BEGIN = 2
    END = 3
    EPOCH = 4
    SAVE_BEGIN = 5
    SAVE_END = 6
    TRAIN_END = 7


class Link(NamedTuple):
    """Connection with a peer.

    Args:
        peer: id of its node.
        sent: number of messages that were sent to it.
        read: number of messages that have come from it.
    """

    peer: int
    sent: int
    read: int


class Signal(NamedTuple):
    """Signal of a process; `epoch` and `batch` count from 0, `time` is monotonic seconds."""

    kind: Kind
    epoch: int
    batch: int
    time: float


_KINDS = {int(kind): kind for kind in Kind}


def make_memory() -> int:
    """Make empty memory for a recorder, which no file name leads to; return its descriptor, not inherited unless passed on."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("psgd-recorder", os.MFD_CLOEXEC)
    else:  # pragma: no cover  macOS
        with tempfile.TemporaryFile() as file:
            # the name of the file is gone already; the copy outlives the block
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, SIZE)
    return descriptor


class Recorder:
    """Writing end of the flight recorder, in the job process; its methods cost about a microsecond and belong to one thread.

    `links`, if set, is asked after a wait that has brought nothing.
    """

    def __init__(self, descriptor: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.links: Callable[[], Iterable[tuple[int, int, int]]] | None = None
        self._memory = mmap.mmap(descriptor, SIZE)
        self._clock = clock
        self._written = 0
        self._moved = clock()
        self._worked_since: float | None = self._moved  # None while it waits
        _HEADER.pack_into(self._memory, 0, _MAGIC, 0, self._moved, self._moved)

    def note(self, kind: int, epoch: int, batch: int) -> None:
        """Write one signal.

        Raises: ValueError when epoch or batch is no number from 0 to 2**31 - 1.
        """
        number, memory = self._written, self._memory
        if not 0 <= epoch < MOST_COUNT or not 0 <= batch < MOST_COUNT:
            raise ValueError(
                f"A signal's 'epoch' and 'batch' must be numbers from 0 to {MOST_COUNT - 1}, got {epoch}, {batch}."
            )
        place = _RING_AT + number % CAPACITY * _ENTRY.size
        _ENTRY.pack_into(memory, place, number, self._clock(), kind, epoch, batch)
        self._written = number + 1
        _COUNT.pack_into(memory, _COUNT_AT, number + 1)  # after the entry: a counted entry is complete

    def waits(self) -> None:
        """Note that the process lives, and begins or goes on to wait for its peers.

        It goes on if it has hardly worked since it waited last. Else the wait begins here: work is no time without a byte.
        """
        now = self._clock()
        if self._worked_since is not None and now - self._worked_since > APART_SECONDS:
            self._moved = now
        self._worked_since = None
        _LIVES.pack_into(self._memory, _LIFE_AT, now, self._moved)

    def resumes(self, moved: bool) -> None:
        """Note that the wait is over, for now; `moved` tells whether bytes have come or gone."""
        now = self._worked_since = self._clock()
        if moved:
            self._moved = now
        elif self.links is not None:
            self._write_links(self.links())
        _LIVES.pack_into(self._memory, _LIFE_AT, now, self._moved)

    def _write_links(self, links: Iterable[tuple[int, int, int]]) -> None:
        written = 0
        for link in itertools.islice(links, MOST_LINKS):
            _LINK.pack_into(self._memory, _LINKS_AT + _COUNT.size + written * _LINK.size, *link)
            written += 1
        # after the links, as in `note`
        _COUNT.pack_into(self._memory, _LINKS_AT, written)

    def works(self) -> None:
        """Note that the process works on something long outside a step, and lives."""
        self._moved = now = self._clock()
        _LIVES.pack_into(self._memory, _LIFE_AT, now, now)

    def begins(self, number: int) -> None:
        """Note that the program begins with one of the pieces of work that it was given, `number` in a count of its own,
        from 1.
        """
        _COUNT.pack_into(self._memory, _WORK_AT, number)

    def close(self) -> None:
        self._memory.close()


class Reader:
    """Reading end of the flight recorder, in the agent; it owns `descriptor`. The content of the memory is not trusted.

    Attributes: `garbage`, entries that make no sense; `overrun`, entries that were overwritten before they were read.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._read = 0
        self._latest = 0.0
        self.garbage = 0
        self.overrun = 0

    def read(self, now: float, most: int = CAPACITY) -> list[Signal]:
        """Return the signals since the last call, oldest first.

        Args:
            now: the time up to which they count.
            most: number of signals; of more than these the newest are returned, the others are passed over.
        """
        header = self._header()
        # a count that goes back is none: the process may write anything into its memory
        if header is None or header[1] < self._read:
            return []
        written = header[1]
        first = max(self._read, written - min(most, CAPACITY))
        # what was overwritten before this look is counted, since it cannot be read
        self.overrun += max(0, written - CAPACITY - self._read)
        self._read = written
        data = self._entries(first, written)
        signals: list[Signal] = []
        for expected, (number, at, kind, epoch, batch) in enumerate(_ENTRY.iter_unpack(data), first):
            if expected < number and (number - expected) % CAPACITY == 0:
                self.overrun += 1
            elif (
                number != expected
                or kind not in _KINDS
                or epoch >= MOST_COUNT
                or batch >= MOST_COUNT
                or not self._latest <= at <= now + 1.0  # it may have written since `now`; later than that is no time at all
            ):
                self.garbage += 1
            else:
                self._latest = at
                signals.append(Signal(_KINDS[kind], epoch, batch, at))
        return signals

    def signs(self, now: float) -> tuple[float, float]:
        """Return when the process last showed that it lives, and when bytes last came or went; 0 where it has not, or lies:
        a time after `now`.
        """
        header = self._header()
        alive, moved = (0.0, 0.0) if header is None else header[2:]
        # a second of grace: the process may have written between the agent's clock and this read
        return (alive if 0.0 <= alive <= now + 1.0 else 0.0), (moved if 0.0 <= moved <= now + 1.0 else 0.0)

    def work(self) -> int:
        """Return the number of the piece of work that the program has begun last; 0 for none, or an impossible number."""
        with contextlib.suppress(OSError, struct.error):
            (number,) = _COUNT.unpack(os.pread(self._descriptor, _COUNT.size, _WORK_AT))
            return int(number) if number < MOST_WORK else 0
        return 0

    def links(self) -> list[Link]:
        """Return the counts of the process when it last waited in vain."""
        with contextlib.suppress(OSError, struct.error):
            (count,) = _COUNT.unpack(os.pread(self._descriptor, _COUNT.size, _LINKS_AT))
            if count <= MOST_LINKS:
                data = os.pread(self._descriptor, count * _LINK.size, _LINKS_AT + _COUNT.size)
                links = [Link(*entry) for entry in _LINK.iter_unpack(data)]
                return [link for link in links if -2 <= link.peer < MOST_COUNT and max(link.sent, link.read) < _MOST_MESSAGES]
        return []

    def stack(self) -> str:
        with contextlib.suppress(OSError):
            # zeros are what was never written
            return os.pread(self._descriptor, STACK_BYTES, SIZE).decode("utf-8", "replace").strip("\0")
        return ""

    def _header(self) -> tuple[bytes, int, float, float] | None:
        with contextlib.suppress(OSError):
            data = os.pread(self._descriptor, _HEADER.size, 0)
            # the process may have truncated its memory
            if len(data) == _HEADER.size and data.startswith(_MAGIC):
                magic, written, alive, moved = _HEADER.unpack(data)
                return magic, written, alive, moved
        return None

    def _entries(self, first: int, end: int) -> bytes:
        """Read the bytes of the entries `first` to `end`, as far as they are there."""
        begin, size = first % CAPACITY, end - first
        # two parts where the ring begins anew between them
        parts = [(begin, min(size, CAPACITY - begin)), (0, size - min(size, CAPACITY - begin))]
        data = b""
        with contextlib.suppress(OSError):
            for place, count in parts:
                if count:
                    data += os.pread(self._descriptor, count * _ENTRY.size, _RING_AT + place * _ENTRY.size)
        # whole entries only
        return data[: len(data) - len(data) % _ENTRY.size]

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

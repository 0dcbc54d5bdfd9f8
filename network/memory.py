"""Links inside one process: two bounded byte buffers and a condition; the same contract as sockets."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence

from .transport import Link

CAPACITY = 1 << 20


class _Pipe:
    """One direction of bytes, bounded."""

    def __init__(self, capacity: int) -> None:
        self.data = bytearray()
        self.capacity = capacity
        self.ended = False


class MemoryLink(Link):
    """One end of a pair made by `memory_pair`."""

    def __init__(self, outgoing: _Pipe, incoming: _Pipe, changed: threading.Condition, peer: str) -> None:
        self.peer = peer
        self.local = True
        self.binding = b""
        self._out = outgoing
        self._in = incoming
        self.changed = changed
        self._closed = False

    def send(self, buffers: Sequence[bytes | memoryview]) -> int:
        """See `Link`."""
        with self.changed:
            if self._closed or self._out.ended:
                raise OSError(errno.EPIPE, "the connection is closed")
            count = 0
            for part in buffers:
                room = self._out.capacity - len(self._out.data)
                self._out.data += part[:room]
                count += min(room, len(part))
                if room < len(part):
                    break
            self.changed.notify_all()
            return count

    def receive(self, buffer: memoryview) -> int | None:
        """See `Link`."""
        with self.changed:
            if self._closed:
                raise OSError(errno.EBADF, "the connection is closed")
            count = min(len(buffer), len(self._in.data))
            if not count:
                return 0 if self._in.ended else None
            buffer[:count] = self._in.data[:count]
            del self._in.data[:count]
            self.changed.notify_all()
            return count

    def ready(self, *, writing: bool) -> bool:
        """Whether `receive` (or, when `writing`, `send`) would do something now."""
        with self.changed:
            if self._closed:
                return True
            if writing:
                return self._out.ended or len(self._out.data) < self._out.capacity
            return bool(self._in.data) or self._in.ended

    def finish(self) -> None:
        """See `Link`."""
        with self.changed:
            self._out.ended = True
            self.changed.notify_all()

    def close(self) -> None:
        """See `Link`."""
        with self.changed:
            self._closed = True
            self._out.ended = self._in.ended = True
            self.changed.notify_all()


def memory_pair(capacity: int = CAPACITY, names: tuple[str, str] = ("memory:a", "memory:b")) -> tuple[MemoryLink, MemoryLink]:
    """Two connected links; each direction holds at most `capacity` bytes."""
    there, back = _Pipe(capacity), _Pipe(capacity)
    changed = threading.Condition()
    return MemoryLink(there, back, changed, names[1]), MemoryLink(back, there, changed, names[0])


def wait_memory(reading: Sequence[MemoryLink], writing: Sequence[MemoryLink], timeout: float | None) -> None:
    """The waiter of memory links that share one condition (all links of one pair do)."""
    links = [link for link in (*reading, *writing) if isinstance(link, MemoryLink)]
    if not links:
        return

    def news() -> bool:
        return any(r.ready(writing=False) for r in reading if isinstance(r, MemoryLink)) or any(
            w.ready(writing=True) for w in writing
        )

    with links[0].changed:
        links[0].changed.wait_for(news, timeout)

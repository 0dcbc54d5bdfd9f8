"""Links inside one process: two bounded byte buffers and a condition; the same contract as sockets."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence

from network.transport import Link

CAPACITY = 1 << 20
_GLANCE_SECONDS = 0.05


class _Pipe:
    """One direction of bytes, bounded."""

    def __init__(self, capacity: int) -> None:
        self.data = bytearray()
        self.capacity = capacity
        self.ended = False


class MemoryLink(Link):
    """One end of a pair; `MemoryNetwork.pair` makes them."""

    def __init__(self, outgoing: _Pipe, incoming: _Pipe, changed: threading.Condition, peer: str) -> None:
        self.peer = peer
        self.private = True
        self.binding = b""
        self._out = outgoing
        self._in = incoming
        self._changed = changed
        self._closed = False

    def send(self, buffers: Sequence[bytes | memoryview]) -> int:
        with self._changed:
            if self._closed or self._out.ended:
                raise OSError(errno.EPIPE, "the connection is closed")
            count = 0
            for part in buffers:
                room = self._out.capacity - len(self._out.data)
                self._out.data += part[:room]
                count += min(room, len(part))
                if room < len(part):
                    break
            self._changed.notify_all()
            return count

    def receive(self, buffer: memoryview) -> int | None:
        with self._changed:
            if self._closed:
                raise OSError(errno.EBADF, "the connection is closed")
            count = min(len(buffer), len(self._in.data))
            if not count:
                return 0 if self._in.ended else None
            buffer[:count] = self._in.data[:count]
            del self._in.data[:count]
            self._changed.notify_all()
            return count

    def ready(self, *, writing: bool) -> bool:
        """Whether `receive` (or, when `writing`, `send`) would do something now."""
        with self._changed:
            if self._closed:
                return True
            if writing:
                return self._out.ended or len(self._out.data) < self._out.capacity
            return bool(self._in.data) or self._in.ended

    def finish(self) -> None:
        with self._changed:
            self._out.ended = True
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._out.ended = self._in.ended = True
            self._changed.notify_all()


class MemoryNetwork:
    """Pairs of links that can be waited for together."""

    def __init__(self) -> None:
        self._changed = threading.Condition()

    def pair(
        self, capacity: int = CAPACITY, names: tuple[str, str] = ("memory:a", "memory:b")
    ) -> tuple[MemoryLink, MemoryLink]:
        """Two connected links; each direction holds at most `capacity` bytes."""
        there, back = _Pipe(capacity), _Pipe(capacity)
        return MemoryLink(there, back, self._changed, names[1]), MemoryLink(back, there, self._changed, names[0])

    def wait(self, reading: Sequence[object], writing: Sequence[object], timeout: float | None) -> None:
        """The waiter of this network's links; for whatever else is among them (a waker) it returns every 50 ms."""

        def news() -> bool:
            return any(link.ready(writing=False) for link in reading if isinstance(link, MemoryLink)) or any(
                link.ready(writing=True) for link in writing if isinstance(link, MemoryLink)
            )

        if not all(isinstance(link, MemoryLink) for link in reading):
            timeout = _GLANCE_SECONDS if timeout is None else min(timeout, _GLANCE_SECONDS)
        with self._changed:
            self._changed.wait_for(news, timeout)

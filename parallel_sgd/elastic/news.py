"""What threads bring to a loop that waits on sockets."""

from __future__ import annotations

import contextlib
import queue
import socket
from typing import Any

from network.transport import Waker


class News:
    """A queue that makes `sock` readable; `put` from any thread, the rest belongs to one."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waker = Waker()

    @property
    def sock(self) -> socket.socket:
        """What to poll."""
        return self._waker.sock

    def put(self, item: Any) -> None:
        """Bring something."""
        self._queue.put(item)
        self._waker.wake()

    def take(self) -> list[Any]:
        """All that was brought, oldest first."""
        self._waker.clear()
        items = []
        with contextlib.suppress(queue.Empty):
            while True:
                items.append(self._queue.get_nowait())
        return items

    def close(self) -> None:
        """Let go of the sockets."""
        self._waker.close()

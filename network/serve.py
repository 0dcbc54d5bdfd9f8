"""The serving side without jobs: one listening port that admits one submitter after another."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from .clock import SystemClock
from .controller import Controller
from .door import Arrived, Door, PassOn, Terms
from .errors import NetworkError, TimedOut
from .hello import Hello, Hint
from .keys import find_keys
from .nodes import SUBMITTER, Address, is_loopback
from .sockets import listen_tcp, wait_sockets


class Serve:
    """Listens on `address` (port 0 picks a free one, see `address` afterwards) and hands out connections.

    Off loopback an explicit `key_file` is required. A context manager; `close` stops listening.
    """

    def __init__(self, address: str = "127.0.0.1:0", key_file: str | Path | None = None) -> None:
        where = Address.parse(address)
        if not is_loopback(where.host) and key_file is None:
            raise NetworkError(f"Listening on {where} needs an explicit key file: make one with 'worker.py --new-key'.")
        self._keys = find_keys(Path(key_file) if key_file else None, os.environ, create=True)
        self._listener: socket.socket = listen_tcp(where)
        self.address = Address(where.host, self._listener.getsockname()[1])
        self._door = Door(self._policy)

    def _policy(self, hello: Hello) -> Terms | PassOn | Hint:
        if hello.job:
            return Hint.NO_SUCH_JOB
        return Terms({"submitter": self._keys}, "agent")

    def acquire(self, timeout: float | None = None) -> Controller:
        """Wait for an authenticated submitter; the returned Controller knows it as node -1, and our own id from it.

        Raises: TimedOut after `timeout` seconds.
        """
        clock = SystemClock()
        start = clock.monotonic()
        while True:
            left = None if timeout is None else start + timeout - clock.monotonic()
            if left is not None and timeout is not None and left <= 0:
                raise TimedOut("a submitter to connect", timeout)
            limits = [t for t in (left, self._door.deadline and self._door.deadline - clock.monotonic()) if t is not None]
            wait_sockets([self._listener, *self._door.links], [], min(limits, default=None))
            try:
                visitor, _ = self._listener.accept()
                self._door.add(visitor)
            except BlockingIOError:
                pass
            for outcome in self._door.step():
                if isinstance(outcome, Arrived):
                    node = outcome.hello.caps.get("node")
                    return Controller(node if isinstance(node, int) else 0, {SUBMITTER: outcome.session})

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()
        self._door.close()

    def __enter__(self) -> Serve:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""Serving side without jobs: one listening port that admits one submitter after another."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections import deque
from pathlib import Path

from .acceptor import Accept, Acceptor, Authenticated, Dropped, Forward
from .clock import Clock, SystemClock
from .controller import Controller
from .errors import NetworkError, TimedOut
from .hello import Hello, Hint
from .key_files import find_keys
from .nodes import SUBMITTER, Address, is_loopback
from .transport import listen_tcp, wait_sockets

_log = logging.getLogger(__name__)


class Serve:
    """Listener that hands out connections. A context manager; `close` stops listening.

    Args:
        address: where to listen; port 0 picks a free one, see `address` afterwards.
        key_file: the cluster key; required off loopback.
        clock: measures time-outs; default: the system's.
    """

    def __init__(self, address: str = "127.0.0.1:0", key_file: str | Path | None = None, clock: Clock | None = None) -> None:
        where = Address.parse(address)
        # a key that is made on the fly would admit nobody from another machine, and nobody would know it
        if not is_loopback(where.host) and key_file is None:
            raise NetworkError(f"Listening on {where} needs an explicit key file: make one with 'psgd worker --new-key'.")
        self._keys = find_keys(Path(key_file) if key_file else None, os.environ, create=True)
        self._listener: socket.socket = listen_tcp(where)
        self.address = Address(where.host, self._listener.getsockname()[1])
        self._clock = clock or SystemClock()
        self._acceptor = Acceptor(self._policy, self._clock)
        self._authenticated: deque[Authenticated] = deque()

    def _policy(self, hello: Hello) -> Accept | Forward | Hint:
        if hello.job:
            return Hint.NO_SUCH_JOB
        return Accept({"submitter": self._keys}, "agent")

    def acquire(self, timeout: float | None = None) -> Controller:
        """Wait for an authenticated submitter; the returned Controller knows it as node -1, and our own id from it.

        Raises: TimedOut after `timeout` seconds.
        """
        start = self._clock.monotonic()
        while not self._authenticated:
            left = None if timeout is None else start + timeout - self._clock.monotonic()
            if timeout is not None and left is not None and left <= 0:
                raise TimedOut("a submitter to connect", timeout)
            self._step(left)
        session, hello = self._authenticated.popleft()
        # its own word, good enough for a name; an int by type, as caps may hold anything plain
        node = hello.caps.get("node")
        return Controller(node if type(node) is int else 0, {SUBMITTER: session}, clock=self._clock)

    def _step(self, patience: float | None) -> None:
        deadline = self._acceptor.deadline
        # a caller that stays silent must be dropped in time, also while no other one comes
        limits = [patience, None if deadline is None else deadline - self._clock.monotonic()]
        wait_sockets([self._listener, *self._acceptor.links], [], min((t for t in limits if t is not None), default=None))
        with contextlib.suppress(BlockingIOError, ConnectionError):  # no caller there, or gone again
            connection, _ = self._listener.accept()
            self._acceptor.add(connection)
        for outcome in self._acceptor.step():
            if isinstance(outcome, Authenticated):
                self._authenticated.append(outcome)
            elif isinstance(outcome, Dropped):
                _log.info("A connection from %s was closed: %s.", outcome.peer, outcome.reason.rstrip("."))

    def close(self) -> None:
        """Stop listening and close all connections that were not acquired; idempotent."""
        self._listener.close()
        self._acceptor.close()
        while self._authenticated:
            self._authenticated.popleft().session.close()

    def __enter__(self) -> Serve:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

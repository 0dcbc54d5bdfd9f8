"""Waking a thread that waits for sockets."""

from __future__ import annotations

import contextlib
import socket


class Bell:
    """A pair of connected sockets: `ring`, from any thread or signal handler, makes `sock` readable until `silence`."""

    def __init__(self) -> None:
        self._rope, self.sock = socket.socketpair()
        self._rope.setblocking(False)
        self.sock.setblocking(False)

    def ring(self) -> None:
        """Wake whoever waits for `sock`, now or the next time."""
        with contextlib.suppress(OSError):  # it rings already, or is closed
            self._rope.send(b"!")

    def silence(self) -> None:
        """Take note of all rings so far."""
        with contextlib.suppress(OSError):  # it did not ring, or is closed
            self.sock.recv(1024)

    def close(self) -> None:
        """Take it down; idempotent."""
        self._rope.close()
        self.sock.close()

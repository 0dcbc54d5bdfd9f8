"""A tap on an agent's port: everybody calls the agent through it, and it sees in which phase a job is.

Frames are sealed, not secret, so the names of operations can be read as they go by.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from network.nodes import Address
from network.transport import wait_sockets

PHASES = {  # what goes by, and in which direction: to the agent, or from it
    b"CanCommit": ("canCommit", True),
    b"Accepted": ("listen", False),  # the job process is born
    b"\xa4Load": ("load", True),
    b"Answers": ("preCommit", True),
    b"Prepared": ("ready", False),
    b"FetchEnd": ("", False),
    b"Fetch": ("retrieve", True),
}
_CHUNK = 1 << 16
_RUNNING, _DONE = b"\xa7running", b"\xa4done"


class Tap:
    """Listens on a free port and passes everything on to `target`, which may change; `on_phase` is told of each phase.

    `runs` tells whether the node has started since the last `reset`.
    """

    def __init__(self, on_phase: Callable[[str], None]) -> None:
        self.target: Address | None = None
        self._on_phase = on_phase
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ours: list[socket.socket] = []
        self._closed = False
        self.runs = False
        self._thread = threading.Thread(target=self._accept, name="tap", daemon=True)
        self._thread.start()

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self._listener.getsockname()[1])

    def reset(self) -> None:
        """The next job is a new one."""
        self.runs = False

    def _accept(self) -> None:
        while not self._closed:
            wait_sockets([self._listener], [], 0.1)
            self._listener.setblocking(False)
            with contextlib.suppress(BlockingIOError, OSError):
                near, _ = self._listener.accept()
                self._pass_on(near)

    def _pass_on(self, near: socket.socket) -> None:
        target = self.target
        try:
            if target is None:
                raise ConnectionRefusedError
            far = socket.create_connection(target, 1.0)
        except OSError:
            near.close()
            return
        self._on_phase("connect")
        for source, sink, inward in ((near, far, True), (far, near, False)):
            source.setblocking(True)
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._copy, args=(source, sink, inward), daemon=True).start()
        self._ours += [near, far]

    def _copy(self, source: socket.socket, sink: socket.socket, inward: bool) -> None:
        first = True
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                if first and inward:  # a submitter calls the agent, or with the key of a job's code its process
                    self._on_phase("auth" if b"\xa4code" not in data else "child-auth")
                first = False
                self._look(data, inward)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _look(self, data: bytes, inward: bool) -> None:
        for word, (phase, direction) in PHASES.items():
            if word in data and direction is inward:
                if phase:
                    self._on_phase(phase)
                return
        if b"State" in data and not inward:
            self.runs = self.runs or _RUNNING in data
            if _DONE in data:
                self._on_phase("done")
        elif self.runs and b"Heartbeat" not in data and b"Progress" not in data:
            self._on_phase("step-reduce" if inward else "step-send")

    def close(self) -> None:
        self._closed = True
        self._thread.join()
        for sock in (self._listener, *self._ours):
            sock.close()

"""A tap on an agent's port: everybody calls the agent through it, and it sees in which phase a job is.

It holds the cluster's key: it is the agent to the submitter and the submitter to the agent, opens what one says, reads the
names of operations, and seals it again for the other. What peers say to each other passes as it is.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from functools import partial

from network.errors import NetworkError
from network.handshake import ClientHandshake, ServerHandshake
from network.hello import Hello, HelloReader, Refused
from network.keys import Key, Keyring, SessionKeys, derive_key
from network.nodes import Address
from network.records import Opener, RecordReader, Sealer
from network.transport import wait_sockets
from network.wire import HEADER, TAG_SIZE, Limits

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

    def __init__(self, key: Key, on_phase: Callable[[str], None]) -> None:
        self._key = key
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
        for sock in (near, far):
            sock.setblocking(True)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ours += [near, far]
        threading.Thread(target=self._lead, args=(near, far), daemon=True).start()

    def _lead(self, near: socket.socket, far: socket.socket) -> None:
        """Read who calls, and lead what both say to the other."""
        with contextlib.suppress(OSError, NetworkError):
            reader = HelloReader()
            while reader.need:
                reader.feed(_read(near, reader.need))
            hello = reader.hello
            # a submitter calls the agent, or with the key of a job's code its process
            self._on_phase("child-auth" if hello.role == "code" else "auth")
            if hello.role == "peer":
                far.sendall(reader.data)
                pumps = [partial(self._copy, near, far, True), partial(self._copy, far, near, False)]
            else:
                there, here = self._shake_hands(near, far, hello, reader.data)
                inward = Opener(here.cipher, here.client_key), Sealer(there.cipher, there.client_key)
                outward = Opener(there.cipher, there.server_key), Sealer(here.cipher, here.server_key)
                pumps = [partial(self._open, near, far, True, *inward), partial(self._open, far, near, False, *outward)]
            for pump in pumps:
                threading.Thread(target=pump, daemon=True).start()
            return
        for sock in (near, far):
            sock.close()

    def _shake_hands(
        self, near: socket.socket, far: socket.socket, hello: Hello, data: bytes
    ) -> tuple[SessionKeys, SessionKeys]:
        """With the agent, then with who calls: the keys of both sessions."""
        code = hello.role == "code"
        key = derive_key(self._key, f"code {hello.job}") if code else self._key
        role = "peer" if code else "agent"
        there = ClientHandshake(key, hello.role, role, hello.job, hello.caps)
        far.sendall(there.start())
        try:
            while not there.done:
                far.sendall(there.feed(_read(far, there.need)))
        except Refused as refusal:
            near.sendall(bytes([refusal.hint]))
            raise
        here = ServerHandshake({hello.role: Keyring((key,))}, role, hello.job, there.peer_caps)
        near.sendall(here.feed(data))
        while not here.done:
            here.feed(_read(near, here.need))
        return there.keys, here.keys

    def _copy(self, source: socket.socket, sink: socket.socket, inward: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                self._look(data, inward)
                sink.sendall(data)
        _finish(sink)

    def _open(self, source: socket.socket, sink: socket.socket, inward: bool, opener: Opener, sealer: Sealer) -> None:
        """Copy records, which are opened on the way."""
        reader = RecordReader(opener, Limits(), memoryview(bytearray(_CHUNK)), first_only=False)
        more: list[bytes | memoryview] = []

        def pass_on(frame: bytes) -> None:
            self._look(frame, inward)
            record = bytearray(len(frame) + TAG_SIZE)
            sealer.seal([frame], memoryview(record))
            sink.sendall(record)

        def begin(header: tuple[int, ...]) -> list[memoryview]:
            data = memoryview(bytearray(header[-1]))
            more[:] = [HEADER.pack(*header), data]
            return [data]

        with contextlib.suppress(OSError, NetworkError):
            while count := source.recv_into(reader.buffer()):
                for frames in reader.frames(count, begin, lambda: pass_on(b"".join(more))):
                    while frames:
                        size = HEADER.size + sum(HEADER.unpack_from(frames)[-2:])
                        pass_on(bytes(frames[:size]))
                        frames = frames[size:]
        _finish(sink)

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


def _read(sock: socket.socket, size: int) -> bytes:
    if data := sock.recv(size):
        return data
    raise ConnectionResetError


def _finish(sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)

"""Connection through a proxy: two sockets, and a stream of bytes from each to the other."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
import struct
from collections import deque
from collections.abc import Callable
from functools import partial

from network.errors import ProtocolError
from network.hello import Hello, HelloReader
from network.records import Sealer

from .stream import MessageSplitter, Place, Shape, Stream, seal_later

_CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, for no time at all, so that closing resets the connection
_GONE = (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN, errno.ETIMEDOUT)


class ProxiedConnection:
    """Mover of bytes between the caller and its target. It never waits.

    Args:
        near: socket of the caller, owned from now on.
        far: socket of the target, owned from now on.
        shapes: faults of the bytes to `far`, and of those from it.
        generator: source of the streams' own draws.
        places: where in the protocol the two directions begin, if messages are to be found in them.
        sealed: whether the frames are records.
        selects: tells by the HELLO of `near` whether the faults hold, from its end on; None: they hold at once.
        connecting: whether `far` is still on its way.
    """

    def __init__(
        self,
        near: socket.socket,
        far: socket.socket,
        shapes: tuple[Shape, Shape],
        generator: random.Random,
        places: tuple[Place, Place] | None = None,
        sealed: bool = True,
        selects: Callable[[Hello], bool] | None = None,
        connecting: bool = False,
    ) -> None:
        self._shapes = shapes
        splitters = [None, None] if places is None else [MessageSplitter(place, sealed) for place in places]
        # a source for each direction: how the two interleave in time changes no draw
        own = [random.Random(generator.random()) for _ in range(2)]  # noqa: S311  faults need repetition, not secrecy
        first = self._shapes if selects is None else (Shape(), Shape())
        self._selects = selects
        self._hello = HelloReader()
        self._connecting = connecting
        self.closed = False
        self._near, self._far = near, far
        self._ways = [
            _Direction(near, far, Stream(first[0], own[0], splitters[0])),
            _Direction(far, near, Stream(first[1], own[1], splitters[1])),
        ]
        for sock in (near, far):
            sock.setblocking(False)
            if sock.family != socket.AF_UNIX:
                # the proxy may add no delay of its own to small messages
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def seal(self, sealer: Sealer) -> None:
        """Seal the bytes of `near` here, behind their faults, by `sealer`: their sender has left room for the tags."""
        self._ways[0].stream.seal = partial(seal_later, sealer)

    @property
    def reading(self) -> list[socket.socket]:
        # a full stream is not read, so TCP holds its sender up, as a slow link would
        return [] if self._connecting else [way.source for way in self._ways if way.stream.room]

    @property
    def writing(self) -> list[socket.socket]:
        return [self._far] if self._connecting else [way.sink for way in self._ways if way.out]

    def next_moment(self) -> float | None:
        """Return the time at which bytes leave that wait for nothing but time, or None."""
        return min((m for way in self._ways if not way.out and (m := way.stream.next_moment()) is not None), default=None)

    def step(self, now: float) -> None:
        """Move the bytes that can be moved at time `now`. A connection that breaks on one side is reset on the other."""
        try:
            if self._connecting and not self._connected():
                return
            for number, way in enumerate(self._ways):
                data = way.receive(now)
                # before the stream takes them: faults hold from the chunk that ends the HELLO
                if data and number == 0 and self._selects is not None:
                    self._identify(data, self._selects)
                if data:
                    way.stream.take(data, now)
                way.send(now)
        except OSError as error:
            # a target that refuses is told to the caller by a reset; other errors of open sockets are faults of ours
            if error.errno not in _GONE and not self._connecting:
                raise
            self.reset()
        if all(way.shut for way in self._ways):
            self._close()

    def _connected(self) -> bool:
        code = self._far.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, "the target does not let us in")
        try:
            self._far.getpeername()
        except OSError:  # no error and no peer: it is still on its way
            return False
        self._connecting = False
        return True

    def _identify(self, data: bytes, selects: Callable[[Hello], bool]) -> None:
        """Read the HELLO that goes by; faults hold from its last part on if it is selected."""
        try:
            while data and self._hello.need:  # it learns its length on the way
                head, data = data[: self._hello.need], data[self._hello.need :]
                self._hello.feed(head)
            if self._hello.need:
                return
            if selects(self._hello.hello):
                for way, shape in zip(self._ways, self._shapes, strict=True):
                    way.stream.shape = shape
        except ProtocolError:
            pass  # a stranger, which no fault selects
        self._selects = None

    def reset(self) -> None:
        """End both connections at once, as a crash would."""
        for sock in (self._near, self._far):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._close()

    def _close(self) -> None:
        self.closed = True
        self._near.close()
        self._far.close()


class _Direction:
    """Direction of a connection: source and sink of its bytes."""

    def __init__(self, source: socket.socket, sink: socket.socket, stream: Stream) -> None:
        self.source = source
        self.sink = sink
        self.stream = stream
        self.out: deque[bytes] = deque()
        self.shut = False

    def receive(self, now: float) -> bytes:
        room = self.stream.room
        if not room:
            return b""
        try:
            data = self.source.recv(min(room, _CHUNK))
        except (BlockingIOError, InterruptedError):
            return b""
        if not data:
            self.stream.finish(now)
        return data

    def send(self, now: float) -> None:
        if self.shut:
            return
        if not self.out:
            self.out.extend(self.stream.due(now))
        while self.out:
            try:
                count = self.sink.send(self.out[0])
            except (BlockingIOError, InterruptedError):
                return
            piece = self.out.popleft()
            if count < len(piece):
                self.out.appendleft(piece[count:])
        if self.stream.ended:
            self.shut = True
            # half of the connection: the other direction may have bytes on their way
            with contextlib.suppress(OSError):  # it has gone by itself
                self.sink.shutdown(socket.SHUT_WR)

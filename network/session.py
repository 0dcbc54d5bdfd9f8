"""A session: one authenticated connection that carries messages. Its owner moves the bytes; nothing runs behind its back."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .errors import ClosedByUs, NetworkError, PeerLost, ProtocolError
from .frames import FrameReader, Message
from .seal import Opener, Sealer
from .transport import Link
from .wire import Kind, Limits, pack

INBOX_LIMIT = 256  # messages; a session that holds more is not read, so the sender is slowed


class Sent(NamedTuple):
    """What a queued message costs in bytes: its arrays, and what the protocol adds."""

    raw: int
    overhead: int


class Session:
    """One end of an authenticated connection between two nodes.

    `queue` frames a message and `send` moves what the link takes; until `pending_bytes` is 0 the arrays of queued messages
    must stay unchanged. `receive` moves what has arrived into `inbox`. When the connection ends, `lost` holds the reason:
    None while it lives, ClosedByUs after `close`, PeerLost otherwise; `left` tells that the peer said farewell first.
    Not thread-safe.
    """

    def __init__(
        self,
        link: Link,
        send_key: bytes,
        receive_key: bytes,
        *,
        role: str,
        sealed: bool,
        is_server: bool,
        node_id: int | None = None,
        caps: Mapping[str, object] | None = None,
        limits: Limits = Limits(),  # noqa: B008
    ) -> None:
        self.link = link
        self.role = role  # the peer's role, proven by the handshake
        self.node_id = node_id  # the peer's
        self.caps = dict(caps or {})
        self.sealed = sealed
        self.lost: NetworkError | None = None
        self.left = False
        self.bytes_sent = self.bytes_read = 0
        self.pending_bytes = 0
        self._sealer = Sealer(send_key)
        # the server's first frame is sealed on every connection: it confirms the keys
        self._reader = FrameReader(Opener(receive_key) if sealed or not is_server else None, sealed, limits)
        self._pending: deque[bytes | memoryview] = deque()
        if is_server:
            self._queue(Kind.READY, (), {"sealed": sealed}, self._sealer)

    @property
    def inbox(self) -> deque[Message]:
        """Messages that have arrived and nobody has taken."""
        return self._reader.messages

    def confirm(self) -> bool:
        """Whether the peer's READY is there, which proves that it holds the session's keys; only a client needs it.

        Raises: ProtocolError when another frame came first.
        """
        if not self.inbox:
            return False
        if self.inbox[0].kind is not Kind.READY:
            raise ProtocolError(f"{self.peer} did not begin its session with READY.")
        self.inbox.popleft()
        return True

    @property
    def alive(self) -> bool:
        """Whether the connection still carries messages both ways."""
        return self.lost is None and not self.left

    def use_classes(self, classes: Sequence[type]) -> None:
        """Share the job's class table: instances of these classes may travel from now on."""
        self._reader.classes = classes

    def queue(self, value: object, head: Sequence[int] = (), kind: Kind = Kind.MESSAGE) -> Sent:
        """Put a message in line; `send` moves it.

        Raises: TypeError when the value cannot travel; the error in `lost` when the connection has ended.
        """
        if self.lost is not None:
            raise self.lost
        return self._queue(kind, head, value, self._sealer if self.sealed else None)

    def _queue(self, kind: Kind, head: Sequence[int], value: object, sealer: Sealer | None) -> Sent:
        packed = pack(kind, head, value, sealer, self._reader.classes)
        self._pending.extend(packed.buffers)
        self.pending_bytes += packed.wire
        return Sent(packed.raw, packed.overhead)

    def send(self) -> bool:
        """Move queued bytes as far as the link takes them; True when none is left. A broken link shows in `lost`."""
        pending = self._pending
        while pending and self.lost is None:
            try:
                count = self.link.send(tuple(pending) if len(pending) <= 64 else [pending[i] for i in range(64)])
            except OSError as error:
                self._end(error.strerror or str(error))
                break
            if not count:
                return False
            self.bytes_sent += count
            self.pending_bytes -= count
            while pending and count >= len(pending[0]):
                count -= len(pending.popleft())
            if count:
                pending[0] = memoryview(pending[0])[count:]
        return not pending

    def receive(self) -> None:
        """Move what has arrived into `inbox`, unless it is full. An ended or broken link shows in `lost`."""
        while self.lost is None and len(self.inbox) < INBOX_LIMIT:
            buffer = self._reader.buffer()
            try:
                count = self.link.receive(buffer)
            except OSError as error:
                self._end(error.strerror or str(error))
                return
            if count is None:
                return
            if count == 0:
                self._end("it has left" if self.left else "the connection was closed")
                return
            self.bytes_read += count
            try:
                self._reader.advance(count)
            except ProtocolError as error:
                self._end(str(error).rstrip("."))
                raise
            self._note_farewell()
            if count < len(buffer):  # the link had no more: a poll costs less than a read in vain
                return

    def _note_farewell(self) -> None:
        if self.inbox and self.inbox[-1].kind is Kind.BYE:
            self.inbox.pop()
            self.left = True

    def take(self) -> Message | None:
        """The oldest message that carries a value, or None; PING is not for the user."""
        while self.inbox:
            message = self.inbox.popleft()
            if message.kind is Kind.MESSAGE:
                return message
        return None

    def leave(self) -> None:
        """Say farewell after everything queued; the peer then knows that the end of the connection is no loss."""
        if self.alive:
            self.queue(None, kind=Kind.BYE)

    def close(self) -> None:
        """End the connection at once; what is queued is dropped."""
        if self.lost is None:
            self.lost = ClosedByUs(f"The connection with {self.peer} was closed by this side.")
        self._drop()

    def _end(self, reason: str) -> None:
        self.lost = PeerLost(self.node_id, self.link.peer, reason)
        self._drop()

    def _drop(self) -> None:
        self._pending.clear()
        self.pending_bytes = 0
        self.link.close()

    @property
    def peer(self) -> str:
        """Who is at the other end, for people."""
        return f"node {self.node_id} ({self.link.peer})" if self.node_id is not None else self.link.peer

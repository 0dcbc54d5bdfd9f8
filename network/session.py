"""Session: one authenticated connection that carries messages. Its owner moves the bytes; nothing runs behind its back."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple
from weakref import WeakSet

from .clock import Clock, SystemClock
from .errors import ClosedByUs, NetworkError, PeerLost, ProtocolError
from .frames import FrameReader, Place
from .keys import SessionKeys
from .message import Message
from .records import LARGE_BUFFERS, Confirmation, Opener, Sealer, TagSpace
from .shared_memory import Outbox, PeerMemory, PeerTable
from .transport import Link, Waiter
from .values import Array
from .wire import TAG_SIZE, Frame, Kind, Leave, Limits, Sent, pack

INBOX_LIMIT = 256  # messages, and
INBOX_BYTES = 256 << 20  # of messages: a session that holds as much is not read, so the sender is slowed
TURN_BYTES = 1 << 20  # read by one call of `receive` at most when there is a message to handle already, and
LONGEST_TURN_BYTES = 32 << 20  # when there is none
_BUFFERS_AT_ONCE = 64  # as many as a socket link takes in one call
_RECORDS_BYTES = 1 << 14  # of small records that are sealed together, at first
LOOK_SECONDS = 5.0  # while bytes are awaited, `receive` is called at least so often
STALL_BYTES = 32 << 10  # of a frame that has begun, or the rest of it, must come within
STALL_SECONDS = 30.0  # in a session with an agent, and
JOB_STALL_SECONDS = 600.0  # in one with a process of a job: between its bytes it may compute, and so may a program that submits
_EVENT_LOOPS = frozenset({"agent", "submitter"})  # the roles at the ends of a session with an agent


class Peer(NamedTuple):
    """Other end, as the handshake has proven it: its `role`, the id of its node, and `caps`, its description of itself."""

    role: str
    node_id: int | None = None
    caps: Mapping[str, object] = MappingProxyType({})


_sessions: Final = WeakSet["Session"]()


def _close_in_child() -> None:
    """Leave the connections to the parent: a peer must see the end of the parent, also while a child of it lives."""
    for session in list(_sessions):
        # the link alone: a BYE of the child would be the parent's, under numbers of records that the parent uses next
        session.link.close()


os.register_at_fork(after_in_child=_close_in_child)


class Session:
    """Session, an end of an authenticated connection between two nodes.

    A frame that the peer has begun must go on: else `receive` ends the connection, after 30 s where an agent is at an end, and
    after ten minutes between processes of a job and with them. A waiting owner calls it every `LOOK_SECONDS` or more often.

    `queue` frames a message and `send` moves as many bytes as the link takes; until `pending_bytes` is 0 the arrays of queued
    messages must stay unchanged. `receive` moves arrived messages into `inbox`. When the connection ends, `lost` holds the
    reason: None while it lives, ClosedByUs after `close`, PeerLost otherwise; `left` tells that the peer said BYE first. Every
    frame is sealed if `keys` name a cipher, else READY alone is confirmed. Not thread-safe.

    Args:
        link: the connection, owned from now on.
        keys: keys of the session.
        peer: the other end.
        is_server: whether this end accepted the connection.
        limits: bytes that are accepted.
        clock: measures a frame that does not go on; default: the system's.
        tells: a server's description of itself in READY, which `caps` of the client have after `confirm`.

    Raises: ValueError without a cipher on a link that is not private.
    """

    def __init__(
        self,
        link: Link,
        keys: SessionKeys,
        peer: Peer,
        *,
        is_server: bool,
        limits: Limits = Limits(),  # noqa: B008
        clock: Clock | None = None,
        tells: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        for name in ("peer", "transport"):
            if not isinstance(getattr(link, name, None), str):
                raise TypeError(f"{type(link).__name__}.{name} must be a text, got {getattr(link, name, 'none')!r}")
        if not keys.cipher and not link.private:
            raise ValueError(f"The frames of a session with {link.peer} must be sealed: somebody may stand on its path.")
        self.link = link
        _sessions.add(self)
        self.role, self.node_id = peer.role, peer.node_id
        self.caps = dict(peer.caps)
        self.sealed = bool(keys.cipher)
        self.lost: NetworkError | None = None
        self.left = False
        self._broken = False
        self._leaving = False
        self.bytes_sent = self.bytes_read = 0
        self.messages_sent = 0  # that were queued
        self.bytes_shared = 0  # of both, those that lay in memory that both ends share
        self._outbox: Outbox | None = None
        self._leave: Leave | None = None
        self.pending_bytes = 0
        self.unsent_bytes = 0  # in line when the connection ended
        self._limits = limits
        self._clock = clock or SystemClock()
        self._looked = self._seconds = 0.0  # at a frame that does not go on: when, and for how long
        self._had = 0  # bytes read when that began
        self._sealer: Sealer | Confirmation | TagSpace = Confirmation(keys.server_key)
        # the client checks READY, the server's first frame; a server has nothing to wait for: PROOF came before
        opener: Opener | Confirmation | None = None if is_server else self._sealer
        if self.sealed:
            send_key, receive_key = keys.server_key, keys.client_key
            if not is_server:
                send_key, receive_key = receive_key, send_key
            self._sealer, opener = Sealer(keys.cipher, send_key), Opener(keys.cipher, receive_key)
        self._reader = FrameReader(opener, self.sealed, limits, expect_ready=not is_server)
        # the reader's own deque: messages are not moved a second time
        self.inbox = self._reader.messages  # messages that have arrived and were not taken
        self._frames: deque[Frame] = deque()  # not sealed yet
        self._records = memoryview(b"")  # memory for those that are, used again when they have left
        self._pending: deque[bytes | memoryview] = deque()  # bytes that the link takes next
        # in line before anything else, so that READY is the first frame
        if is_server:
            ready, raw, overhead, _ = pack(Kind.READY, (), dict(tells) or None, True)
            self._frames += ready
            self.pending_bytes = raw + overhead
            self._pending.append(self._seal())

    @property
    def messages_read(self) -> int:
        """Number of messages that have arrived so far; with a peer that has sent more of them, some are on their way, or
        lost.
        """
        return self._reader.completed

    def confirm(self) -> bool:
        """Tell if the peer's READY is there, which proves that it holds the session's keys; only a client needs it."""
        self.caps |= self._reader.told
        return self._reader.ready

    @property
    def midway(self) -> bool:
        """Whether a frame has begun to come, so that its owner has to look whether it goes on."""
        return self._reader.begun

    @property
    def wants_more(self) -> bool:
        """Whether `receive` would read: the connection lives and the inbox has room."""
        inbox = self.inbox
        # asked for each session at each wait; the sum below is needed only while messages lie there
        if not inbox:
            return self.lost is None
        if self._broken:
            return self.lost is None
        return self.lost is None and len(inbox) < INBOX_LIMIT and sum(m.held for m in inbox) < INBOX_BYTES

    @property
    def alive(self) -> bool:
        """Whether the connection still carries messages both ways."""
        return self.lost is None and not self.left

    def use_classes(self, classes: Sequence[type]) -> None:
        """Share `classes`, the class table of the job: instances of these classes may travel from now on."""
        self._reader.classes = classes

    def use_place(self, place: Place | None) -> None:
        """Let `place` return the array to read into, None for new memory each time; see `frames.Place`."""
        self._reader.place = place

    def queue(self, value: object, head: Sequence[int] = (), kind: Kind = Kind.MESSAGE) -> Sent:
        """Put a message in line; `send` moves it.

        Args:
            value: any value that `network.values` can encode.
            head: at most 8 integers.
            kind: kind of the frame.

        Returns: the bytes that the message costs.

        Raises: TypeError when the value cannot travel; the error in `lost` when the connection has ended, ClosedByUs after
        `leave`.
        """
        if self.lost is not None:
            raise self.lost
        if self._leaving:
            raise ClosedByUs(f"This side has left {self.peer}.")
        # packed at once: a value that cannot travel raises here and leaves nothing in line
        frames, raw, overhead, shared = pack(kind, head, value, self.sealed, self._reader.classes, self._limits, self._leave)
        if self.sealed:
            self._frames += frames
        else:
            for frame in frames:
                self._pending += frame
        self.pending_bytes += raw + overhead
        # they have left with this call, and never go through the link
        if shared:
            self.pending_bytes -= shared
            self.bytes_sent += shared
            self.bytes_shared += shared
        self.messages_sent += 1
        return Sent(raw, overhead, shared > 0)

    def let_seal(self) -> Sealer | None:
        """Give the sealer away, None without one: its new owner seals the frames that leave here with room for tags from now
        on. No frame may be in line.
        """
        sealer = self._sealer if isinstance(self._sealer, Sealer) else None
        if sealer is not None:
            self._sealer = TagSpace()
        return sealer

    def share_memory(self, outbox: Outbox) -> None:
        """Leave arrays for the peer in `outbox`, once it has agreed, and read in place the arrays that it leaves.

        That happens where both are processes of one user on one host, and nothing stands between.
        """
        if self.link.private and not self.sealed:
            self._outbox, self._leave = outbox, self._offer
            self._agree()  # the peer may have been the first

    def offer_memory(self) -> tuple[memoryview | None, bool]:
        """Offer shared memory now, not behind the first arrays.

        Returns: the board of this side, and whether the peer has agreed to read it.
        """
        if self._leave == self._offer:
            self._offer(())
        return None if self._outbox is None else self._outbox.board, isinstance(self._leave, partial)

    @property
    def peer_board(self) -> memoryview | None:
        """Board of the peer, if this side reads it."""
        return None if self._reader.memory is None else self._reader.memory.board

    def _offer(self, arrays: Sequence[Array]) -> None:
        """Let the first arrays travel, behind an offer of our memory."""
        # one offer; until the peer agrees, arrays travel
        self._leave = None
        if self._outbox is not None and (handle := self._outbox.handle) is not None:
            self._tell(tuple(handle))

    def _tell(self, content: object) -> None:
        # in line behind what was queued before, as messages are
        (frame,), _, overhead, _ = pack(Kind.MEMORY, (), content)
        self._pending += frame
        self.pending_bytes += overhead

    def _agree(self) -> None:
        """Take an offer of the peer, or its consent to ours. Memory that cannot be mapped here stays unused: arrays travel
        then.
        """
        reader = self._reader
        # notes wait in the reader until this side shares memory itself
        if (outbox := self._outbox) is None:
            return
        for note in reader.notes:
            # memory that this process may not map, as in another container; the connection does as well
            with contextlib.suppress(OSError, ValueError):
                if type(note) is tuple and len(note) == 2:
                    name, table = note
                    # consent to an outbox of ours, by its random name, and not to one of before a fork or restart
                    if outbox.handle is not None and name == outbox.handle.name:
                        self._leave = partial(outbox.leave, PeerTable(table))
                elif reader.memory is None and self.alive and not self._leaving:
                    reader.memory = memory = PeerMemory(note)
                    self._tell((note[2], tuple(memory.handle)))
        reader.notes.clear()

    def send(self) -> bool:
        """Move queued bytes as far as the link takes them; True when none is left. A broken link shows in `lost`."""
        pending = self._pending
        # arrays that are sent from here on may have changed since
        if self._outbox is not None:
            self._outbox.last = None
        while self.pending_bytes and self.lost is None:
            # one lot at a time: the memory of the one before is used again, so it must have left
            if self._frames and not pending:
                try:
                    pending.append(self._seal())
                except ProtocolError as error:  # no number or no right to one is left
                    self._end(str(error).rstrip("."))
                    break
            buffers = list(itertools.islice(pending, _BUFFERS_AT_ONCE))
            try:
                count = self.link.send(buffers)
            except OSError as error:
                self._hear_out()
                if self.lost is None:
                    self._end("it has left" if self.left else error.strerror or str(error))
                break
            if not isinstance(count, int):
                raise TypeError(f"{type(self.link).__name__}.send() must return how many bytes it has taken, got {count!r}")
            self.bytes_sent += count
            self.pending_bytes -= count
            if not self.pending_bytes:
                pending.clear()
                if self._records:
                    self._let_go()
                break
            full = count < sum(map(len, buffers))
            while pending and count >= len(pending[0]):
                count -= len(pending.popleft())
            if count:
                pending[0] = memoryview(pending[0])[count:]
            if full:
                break
        return not self.pending_bytes

    def _hear_out(self) -> None:
        """Read what the peer of a broken link sent before: it may have said BYE, and then nothing is lost. A process that was
        stopped, or busy, sends to a peer that has left meanwhile before it looks at the bytes that came.
        """
        # The peer sends no more, so what is read beyond a full inbox is no more than the buffer of the link holds.
        self._broken = True
        before = -1
        while self.lost is None and self.bytes_read != before:
            before = self.bytes_read
            with contextlib.suppress(ProtocolError):  # it ends the connection, with its reason
                self.receive()

    def _seal(self) -> memoryview:
        """Make records of the frames in line, as many as fit: large ones alone, for the peer to open while we seal the next."""
        end = 0
        while self._frames:
            size = sum(map(len, self._frames[0])) + TAG_SIZE
            if len(self._records) < end + size:
                if end:
                    break
                self._let_go()
                self._records = memoryview(bytearray(_RECORDS_BYTES)) if size <= _RECORDS_BYTES else LARGE_BUFFERS.take(size)
            self._sealer.seal(self._frames.popleft(), self._records[end : end + size])
            end += size
        return self._records[:end]

    def _let_go(self) -> None:
        """Give memory for large records back, for the sessions that send now."""
        if len(self._records) > _RECORDS_BYTES:
            LARGE_BUFFERS.give(self._records)
            self._records = memoryview(b"")

    def receive(self) -> None:
        """Move messages that have arrived into `inbox`, unless it is full; more may be there. An ended or broken link shows in
        `lost`.

        Raises: ProtocolError for a frame that must not arrive, and for one that has begun and does not go on.
        """
        start, reader = self.bytes_read, self._reader
        # an inbox that is full leaves bytes in the kernel, and TCP slows the sender
        while self.wants_more:
            buffer = reader.buffer()
            try:
                count = self.link.receive(buffer)
                if count and reader.direct:  # a fast link brings a large array in many small pieces
                    while count < len(buffer) and (more := self.link.receive(buffer[count:])):
                        count += more
            except OSError as error:
                self._end(error.strerror or str(error))
                return
            if count is None:
                if reader.begun:
                    self._watch_frame()
                return
            if count == 0:
                self._end("it has left" if self.left else "the connection was closed")
                return
            self.bytes_read += count
            try:
                reader.advance(count)
            except ProtocolError as error:
                self._end(str(error).rstrip("."))
                raise
            self.left = reader.ended
            if reader.left:
                self.bytes_read += reader.left
                self.bytes_shared += reader.left
                reader.left = 0
            if reader.notes:
                self._agree()
            if count < len(buffer):  # the link had no more: a poll costs less than a read in vain
                # a trickle is watched as silence is: a byte a minute must not keep a session for ever
                if count < STALL_BYTES and reader.begun:
                    self._watch_frame()
                return
            # others have their turn: a peer that sends without end must not keep the owner in this loop
            if self.bytes_read - start >= TURN_BYTES and (self.inbox or self.bytes_read - start >= LONGEST_TURN_BYTES):
                return

    def _watch_frame(self) -> None:
        """End the connection if a frame that has begun does not go on for too long. Only the time in which `receive` was
        called counts, because this process may have been stopped, or busy, while bytes were there.
        """
        reader, now = self._reader, self._clock.monotonic()
        if not reader.watched:
            reader.watched = True
            self._looked, self._seconds, self._had = now, 0.0, self.bytes_read
            return
        # two looks at most: an owner that did not look for longer was stopped or busy, and the bytes may be there
        self._seconds += min(now - self._looked, 2 * LOOK_SECONDS)
        self._looked = now
        if self._seconds < (STALL_SECONDS if self.role in _EVENT_LOOPS else JOB_STALL_SECONDS):
            return
        if self.bytes_read - self._had < STALL_BYTES:
            problem = f"of a frame that it has begun {self.bytes_read - self._had} bytes have come in {self._seconds:.0f} s"
            self._end(problem)
            raise ProtocolError(f"{self.peer} does not go on: {problem}.")
        # enough has come; the next 32 KiB have the same time again
        reader.watched = False

    def take(self) -> Message | None:
        """Take the oldest message; None when there is none."""
        return self.inbox.popleft() if self.inbox else None

    def leave(self) -> None:
        """Say BYE after everything queued; the peer then knows that the end of the connection is no loss."""
        if self.alive and not self._leaving:
            self.queue(None, kind=Kind.BYE)
            self._leaving = True

    def give_up(self, error: ProtocolError) -> None:
        """End the connection for `error`: the peer is as good as lost, since its messages make no sense. A reader that finds
        such bytes says so by itself.
        """
        if self.lost is None:
            self._end(str(error).rstrip("."))

    def close(self) -> None:
        """End the connection at once; queued messages are dropped."""
        if self.lost is None:
            self.lost = ClosedByUs(f"The connection with {self.peer} was closed by this side.")
        self._drop()

    def _end(self, reason: str) -> None:
        self.lost = PeerLost(self.node_id, self.link.peer, reason)
        self._drop()

    def _drop(self) -> None:
        self._frames.clear()
        self._pending.clear()
        self._records = memoryview(b"")
        self.__dict__.pop("_sealer", None)  # a session that is over keeps no key
        # kept for `flush`, which tells by it whether a peer that has left had taken all
        self.unsent_bytes += self.pending_bytes
        self.pending_bytes = 0
        # messages that have come stay in the inbox: a peer's last words count
        self._reader.forget()
        self.link.close()

    @property
    def peer(self) -> str:
        """Name of the other end, for people."""
        return f"node {self.node_id} ({self.link.peer})" if self.node_id is not None else self.link.peer


CLOSE_SECONDS = 2.0


def close_gracefully(sessions: Sequence[Session], wait: Waiter, clock: Clock) -> None:
    """Say BYE to all peers, send the queued bytes, and read until each closes too or two seconds have passed.

    Closing over unread bytes would destroy sent ones. The sessions are still to be closed.

    Args:
        sessions: those to end.
        wait: waiter of their links.
        clock: measures the two seconds.
    """
    for session in sessions:
        session.leave()
    deadline = clock.monotonic() + CLOSE_SECONDS
    finished: set[int] = set()
    while True:
        for session in (s for s in sessions if s.lost is None):
            if session.send() and id(session) not in finished:
                finished.add(id(session))
                with contextlib.suppress(OSError):
                    # the peer sees the end behind BYE, and can close at once
                    session.link.finish()
            with contextlib.suppress(NetworkError):
                session.receive()
            # read and dropped: a full inbox would stop reading, and closing over unread bytes resets the connection
            session.inbox.clear()
        open_sessions = [s for s in sessions if s.lost is None]
        left = deadline - clock.monotonic()
        if not open_sessions or left <= 0:
            return
        wait([s.link for s in open_sessions], [s.link for s in open_sessions if s.pending_bytes], left)

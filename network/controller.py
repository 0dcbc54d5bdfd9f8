"""Communication object of a node: send to any peer, receive from all, wait with a limit.

The calling thread moves the bytes: sending pushes as much as the kernel takes, waiting pumps every session in both directions.
No thread runs in the background. Messages with a *head* (the blocks of an exchange) go to `on_block` the moment they arrive;
all others wait in their session's bounded inbox until `get_one`.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Literal, overload

from .clock import Clock, SystemClock
from .errors import ClosedByUs, NetworkError, PeerLost, ProtocolError, TimedOut
from .keys import Key
from .message import Message
from .nodes import Address
from .session import LOOK_SECONDS, Session, close_gracefully
from .shared_memory import Outbox
from .thread_inbox import ThreadInbox
from .transport import Waiter, poll_again
from .values import Array
from .wire import Sent

WAIT_SECONDS = 0.25  # at most, between the calls by which a node that waits shows that it lives
HIGH_WATER = 64 << 20  # bytes in line for one peer beyond which the sender waits for that peer

_FEW_SESSIONS = 2  # each of which is asked in less time than the kernel is for all
_PENDING = attrgetter("pending_bytes")
_MIDWAY = attrgetter("midway")

BlockHandler = Callable[[int, Message], None]


def _not_called(addresses: Mapping[int, Address]) -> Controller:
    raise ValueError(
        f"Only connections that network.Request has opened can be opened again, not those with {sorted(addresses)}."
    )


class Controller(contextlib.AbstractContextManager["Controller"]):
    """Sessions with the other nodes of a job, by node id.

    Args:
        node_id: id of this node.
        sessions: peer's id: the open session with it, owned from now on.
        clock: measures time-outs; default: the system's.
        wait: waiter of the sessions' links; default: `poll_again()`, for sockets.

    `addresses` tells where the peers are, if this node called them, `lives` is that of their `NodeAssignment`, and
    `again(addresses)` opens new connections to some of them.
    `on_block(sender, message)` receives the messages with a head, except those with a head of a length that one of `handlers`
    takes. `on_wait()` and `on_resume(moves)`, if set, are
    called before and after each wait, which then is cut into slices of 0.25 s; `moves` tells whether bytes can be moved. A peer
    whose connection ends without a BYE shows in `lost`; `get_one` reports it once. `admit` and `interrupt` may be called from
    another thread; everything else belongs to one thread.
    """

    def __init__(
        self,
        node_id: int,
        sessions: Mapping[int, Session],
        *,
        clock: Clock | None = None,
        wait: Waiter | None = None,
    ) -> None:
        self.node_id = node_id
        self.sessions: dict[int, Session] = {}
        self.lost: dict[int, NetworkError] = {}
        self.addresses: Mapping[int, Address] = {}
        self.lives: Callable[[Address], bool] = lambda _: False
        self.key: Key | None = None
        self.again: Callable[[Mapping[int, Address]], Controller] = _not_called
        self.on_block: BlockHandler | None = None
        self.handlers: dict[int, BlockHandler] = {}
        self.on_wait: Callable[[], None] | None = None
        self.on_resume: Callable[[bool], None] | None = None
        self._clock = clock or SystemClock()
        self._wait = wait or poll_again()
        self._turn: deque[int] = deque()
        self._unreported: deque[NetworkError] = deque()
        self.classes: Sequence[type] = ()
        self._place: Callable[[int, tuple[int, ...]], Array | None] | None = None
        self._outbox: Outbox | None = None
        self.look_seconds = 0.0  # for which a waiter looks for data that no message announces
        self._closed_bytes = [0, 0]
        self._thread_inbox = ThreadInbox()
        for peer, session in sessions.items():
            self._add(peer, session)

    def _add(self, peer: int, session: Session) -> None:
        # a node that calls again has given its old connection up, even if our kernel has not heard of that yet
        old = self.sessions.get(peer)
        if old is not None:
            old.close()
            # totals of a node may not fall when a peer calls anew
            self._closed_bytes[0] += old.bytes_sent
            self._closed_bytes[1] += old.bytes_read
        session.node_id = peer
        session.use_classes(self.classes)
        if self._place is not None:
            session.use_place(partial(self._place, peer))
        if self._outbox is not None:
            session.share_memory(self._outbox)
        self.sessions[peer] = session
        self.lost.pop(peer, None)
        if peer not in self._turn:
            self._turn.append(peer)
        # it may have been lost between its handshake and now
        self._note(session)

    @property
    def available_clients(self) -> list[int]:
        """Ids of the peers that can be talked to, ascending."""
        return sorted(peer for peer, session in self.sessions.items() if session.alive)

    def counts(self) -> list[tuple[int, int, int]]:
        """Return (peer, messages sent to it, messages received from it) for each peer, over the connection that there is
        now.
        """
        return [(peer, s.messages_sent, s.messages_read) for peer, s in self.sessions.items()]

    @property
    def bytes_sent(self) -> int:
        """Bytes written to all sessions so far, protocol included."""
        return self._closed_bytes[0] + sum(s.bytes_sent for s in self.sessions.values())

    @property
    def bytes_read(self) -> int:
        """Bytes read from all sessions so far, protocol included."""
        return self._closed_bytes[1] + sum(s.bytes_read for s in self.sessions.values())

    def use_classes(self, classes: Sequence[type]) -> None:
        """Share `classes`, the class table of the job, with every session, present and future."""
        self.classes = classes
        for session in self.sessions.values():
            session.use_classes(classes)

    def share_memory(self) -> None:
        """Leave arrays for processes of this host in memory, in every session, present and future."""
        self._outbox = Outbox()
        for session in self.sessions.values():
            session.share_memory(self._outbox)

    def use_wait(self, wait: Waiter) -> None:
        """Wait for bytes by `wait` from now on, which must know the links of all sessions."""
        self._wait = wait

    def use_place(self, place: Callable[[int, tuple[int, ...]], Array | None] | None) -> None:
        """Let `place(sender, head)` return the array to read into, in every session, present and future; see `frames.Place`."""
        self._place = place
        for peer, session in self.sessions.items():
            session.use_place(None if place is None else partial(place, peer))

    def send_one(self, target: int | Iterable[int], value: object, timeout: float | None = None) -> None:
        """Send a value and return when the system has taken every byte, so arrays may change again.

        While it waits for a slow peer it goes on receiving, so two nodes that send to each other do not block each other.

        Args:
            target: id of one node, or ids of several.
            value: any value that `network.values` can encode.
            timeout: seconds for all targets together; None waits for ever.

        Raises: TypeError for a value that cannot travel, PeerLost, TimedOut, and the error given to `interrupt`.
        """
        targets = [target] if isinstance(target, int) else list(target)
        start = self._clock.monotonic()
        try:
            for peer in targets:
                # `post` waits for such a peer without a limit
                if timeout is not None and self._session(peer).pending_bytes > HIGH_WATER:
                    self.flush([peer], start + timeout - self._clock.monotonic())
                self.post(peer, value)
            self.flush(targets, None if timeout is None else start + timeout - self._clock.monotonic())
        except TimedOut as late:
            # the limit, and not what the values before have left of it
            raise late if timeout is None else TimedOut(late.what, timeout) from None

    def post(self, peer: int, value: object, head: Sequence[int] = ()) -> Sent:
        """Put a message in line for `peer` without sending it yet; its arrays must stay unchanged until `flushed`.

        Args:
            peer: id of the node.
            value: any value that `network.values` can encode.
            head: at most 8 integers; with them `on_block` of the peer receives the message.

        Returns: the bytes that the message costs.

        Raises: TypeError for a value that cannot travel, ClosedByUs, PeerLost for a peer that is gone.
        """
        self.check()
        session = self._session(peer)
        # a slow peer would else fill our memory with what waits for it
        if session.pending_bytes > HIGH_WATER:
            self.flush([peer])
        return session.queue(value, head)

    def _session(self, peer: int) -> Session:
        """Return the living session with `peer`."""
        session = self.sessions.get(peer)
        if session is None or not session.alive:
            raise self.loss_of(peer)
        return session

    def push(self) -> None:
        """Hand queued bytes to the system, as far as it takes them at once."""
        for session in self.sessions.values():
            if session.pending_bytes:
                session.send()
                if session.lost is not None:
                    self._note(session)

    def read(self) -> None:
        """Read the bytes that have arrived, so that the peers can go on sending; the next `pump` hands the messages over."""
        for session in self.sessions.values():
            if session.lost is None:
                with contextlib.suppress(ProtocolError):  # the session is lost then, and tells why
                    session.receive()
                self._note(session)

    def flushed(self) -> bool:
        """Tell if the system has taken every queued byte."""
        return not any(map(_PENDING, self.sessions.values()))

    def flush(self, targets: Iterable[int] | None = None, timeout: float | None = None) -> None:
        """Wait until the system has taken the bytes queued for `targets`.

        Args:
            targets: ids of nodes; default: all.
            timeout: seconds; None waits for ever.

        Raises: PeerLost for a target that is gone, TimedOut naming the slow peers.
        """
        peers = list(self.sessions) if targets is None else list(targets)
        # most messages leave at once, without a wait
        self.push()

        def slow() -> list[str]:
            return [s.peer for p in peers if (s := self.sessions.get(p)) is not None and s.pending_bytes]

        self.wait_until(lambda: not slow(), timeout, lambda: f"{', '.join(slow())} to take our data")
        # a peer that left well after it had taken all is no loss
        gone = [p for p in peers if p in self.lost or self.sessions[p].unsent_bytes]
        if targets is not None and gone:
            raise self.loss_of(gone[0])

    @overload
    def get_one(self, blocking: Literal[True] = True, timeout: float | None = None) -> tuple[int, Any]: ...

    @overload
    def get_one(self, blocking: bool, timeout: float | None = None) -> tuple[int, Any] | None: ...

    def get_one(self, blocking: bool = True, timeout: float | None = None) -> tuple[int, Any] | None:
        """Take the next message, fair between senders.

        Args:
            blocking: wait for one; else return None at once when there is none.
            timeout: seconds to wait; None waits for ever.

        Returns: (sender, value), or None.

        Raises: PeerLost once for every peer that is lost (after its messages were taken), or when every peer has left; TimedOut
        after `timeout` seconds.
        """
        self.check()
        found = self._take()
        if found is None:
            if blocking:
                self.wait_until(self._has_message_or_loss, timeout, lambda: f"a message from {self._names()}")
            else:
                self.pump(0.0)
            found = self._take()
        # only now: what is waited for may be among the last messages of the lost peer
        if found is None and self._unreported:
            raise self._unreported.popleft()
        if found is None and blocking:
            raise PeerLost(None, "every peer", f"all of them have left node {self.node_id}")
        return found

    def _has_message_or_loss(self) -> bool:
        if self._unreported or not any(session.alive for session in self.sessions.values()):
            return True
        return any(session.inbox for session in self.sessions.values())

    def _take(self) -> tuple[int, Any] | None:
        for _ in range(len(self._turn)):
            peer = self._turn[0]
            # a peer that has had its turn goes to the end of the line: a talkative one does not hold up the others
            self._turn.rotate(-1)
            session = self.sessions[peer]
            while (message := session.take()) is not None:
                try:
                    if not message.head or self.on_block is None:
                        return peer, message.value
                    # it came before there was a handler, or by `read`, and `pump` was not called since
                    self.handlers.get(len(message.head), self.on_block)(peer, message)
                except ProtocolError as error:
                    self._give_up(session, error)
        return None

    def _give_up(self, session: Session, error: ProtocolError) -> None:
        session.give_up(error)
        # its later messages belong to a stream that has made no sense
        session.inbox.clear()
        self._note(session)

    def wait_until(self, ready: Callable[[], bool], timeout: float | None, what: Callable[[], str]) -> None:
        """Pump until `ready()`.

        Args:
            ready: tells if the wait is over.
            timeout: seconds; None waits for ever.
            what: names the awaited event, for the error.

        Raises: TimedOut with `what()` after `timeout` seconds, and the error given to `interrupt`.
        """
        self.check()
        start = self._clock.monotonic()
        while not ready():
            left = None if timeout is None else start + timeout - self._clock.monotonic()
            if timeout is not None and left is not None and left <= 0:
                raise TimedOut(what(), timeout)
            self.pump(left)

    def pump(self, timeout: float | None) -> None:
        """Wait up to `timeout` seconds until bytes can be moved or a peer has gone, and move them.

        None is for ever; in the midst of a frame it is `LOOK_SECONDS` at most. Raises: the error given to `interrupt`.
        """
        # to wait first and then move costs half the system calls of trying first
        inbox, sessions = self._thread_inbox, self.sessions.values()
        moved = None  # the links for which there is something: to ask all costs each node a call for each other one
        waits = (timeout is None or timeout > 0) and not self._deliver() and not inbox.waiting
        if waits or len(sessions) > _FEW_SESSIONS:
            reading: list[Any] = [inbox.waker.sock, *(session.link for session in sessions if session.wants_more)]
            writing = [session.link for session in sessions if session.pending_bytes]
            if not waits:
                moved = self._wait(reading, writing, 0.0)
            elif self.on_wait is None or self.on_resume is None:
                if any(map(_MIDWAY, sessions)):  # not always: a wait with a limit takes the kernel longer
                    timeout = LOOK_SECONDS if timeout is None else min(timeout, LOOK_SECONDS)
                moved = self._wait(reading, writing, timeout)
            else:
                # the recorder learns of waits, so that a process which waits for others is not taken for stuck
                self.on_wait()
                moved = self._wait(reading, writing, WAIT_SECONDS if timeout is None else min(timeout, WAIT_SECONDS))
                self.on_resume(moved is None or not {inbox.waker.sock}.issuperset(moved))
        if inbox.waiting:
            self._take_requests()
            moved = None  # sessions may have come or gone since the wait, which knows nothing of them
        for session in sessions:
            if session.lost is None and (moved is None or session.pending_bytes or session.link in moved or session.midway):
                if session.pending_bytes:
                    session.send()
                try:  # noqa: SIM105  `suppress` costs calls at every wait
                    session.receive()
                except ProtocolError:  # the session is lost then, and tells why
                    pass
                if session.lost is not None:
                    self._note(session)
        self._deliver()
        if inbox.interruption is not None:
            raise inbox.interruption

    def _deliver(self) -> bool:
        """Hand over the messages with a head, the others keep their order; return whether there was one."""
        if self.on_block is None:
            return False
        found = False
        for peer, session in list(self.sessions.items()):
            inbox = session.inbox
            if not inbox:
                continue
            rest: list[Message] = []
            try:
                while inbox:
                    message = inbox.popleft()
                    if message.head:
                        found = True
                        self.handlers.get(len(message.head), self.on_block)(peer, message)
                    else:
                        rest.append(message)
            except ProtocolError as error:  # when the handler asked for the value
                rest.clear()
                self._give_up(session, error)
            finally:
                # in front of those that were not looked at: order holds, also where a handler has raised
                inbox.extendleft(reversed(rest))
        return found

    def _note(self, session: Session) -> None:
        peer = session.node_id
        # a BYE makes the end no loss, and a loss is told once, however often it shows
        if isinstance(session.lost, PeerLost) and not session.left and peer is not None and peer not in self.lost:
            self.lost[peer] = session.lost
            self._unreported.append(session.lost)

    def _take_requests(self) -> None:
        """Carry out the requests of other threads."""
        admitted, lost = self._thread_inbox.take()
        # before the losses: a loss that was told behind an admission must not be undone by it
        for peer, session in admitted:
            self._add(peer, session)
        for peer, reason, kind in lost:
            known = self.sessions.get(peer)
            # of one that is gone already its own reason has been told
            if known is not None and known.alive:
                known.close()
                self.lost[peer] = kind(peer, known.link.peer, reason)
                self._unreported.append(self.lost[peer])

    def admit(self, peer: int, session: Session) -> None:
        """Take over a session with a new peer (thread-safe).

        Args:
            peer: id of the peer.
            session: the open session, owned from now on.
        """
        self._thread_inbox.admit(peer, session)

    def take_over(self, other: Controller) -> None:
        """Go on with the sessions of `other` in place of ours with the same peers; `other` is closed."""
        for peer, session in other.sessions.items():
            self._add(peer, session)
        # they are ours: its `close` would end them
        other.sessions.clear()
        other.close(graceful=False)

    def lose(self, peer: int, reason: str, kind: type[PeerLost] = PeerLost) -> None:
        """Treat a peer as lost, though its connection may stand: a failure detector says so (thread-safe).

        Args:
            peer: id of the node.
            reason: end of the sentence "Node(..) is lost: ..".
            kind: class of the error that `get_one` raises.
        """
        self._thread_inbox.lose(peer, reason, kind)

    def interrupt(self, error: BaseException) -> None:
        """Make the running or next send or receive raise `error` (thread-safe); the first interruption wins."""
        self._thread_inbox.interrupt(error)

    def wake(self) -> None:
        """Make the running or next `pump` return at once (thread-safe)."""
        self._thread_inbox.wake()

    def check(self) -> None:
        """Raise the error given to `interrupt`, if there is one."""
        if self._thread_inbox.interruption is not None:
            raise self._thread_inbox.interruption

    def loss_of(self, peer: int) -> NetworkError:
        """Return the reason for which `peer` cannot be talked to any more."""
        if peer in self.lost:
            return self.lost[peer]
        session = self.sessions.get(peer)
        if session is None:
            return PeerLost(peer, "an unknown address", f"node {self.node_id} has no connection with it")
        return session.lost if isinstance(session.lost, ClosedByUs) else PeerLost(peer, session.link.peer, "it has left")

    def _names(self) -> str:
        return ", ".join(s.peer for s in self.sessions.values() if s.alive) or "anybody"

    def close(self, *, graceful: bool = True) -> None:
        """Say BYE to every peer, let the last bytes go out within two seconds, and close; idempotent.

        Without `graceful` the peers see a loss at once, which a failing node owes them.
        """
        # no session may be admitted behind the last look: it would stay open for ever
        self._thread_inbox.end()
        if self._thread_inbox.waiting:
            self._take_requests()
        if graceful:
            close_gracefully([s for s in self.sessions.values() if s.lost is None], self._wait, self._clock)
        # those that have not left in two seconds, too
        for session in self.sessions.values():
            session.close()
        self._thread_inbox.close()

    def __exit__(self, *_: object) -> None:
        self.close()

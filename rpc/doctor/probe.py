"""Probe of the way to one agent, over a session like any other: round trip, clock, bandwidth.

The clock is compared by the four times of NTP (RFC 5905): sent and received here, received and sent there. Of several exchanges
the fastest counts, and its offset is wrong by half its round trip at most. The bandwidth is that of a burst, which is doubled
until it takes long enough to be told from the round trip; the first one only warms up, for the receiver loads NumPy.

A way whose packets may be larger at its ends than in its middle (MTU) drops large packets and passes small ones. So before the
bursts go messages of one packet, then of several. Where these are not answered, though by the time that the others took they
should have been long ago, and a new connection is answered as before, the way has swallowed them. A slow way may let a burst
pass at once, so that those times tell nothing: one answer of that size, be it late, shows that it is slow.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace

from network.dial import Target, advised, dial
from network.errors import NetworkError, PeerLost, TimedOut
from network.keys import Key
from network.nodes import Address
from network.session import Session
from network.transport import SocketLink, wait_sockets

from ..protocol import operations
from .messages import MOST_PIECE, Measured, Ping, Pong

PROBE_SECONDS = 8.0  # for all exchanges once the session is open
SIZE_SECONDS = 4.0  # for one message that is larger than a packet: TCP has sent it five times by then
_SIZES = (1 << 10, 4 << 10, 16 << 10)  # bytes: one packet, several, and several where packets are jumbo frames
_TIMES_LATE = 20.0  # as long as expected
LATE_SECONDS = 5.0  # for an answer after that time
_AGAIN_SECONDS = 2.0  # for a new connection
_EXCHANGES = 8
_REPEAT_SECONDS = 0.4  # for exchanges of one size
_FIRST_BURST, _LAST_BURST = 64 << 10, 16 << 20  # bytes
_ENOUGH_SECONDS = 0.1  # of a burst: longer ones tell no more
_LOOK_SECONDS = 0.2


def probe(address: Address, key: Key, *, burst: bool, ended: Callable[[], bool] = lambda: False) -> Measured:
    """Measure how well the agent at `address` is reached from here. Problems stand in the result.

    Args:
        address: of the agent.
        key: of the cluster.
        burst: whether the bandwidth is measured.
        ended: asked now and then whether the result is out of use.
    """
    try:
        with contextlib.closing(dial(Target(address, key, "submitter", "agent"))) as session:
            found = _Probe(session, address, ended).measure(burst)
        if found.swallowed:
            with contextlib.closing(dial(Target(address, key, "submitter", "agent"), _AGAIN_SECONDS)) as session:
                _Probe(session, address, ended, _AGAIN_SECONDS).exchange()  # else the agent has stopped meanwhile
        return found
    except NetworkError as error:
        return Measured(str(address), str(advised(error, address)))


class _Probe:
    """Exchanges with one agent, all within `limit` seconds."""

    def __init__(self, session: Session, address: Address, ended: Callable[[], bool], limit: float = PROBE_SECONDS) -> None:
        self._session, self._address, self._ended, self._limit = session, address, ended, limit
        self._deadline = time.monotonic() + limit
        self._answered = 0  # bytes of the message that was answered last

    def exchange(self, size: int = 0) -> float:
        """Exchange a message of `size` bytes; return the seconds. Raises: TimedOut, PeerLost, ProtocolError."""
        start = time.perf_counter()
        self._send(Ping(bytes(size)))
        self._await_pong(SIZE_SECONDS)
        self._answered = size
        return time.perf_counter() - start

    def _fastest(self, size: int) -> float:
        """Return the seconds of the fastest of some exchanges: one of them may have waited for a core of a busy machine.

        Args:
            size: bytes of each message.
        """
        began, fastest = time.perf_counter(), self.exchange(size)
        for _ in range(_EXCHANGES - 1):
            if time.perf_counter() - began > _REPEAT_SECONDS:  # a slow way tells enough by one message
                break
            fastest = min(fastest, self.exchange(size))
        return fastest

    def measure(self, burst: bool) -> Measured:
        """Measure the way. Raises: TimedOut, PeerLost, ProtocolError."""
        latency, offset, busy, instance = float("inf"), 0.0, False, ""
        for _ in range(_EXCHANGES):
            began, start = time.time(), time.perf_counter()
            self._send(Ping())
            pong = self._await_pong()
            elapsed = time.perf_counter() - start
            # within the time that we have measured: the other clock may be set back between the two
            there = min(max(0.0, pong.sent - pong.received), elapsed)
            busy, instance = busy or pong.busy, pong.instance
            # the fastest exchange has waited least, so its clock is the most certain
            if elapsed - there < latency:
                latency = elapsed - there
                offset = ((pong.received - began) + (pong.sent - (began + elapsed))) / 2
        told = Measured(str(self._address), "", instance, latency, offset, latency / 2, 0.0, busy or not burst)
        carried, seconds = 0, latency
        for size in _SIZES:
            start = time.perf_counter()
            try:
                seconds, carried = self._fastest(size), size
            except TimedOut:
                late = time.perf_counter() - start
                # a slow way needs the longer the more it carries
                expected = max(latency, seconds * size / carried if carried else latency)
                if late >= SIZE_SECONDS / 2 and late > _TIMES_LATE * expected and self._answered != size:
                    if not self._answers_late():
                        return replace(told, carried=carried, swallowed=size)
                    late = time.perf_counter() - start
                return replace(told, bandwidth=0.0 if told.busy else size / late)
        return told if told.busy else replace(told, bandwidth=self._bandwidth(latency))

    def _answers_late(self) -> bool:
        """Wait for the answer that has not come in time; return whether it comes. Raises: PeerLost, ProtocolError."""
        link = self._session.link
        if isinstance(link, SocketLink) and link.unacknowledged:  # TCP has sent it again and again, for nothing
            return False
        self._deadline = time.monotonic() + LATE_SECONDS
        try:
            self._await_pong(LATE_SECONDS)
        except TimedOut:
            return False
        return True

    def _bandwidth(self, latency: float) -> float:
        size, warm = _FIRST_BURST, False
        while True:
            piece, arrived = Ping(bytes(min(size, MOST_PIECE))), 0
            start = time.perf_counter()
            for _ in range(size // len(piece.data)):
                self._send(piece)
            try:
                while arrived < size:
                    self._await_pong()
                    arrived += len(piece.data)
            except TimedOut:  # a slow link: the bytes carried tell how slow, or at most how fast it can be
                return max(arrived, len(piece.data)) / (time.perf_counter() - start)
            elapsed = time.perf_counter() - start
            if not warm:
                warm = True
                continue
            if elapsed >= _ENOUGH_SECONDS or size >= _LAST_BURST:
                # the round trip is no part of the burst; at most nine tenths of the time are taken for it
                return size / max(elapsed - latency, elapsed / 10)
            size *= 2

    def _send(self, ping: Ping) -> None:
        self._session.queue(ping.to_value())
        self._session.send()

    def _await_pong(self, limit: float = PROBE_SECONDS) -> Pong:
        session = self._session
        deadline = min(self._deadline, time.monotonic() + limit)
        while True:
            for said in operations(session, (Pong,)):
                if isinstance(said, Pong):
                    return said
            if not session.alive:
                raise session.lost or PeerLost(None, str(self._address), "it has left")
            left = deadline - time.monotonic()
            if left <= 0 or self._ended():
                raise TimedOut(f"{self._address} to answer a ping", min(limit, self._limit))
            # in slices: `ended` is asked now and then
            wait_sockets([session.link], [session.link] if session.pending_bytes else [], min(left, _LOOK_SECONDS))  # type: ignore[list-item]

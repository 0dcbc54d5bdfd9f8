"""Dialing of many job processes at once, and the session that a running process keeps with its submitter."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from network.clock import Clock
from network.controller import Controller
from network.dial import CONNECT_SECONDS, Dialing, Target, dial_all
from network.errors import NetworkError, PeerLost, ProtocolError
from network.nodes import SUBMITTER
from network.session import Session
from network.transport import SocketLink

from .liveness.limits import PER_NODE_SECONDS, PROBE_AFTER_SECONDS, PROBE_SECONDS, PROBES, SUBMITTER_SECONDS, UNTAKEN_SECONDS

_FEW_NODES = 8  # of one host can be called within the usual limit, at which an error names those that do not answer
_PAUSE_SECONDS = 0.05
_ATTEMPTS = 20


def connect_seconds(fullest: int) -> float:
    """Return the limit, in seconds, of a call among all nodes of a job, of which the fullest host has `fullest`."""
    return CONNECT_SECONDS + PER_NODE_SECONDS * max(0, fullest - _FEW_NODES)


def dial_processes(
    targets: Mapping[int, Target], limit: float = CONNECT_SECONDS
) -> tuple[dict[int, Session], dict[int, NetworkError]]:
    """Dial as `network.dial.dial_all` does, by `ProcessDialer`."""
    return dial_all(targets, limit, kind=ProcessDialer)


class ProcessDialer(Dialing):
    """Dialing that calls again, for about a second, a target that hangs up without a word: an agent that has more visitors
    than it can hold turns the oldest away, an honest one too. `errors` tell which are not called any more, and why.

    Args:
        targets: how to call each node.
        limit: seconds for all calls together.
        clock: of limit and pauses.
    """

    def __init__(self, targets: Mapping[int, Target], limit: float, clock: Clock) -> None:
        self._targets = targets
        self._again: dict[int, float] = {}  # targets that have hung up, and when they are called again
        # at 50 ms each, for about a second
        self._left = dict.fromkeys(targets, _ATTEMPTS)
        super().__init__(targets, limit, clock)

    def _fail(self, key: int, error: NetworkError) -> None:
        when = self._clock.monotonic() + _PAUSE_SECONDS
        # a hint or a time-out is final; a connection that was closed, or not taken, is tried again
        if isinstance(error, PeerLost) and self._left[key] and when < self.deadline:
            self._left[key] -= 1
            self._again[key] = when
        else:
            super()._fail(key, error)

    @property
    def is_over(self) -> bool:
        return super().is_over and not self._again

    @property
    def next_step(self) -> float:
        return min([super().next_step, *self._again.values()])

    def step(self) -> None:
        """Go as far as the sockets let us, and call targets again when it is time."""
        now = self._clock.monotonic()
        for node in [node for node, when in self._again.items() if now >= when]:
            del self._again[node]
            self.call(node, self._targets[node])
        # after the calls, so that a target called just now is polled next
        super().step()

    def close(self) -> None:
        super().close()
        self._again.clear()


def await_submitter(controller: Controller) -> Session:
    """Wait for the submitter's session, which it opens once the executor runs (`Coordinator.call`,
    `AbsExecutable.serves_submitter`).

    Raises: TimedOut, PeerLost, ProtocolError when a peer poses as the submitter.
    """
    controller.wait_until(lambda: SUBMITTER in controller.sessions, SUBMITTER_SECONDS, lambda: "the submitter to call")
    session = controller.sessions[SUBMITTER]
    # the id -1 alone proves nothing: a peer's key must not open the submitter's place
    if session.role != "code":
        raise ProtocolError("Only who has the key for code may be the submitter.")
    if session.lost is not None:
        raise PeerLost(SUBMITTER, session.link.peer, str(session.lost))
    return session


def watch_for_silence(session: Session, seconds: float = UNTAKEN_SECONDS) -> None:
    """Let the kernels of both ends probe each other: a host that vanishes is lost after `seconds` at the latest, also on an
    idle session.

    A process that is busy, or holds Python's lock for long, is not: its kernel answers for it. On Linux the limit for bytes
    that are not taken is that for probes, too, and a stopped process may take none for long: so it is not shorter.
    """
    link = session.link
    if not isinstance(link, SocketLink) or link.fileno() < 0:
        return
    with socket.socket(fileno=os.dup(link.fileno())) as twin:  # options belong to the connection, not to the descriptor
        if twin.family not in (socket.AF_INET, socket.AF_INET6):
            return  # the other end is on this host
        idle = getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None)  # the name on macOS
        if idle is not None:
            twin.setsockopt(socket.IPPROTO_TCP, idle, PROBE_AFTER_SECONDS)
        twin.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
        twin.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # also with bytes on their way, where keepalive does not probe
            twin.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))

"""The line between the submitter and a running process: how the process gets it, and how both learn that the other is gone."""

from __future__ import annotations

import os
import socket

from network.controller import Controller
from network.errors import PeerLost, ProtocolError
from network.nodes import SUBMITTER
from network.session import Session
from network.transport import SocketLink

LINE_SECONDS = 30.0  # for the submitter to call
_IDLE_SECONDS, _PROBE_SECONDS, _PROBES = 2, 1, 3
UNTAKEN_SECONDS = 60  # that sent bytes may stay unacknowledged, or untaken by a process that does not read


def await_line(controller: Controller, limit: float = LINE_SECONDS) -> Session:
    """The submitter's session, which it opens once the executor runs (`Coordinator.call`, `AbsExecutable.serves_submitter`).

    Raises: TimedOut, PeerLost, ProtocolError when a peer poses as the submitter.
    """
    controller.wait_until(lambda: SUBMITTER in controller.sessions, limit, lambda: "the submitter to call")
    session = controller.sessions[SUBMITTER]
    if session.role != "code":
        raise ProtocolError("Only who has the key for code may be the submitter.")
    if session.lost is not None:
        raise PeerLost(SUBMITTER, session.link.peer, str(session.lost))
    return session


def watch_for_silence(session: Session, seconds: float = UNTAKEN_SECONDS) -> None:
    """Have the kernels ask each other whether they are there: a host that vanishes is lost after `seconds` at the latest, also
    when nobody has anything to say to it.

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
            twin.setsockopt(socket.IPPROTO_TCP, idle, _IDLE_SECONDS)
        twin.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_SECONDS)
        twin.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            twin.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))

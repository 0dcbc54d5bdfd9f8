"""Server of an agent's metrics over HTTP, on this machine alone and read-only; served by the loop of the agent.

It never blocks that: a connection has `VISITOR_SECONDS` in all, a request `MOST_REQUEST` bytes, and of connections there are
`MOST_VISITORS`, of which the oldest gives way to a new one. Each is for one request.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Final

from network.clock import Clock
from network.errors import NetworkError
from network.nodes import Address
from network.transport import PortRefused, SocketLink, listen_tcp

from .metrics import CONTENT_TYPE

HERE: Final = "127.0.0.1"
PATH: Final = "/metrics"
MOST_VISITORS: Final = 16
VISITOR_SECONDS: Final = 5.0
MOST_REQUEST: Final = 8 << 10
_READ_BYTES: Final = 4 << 10
_END: Final = b"\r\n\r\n"
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
}


class MetricsServer:
    """Server that listens from the moment it is made, at `address`. Accept from `listeners`, poll `reading` and `writing`, then
    call `step`; not thread-safe.

    Args:
        port: on this machine; 0 picks a free one, None serves nothing.
        text: returns the metrics.
        clock: measures the time of a connection.
        logger: the agent's log.

    Raises: NetworkError when the port cannot be used.
    """

    def __init__(self, port: int | None, text: Callable[[], str], clock: Clock, logger: logging.Logger) -> None:
        self._text, self._clock, self._logger = text, clock, logger
        self.listeners = [] if port is None else [_listen(port)]
        self.address = "".join(f"http://{HERE}:{each.getsockname()[1]}{PATH}" for each in self.listeners)
        self._visits: list[_Visit] = []  # the oldest first

    @property
    def reading(self) -> list[SocketLink]:
        return [visit.link for visit in self._visits if not visit.has_ended]

    @property
    def writing(self) -> list[SocketLink]:
        return [visit.link for visit in self._visits if visit.answer]

    @property
    def deadline(self) -> float | None:
        """End of the first connection's time (monotonic seconds), or None."""
        return self._visits[0].deadline if self._visits else None

    def add(self, visitor: socket.socket) -> None:
        """Take in a connection, owned from now on."""
        try:
            visit = _Visit(SocketLink(visitor), self._clock.monotonic() + VISITOR_SECONDS)
        except OSError:  # it has gone already
            visitor.close()
            return
        if len(self._visits) >= MOST_VISITORS:
            self.step()  # the request of the oldest may have arrived by now
        if len(self._visits) >= MOST_VISITORS:
            self._visits.pop(0).link.close()
        self._visits.append(visit)

    def step(self) -> None:
        """Serve every connection as far as its bytes go."""
        now = self._clock.monotonic()
        for visit in list(self._visits):
            try:
                is_over = visit.step(self._text)
            except OSError:
                is_over = True
            except Exception:  # whatever a visitor causes, the jobs are served
                self._logger.exception("The metrics cannot be told")
                is_over = True
            if is_over or now >= visit.deadline:
                self._visits.remove(visit)
                visit.link.close()

    def close(self) -> None:
        """Stop listening, and close all connections; idempotent."""
        for listener in self.listeners:
            listener.close()
        for visit in self._visits:
            visit.link.close()
        self._visits.clear()


def _listen(port: int) -> socket.socket:
    """Listen on `port` of this machine. Raises: NetworkError."""
    try:
        return listen_tcp(Address(HERE, port))
    except PortRefused as error:
        instead = "choose another one with --metrics-port, or 0 for a free one"
        raise NetworkError(f"Port {port} on {HERE}, for metrics, {error.reason}; {instead}.") from error


class _Visit:
    """Connection that asks for the metrics once; `answer` is the part of the answer that is still to be sent."""

    def __init__(self, link: SocketLink, deadline: float) -> None:
        self.link, self.deadline = link, deadline
        self.answer = memoryview(b"")
        self.has_ended = False  # the visitor sends no more
        self._request = bytearray()
        self._is_answered = False
        self._buffer = memoryview(bytearray(_READ_BYTES))

    def step(self, text: Callable[[], str]) -> bool:
        """Read the bytes that are there, and answer; return whether the visit is over.

        After the answer the visitor closes: closing first, over bytes that were not read, would destroy the answer.

        Raises: OSError when the connection has broken.
        """
        count = None if self.has_ended else self.link.receive(self._buffer)
        self.has_ended = self.has_ended or count == 0
        # beyond the end, too: bytes left unread would reset the connection when it is closed
        self._request += self._buffer[: count or 0]
        if not self._is_answered and (_END in self._request or len(self._request) > MOST_REQUEST):
            self._is_answered = True
            self.answer = memoryview(answer_to(bytes(self._request), text))
        if self.answer:
            self.answer = self.answer[self.link.send([self.answer]) :]
            if not self.answer:
                self.link.finish()
        # twice the limit: one that goes on sending after its answer is cut off
        return (self.has_ended and not self.answer) or len(self._request) > 2 * MOST_REQUEST


def answer_to(request: bytes, text: Callable[[], str]) -> bytes:
    """Answer `request`, the bytes of a visitor up to the end of its headers or beyond, of which `MOST_REQUEST` count."""
    head, end, _ = request[:MOST_REQUEST].partition(_END)
    first, *headers = head.decode("latin-1").split("\r\n")
    if not end:
        return _response(431, f"A request may have {MOST_REQUEST} bytes.\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _response(400, "This is no request of HTTP/1.1.\n")
    # a page of another server may reach this one by a name that its server gives for this machine, and would read the answer
    if not all(map(_is_here, headers)):
        return _response(400, f"The host must be {HERE} or localhost.\n")
    method, path = words[0], words[1].partition("?")[0]
    if path != PATH:
        return _response(404, f"The metrics are at {PATH}.\n")
    if method not in ("GET", "HEAD"):
        return _response(405, "Metrics are read by GET.\n", "Allow: GET, HEAD\r\n")
    return _response(200, text(), is_head=method == "HEAD")


def _is_here(header: str) -> bool:
    """Tell if a header names no host, or this machine."""
    name, _, value = header.partition(":")
    return name.lower() != "host" or value.strip().partition(":")[0].lower() in (HERE, "localhost")


def _response(status: int, body: str, more: str = "", is_head: bool = False) -> bytes:
    content = body.encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(content)}\r\n"
        f"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if is_head else content)

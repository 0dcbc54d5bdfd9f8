"""The metrics of an agent: their text, and a server that no visitor holds up; tests/processes has those of real agents."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Iterator

import pytest

from network.clock import SystemClock
from network.errors import NetworkError
from network.transport import wait_sockets
from rpc.agent import metrics_server
from rpc.agent.event_log import LINES_PER_PEER, RateLimit
from rpc.agent.metrics import Family, Sample, as_text
from rpc.agent.metrics_server import MOST_REQUEST, MOST_VISITORS, VISITOR_SECONDS, MetricsServer
from rpc.agent.settings import AgentSettings
from rpc.errors import SettingsError

TEXT = "# HELP a b\n# TYPE a gauge\na 1\n"


class Clock(SystemClock):
    """The system's clock, which a test can set forward."""

    later = 0.0

    def monotonic(self) -> float:  # type: ignore[override]
        return time.monotonic() + self.later


class Served:
    """A server and its visitors in one thread."""

    def __init__(self, text: str = TEXT) -> None:
        self.clock = Clock()
        self.text = text
        self.server = MetricsServer(0, lambda: self.text, self.clock, logging.getLogger("test"))
        self.place = self.server.listeners[0].getsockname()
        self.visitors: list[socket.socket] = []

    def call(self, request: bytes = b"") -> socket.socket:
        visitor = socket.create_connection(self.place, 60)
        self.visitors.append(visitor)
        visitor.sendall(request)
        self.server.add(self.accepted())
        return visitor

    def accepted(self) -> socket.socket:
        assert wait_sockets(self.server.listeners, [], 60)
        return self.server.listeners[0].accept()[0]

    def answer(self, visitor: socket.socket) -> bytes:
        """Serve until the server has said all."""
        visitor.setblocking(False)
        found, end = b"", time.monotonic() + 60
        while time.monotonic() < end:
            wait_sockets([*self.server.reading, visitor], self.server.writing, 1.0)
            self.server.step()
            with contextlib.suppress(BlockingIOError):
                if not (data := visitor.recv(1 << 16)):
                    return found
                found += data
        raise AssertionError(f"no end after {found!r}")

    def is_open(self, visitor: socket.socket) -> bool:
        visitor.setblocking(False)
        try:
            return visitor.recv(1) != b""
        except BlockingIOError:
            return True
        except ConnectionError:
            return False


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.server.close()
    for visitor in made.visitors:
        visitor.close()


def test_the_text_is_escaped() -> None:
    """Quotes, backslashes and ends of lines, which would begin a metric of a stranger's."""
    samples = [Sample(1, {"job": 'a"b\\c\nd', "node": "0"}), Sample(0.12345678), Sample(1e22), Sample(10**18)]
    assert as_text([Family("a_total", "counter", 'one\ntwo \\ "three"', samples), Family("b", "gauge", "none", [])]) == (
        '# HELP a_total one\\ntwo \\\\ "three"\n# TYPE a_total counter\n'
        'a_total{job="a\\"b\\\\c\\nd",node="0"} 1\na_total 0.123457\na_total 1e+22\na_total 1000000000000000000\n'
        "# HELP b none\n# TYPE b gauge\n"
    )


HOST = b"Host: localhost\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\n" + HOST + b"\r\n", 200),
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.1\r\nhost:  127.0.0.1:9464 \r\nAccept: */*\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\n" + HOST + b"\r\n", 404),
        (b"GET /metrics/../key HTTP/1.1\r\n" + HOST + b"\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\n\r\nbody", 405),
        (b"GET /metrics HTTP/1.1\r\nHost: stranger.example\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n" + HOST + b"Host: stranger.example\r\n\r\n", 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\xff\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * MOST_REQUEST, 431),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * MOST_REQUEST + b"\r\n\r\n", 431),
    ],
)
def test_answers(served: Served, request_: bytes, status: int) -> None:
    """Each is whole, and the last on its connection."""
    head, _, body = served.answer(served.call(request_)).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0].startswith(f"HTTP/1.1 {status} ")
    assert {
        "Connection: close",
        f"Content-Length: {len(body)}",
        "Content-Type: text/plain; version=0.0.4; charset=utf-8",
    } < set(lines)
    assert (body == TEXT.encode()) == (status == 200) and body.endswith(b"\n")


def test_the_head_alone(served: Served) -> None:
    head, _, body = served.answer(served.call(b"HEAD /metrics HTTP/1.1\r\n" + HOST + b"\r\n")).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(TEXT)}".encode() in head and not body


@pytest.mark.parametrize("ends", [True, False])
def test_a_request_in_pieces_and_a_visitor_that_says_no_more(served: Served, ends: bool) -> None:
    visitor = served.call(b"GET /metr")
    served.server.step()
    assert served.server.reading and not served.server.writing
    visitor.sendall(b"ics HTTP/1.1\r\n" + HOST + b"\r\n")
    if ends:
        visitor.shutdown(socket.SHUT_WR)
    assert served.answer(visitor).endswith(TEXT.encode())


def test_who_hangs_up_is_forgotten(served: Served) -> None:
    """Before its request, in the midst of it, and after it."""
    for request in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n"):
        served.call(request).close()
    end = time.monotonic() + 60
    while served.server.reading or served.server.writing:
        assert time.monotonic() < end
        served.server.step()
    assert served.server.deadline is None


def test_a_silent_visitor_has_its_time_and_gives_way(served: Served) -> None:
    """Of so many the oldest goes; one that asks is answered at once; when the time is over all the others go."""
    silent = [served.call(b"GET /metrics HTTP/1.1\r\n" * (number % 2)) for number in range(MOST_VISITORS + 3)]
    served.server.step()
    assert [served.is_open(each) for each in silent] == [False] * 3 + [True] * MOST_VISITORS
    assert served.answer(served.call(b"GET /metrics HTTP/1.1\r\n" + HOST + b"\r\n")).endswith(TEXT.encode())
    assert 0 < (served.server.deadline or 0) - served.clock.monotonic() <= VISITOR_SECONDS
    served.clock.later = VISITOR_SECONDS
    served.server.step()
    assert not any(map(served.is_open, silent)) and not served.server.reading


def test_who_has_asked_is_answered_before_it_gives_way(served: Served) -> None:
    """Also where the agent had no time to read the request before the others came."""
    asking = served.call(b"GET /metrics HTTP/1.1\r\n" + HOST + b"\r\n")
    silent = [served.call() for _ in range(MOST_VISITORS)]
    assert served.answer(asking).endswith(TEXT.encode()) and all(map(served.is_open, silent))


def test_a_visitor_that_does_not_read(served: Served) -> None:
    """The answer waits in the server, which waits for room, until the visitor's time is over."""
    served.text = TEXT * 1_000_000
    visitor = served.call(b"GET /metrics HTTP/1.1\r\n" + HOST + b"\r\n")
    while not served.server.writing or wait_sockets([], served.server.writing, 0.1):
        served.server.step()
    other = served.call(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    assert served.answer(other).startswith(b"HTTP/1.1 404 ")
    served.clock.later = VISITOR_SECONDS
    served.server.step()
    assert not served.server.writing and not served.server.reading
    visitor.settimeout(60)
    said = 0
    while data := visitor.recv(1 << 20):
        said += len(data)
    assert 0 < said < len(served.text)


def test_a_fault_of_ours_ends_the_visit_alone(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(request: bytes, text: object) -> bytes:
        raise KeyError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(metrics_server, "answer_to", broken)
        assert served.answer(served.call(b"GET /metrics HTTP/1.1\r\n\r\n")) == b""
    assert "The metrics cannot be told" in caplog.text
    assert served.answer(served.call(b"GET /metrics HTTP/1.1\r\n\r\n")).endswith(TEXT.encode())


def test_without_a_port_and_with_a_taken_one() -> None:
    server = MetricsServer(None, str, Clock(), logging.getLogger("test"))
    assert (server.listeners, server.address, server.deadline) == ([], "", None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NetworkError, match=rf"^Port {port} on 127.0.0.1, for metrics, is in use, by .*--metrics-port"):
            MetricsServer(port, str, Clock(), logging.getLogger("test"))


@pytest.mark.parametrize(
    ("port", "message"),
    [
        (-1, "--metrics-port must be a number from 0 to 65535, got -1."),
        (65536, "--metrics-port must be a number from 0 to 65535, got 65536."),
        (15387, "--metrics-port must be another port than that of the worker, got 15387 for both."),
    ],
)
def test_wrong_ports(port: int, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        AgentSettings(metrics_port=port)
    assert str(caught.value) == message
    assert AgentSettings(port=0, metrics_port=0).metrics_port == 0


def test_lines_left_out_are_counted_for_good() -> None:
    limit = RateLimit(clock := Clock())
    for _ in range(LINES_PER_PEER + 3):
        limit.pass_on("192.0.2.1:5", "line")
    assert limit.left_out == 3
    clock.later = 1e3
    assert limit.pass_on("192.0.2.1:5", "line") == ["3 more lines of this kind were left out.", "line"]
    assert limit.left_out == 3

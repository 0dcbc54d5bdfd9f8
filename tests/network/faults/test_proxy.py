"""The proxy between real sockets: each fault does what it says to the other end, counts, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from network.dial import Target, dial
from network.errors import NetworkError, PeerLost
from network.faults.fault import LinkFault
from network.faults.plan import FaultPlan
from network.faults.proxy import Proxy, Route
from network.nodes import Address
from network.session import Session
from network.transport import SocketLink, wait_sockets
from tests.network.test_dial import KEY, serving, target
from tests.network.wires import talk

from ...statements import covers

DATA = random.Random(1).randbytes(300_000)
LIMIT = 60.0
WAKE_SECONDS = 0.05


@contextlib.contextmanager
def connected(sealed: bool = True, inside: bool = False, **options: Any) -> Iterator[tuple[Session, Session, Route]]:
    """A session through a proxy: the caller's end, the agent's end, and the route between them. One without seals, and one
    whose messages meet faults before they are sealed, are led through it after the handshake, as in a process of a job."""
    if not sealed or inside:
        with talk("tcp" if sealed else "unix") as ends, Proxy(seed=1) as proxy:
            link = ends.client.link
            assert isinstance(link, SocketLink)
            ours, route = proxy.interpose(link.detach(), sealed=sealed, sealer=ends.client.let_seal(), **options)
            ends.client.link = SocketLink(ours)
            yield ends.client, ends.server, route
        return
    with serving() as (address, server), Proxy(seed=1) as proxy:
        route = proxy.route(address, **options)
        assert route.address is not None
        session = dial(target(route.address))
        try:
            deadline = time.monotonic() + LIMIT
            while not server.sessions:
                assert time.monotonic() < deadline
                wait_sockets([], [], 0.001)
            yield session, server.sessions[0], route
        finally:
            session.close()


def move(sessions: list[Session], until: Callable[[], Any], limit: float = LIMIT) -> bool:
    """Pump the sessions until `until()`; whether it came to that."""
    deadline = time.monotonic() + limit
    while not until():
        if time.monotonic() >= deadline:
            return False
        living = [session for session in sessions if session.lost is None]
        wait_sockets([s.link for s in living], [s.link for s in living if s.pending_bytes], 0.01)  # type: ignore[misc]
        for session in living:
            session.send()
            with contextlib.suppress(NetworkError):
                session.receive()
    return True


@contextlib.contextmanager
def plain(proxy: Proxy, **options: Any) -> Iterator[tuple[socket.socket, socket.socket, Route]]:
    """A bare connection through a route: caller, called, route."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        route = proxy.route(Address(*listener.getsockname()), **options)
        assert route.address is not None
        with socket.create_connection(route.address, LIMIT) as caller:
            listener.settimeout(LIMIT)
            called, _ = listener.accept()
            with called:
                called.settimeout(LIMIT)
                yield caller, called, route


def test_without_faults_bytes_and_ends_pass() -> None:
    """Both ways at once, more than all buffers hold; the end of one direction leaves the other open."""

    def send_all(sock: socket.socket) -> None:
        sock.sendall(DATA * 10)
        sock.shutdown(socket.SHUT_WR)

    def read_all(sock: socket.socket) -> bytes:
        return b"".join(iter(lambda: sock.recv(1 << 16), b""))

    with Proxy() as proxy, plain(proxy) as (caller, called, route), ThreadPoolExecutor() as threads:
        found = [threads.submit(read_all, sock) for sock in (caller, called)]
        for sock in (caller, called):
            threads.submit(send_all, sock)
        assert [reader.result() for reader in found] == [DATA * 10] * 2
        assert not route.counts


@pytest.mark.parametrize("frames", [False, True])
@pytest.mark.parametrize("sealed", [False, True])
def test_sessions_pass(sealed: bool, frames: bool) -> None:
    """Handshake and messages are as without a proxy, sealed or not, and where messages are found as well."""
    with connected(sealed, frames=frames) as (ours, theirs, route):
        assert ours.sealed == sealed
        for end in (ours, theirs):
            end.queue({"a": np.arange(100_000), "b": "text"})
        assert move([ours, theirs], lambda: ours.inbox and theirs.inbox)
        assert (ours.inbox[0].value["a"] == theirs.inbox[0].value["a"]).all()
        theirs.leave()
        assert move([ours, theirs], lambda: ours.left)
        assert not route.counts


@pytest.mark.slow
@covers("FLT-9", "SIM-14")
@pytest.mark.parametrize(("rate", "delay", "size"), [(1.25e6, 0.2, 473_219), (1.25e6, 0.02, 473_219), (125e3, 0.2, 119_018)])
@pytest.mark.parametrize("frames", [False, True])
@pytest.mark.share(2)
def test_a_link_that_is_throttled_and_late(frames: bool, rate: float, delay: float, size: int) -> None:
    """Bytes between real sockets take size / rate + delay, by messages or not: never less, and at best at most 1 % more,
    plus the time in which a busy system wakes those that wait for them."""
    needed, took = size / rate + delay, []
    with connected(frames=frames) as (ours, theirs, route):
        route.there.throttle(rate)
        route.there.delay(delay)
        for _ in range(5):
            begin, passed = time.monotonic(), route.there.passed
            for _ in range(5):
                ours.queue(np.zeros(size // 5, np.uint8))
            assert move([ours, theirs], lambda: len(theirs.inbox) == 5)
            theirs.inbox.clear()
            assert route.there.passed - passed >= size - 5
            took.append(time.monotonic() - begin)
            if took[-1] <= 1.01 * needed + WAKE_SECONDS:
                break
    assert needed - 0.001 <= min(took) <= 1.01 * needed + WAKE_SECONDS


def test_segments_of_one_byte() -> None:
    """A whole handshake and a message, one byte at a time."""
    with serving() as (address, server), Proxy() as proxy:
        route = proxy.route(address)
        assert route.address is not None
        route.there.segment(1)
        route.back.segment(1)
        with contextlib.closing(dial(target(route.address))) as session:
            session.queue(np.arange(300))
            assert move([session], lambda: server.sessions)
            assert move([session, server.sessions[0]], lambda: server.sessions[0].inbox)
            assert (server.sessions[0].inbox[0].value == np.arange(300)).all()
        assert route.there.counts["segment"] > 2400 and route.back.counts["segment"] > 100


@covers("FLT-7", "FLT-8")
def test_half_open() -> None:
    """The other direction lives on, nothing comes back, not even the end of the connection."""
    with connected() as (ours, theirs, route):
        route.back.swallow()
        theirs.queue("never heard")
        ours.queue("heard")
        assert move([ours, theirs], lambda: theirs.inbox)
        assert not move([ours, theirs], lambda: ours.inbox, 0.2)
        theirs.close()
        assert not move([ours], lambda: ours.lost or ours.inbox, 0.2)
        assert route.counts["swallow"] >= 1


@covers("SUB-35")
def test_a_slow_reader_slows_the_sender() -> None:
    """What the link does not take waits at the sender, and arrives as a whole later."""
    with connected() as (ours, theirs, route):
        route.there.stall()
        value = np.arange(4_000_000)
        ours.queue(value)
        assert not move([ours, theirs], lambda: not ours.pending_bytes, 0.3)
        assert ours.pending_bytes > 16 << 20 and not theirs.inbox
        route.there.stall(False)
        assert move([ours, theirs], lambda: theirs.inbox)
        assert (theirs.inbox[0].value == value).all() and route.counts == {"stall": 1}


def reachable(route: Route) -> bool:
    assert route.address is not None
    try:
        dial(target(route.address)).close()
    except PeerLost as error:
        assert "Connection refused" in str(error)
        return False
    return True


def test_a_cut_link_is_reset_and_refuses_until_it_heals() -> None:
    """Both ends see the loss at once; whoever calls is refused, and let in again at the same port, which nobody else can take
    meanwhile. Connections that are open live on where others are only refused."""
    with connected() as (ours, theirs, route):
        assert route.address is not None
        route.refuse()
        assert not reachable(route)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(route.address)
        ours.queue(1)
        assert move([ours, theirs], lambda: theirs.inbox)
        route.reset()
        assert move([ours, theirs], lambda: ours.lost and theirs.lost)
        assert route.counts == {"refuse": 1, "reset": 1}
        route.heal()
    with connected() as (ours, theirs, route):
        route.cut()
        assert move([ours, theirs], lambda: ours.lost and theirs.lost)
        assert isinstance(ours.lost, PeerLost) and isinstance(theirs.lost, PeerLost)
        assert not reachable(route)
        route.heal()
        assert reachable(route)
        start = time.monotonic()
        route.cut(seconds=0.1)
        while not reachable(route):
            assert time.monotonic() - start < LIMIT
        assert time.monotonic() - start >= 0.1
        assert route.counts["cut"] == 2 and route.counts["refuse"] == 2


@covers("FLT-11")
@pytest.mark.parametrize("sealed", [False, True])
def test_a_flipped_bit(sealed: bool) -> None:
    """a seal notices it and the connection ends; without one, in a Unix socket, it is in the data."""
    with connected(sealed) as (ours, theirs, route):
        ours.queue(np.zeros(100_000, np.uint8))
        sent = ours.bytes_sent
        route.there.flip(sent + 50_000)
        assert move([ours, theirs], lambda: theirs.inbox or theirs.lost)
        assert route.counts == {"flip": 1}
        if sealed:
            assert theirs.lost is not None and not theirs.inbox
        else:
            assert theirs.inbox[0].value.sum() == 1


def test_a_truncated_connection() -> None:
    """The rest never comes, and the end of the connection is a loss, since nobody said farewell."""
    with connected() as (ours, theirs, route):
        route.there.truncate(ours.bytes_sent + 5000)
        ours.queue(np.zeros(100_000, np.uint8))
        assert move([ours, theirs], lambda: theirs.lost)
        assert not theirs.inbox and route.counts == {"truncate": 1}
        assert "connection was closed" in str(theirs.lost)


@covers("FLT-8", "FLT-10")
@pytest.mark.parametrize("fault", ["duplicate", "reorder", "lose"])
@pytest.mark.parametrize(("sealed", "inside"), [(False, False), (True, False), (True, True)], ids=["unix", "path", "inside"])
def test_messages_that_come_again_or_in_another_order(sealed: bool, inside: bool, fault: str) -> None:
    """Seals count messages, so a sealed connection refuses what happened on its path. One without seals delivers what comes,
    and so does one whose sender is at fault."""
    with connected(sealed, inside, frames=True) as (ours, theirs, route):
        argument = 1.0 if fault == "lose" else 1
        getattr(route.there, fault)(argument)
        ours.queue("one")
        assert fault == "reorder" or move([ours, theirs], lambda: route.counts)
        if fault == "lose":
            route.there.lose(0)
        ours.queue("two")
        count = {"duplicate": 3, "reorder": 2, "lose": 1}[fault]
        assert move([ours, theirs], lambda: theirs.lost or len(theirs.inbox) >= count)
        assert route.counts == {fault: 1}
        values = [message.value for message in theirs.inbox]
        if sealed and not inside:
            assert theirs.lost is not None and values in ([], ["one"])
            return
        assert values == {"duplicate": ["one", "one", "two"], "reorder": ["two", "one"], "lose": ["two"]}[fault]
        large = np.arange(1 << 19, dtype=np.float64)  # some records
        theirs.inbox.clear()
        ours.queue(large)
        theirs.queue("back")
        assert move([ours, theirs], lambda: theirs.inbox and ours.inbox)
        assert np.array_equal(theirs.inbox[0].value, large) and ours.inbox[0].value == "back"


def test_faults_of_chosen_connections() -> None:
    """A link is known by what its client says first: the faults are those of node 2, whoever else uses the address."""
    with serving() as (address, server), Proxy() as proxy:
        route = proxy.route(address, selects=lambda hello: hello.caps.get("node") == 2)
        assert route.address is not None
        route.there.delay(0.3)
        for node in (1, 2):
            start = time.monotonic()
            wish = Target(route.address, KEY, "submitter", "agent", node_id=0, caps={"node": node})
            with contextlib.closing(dial(wish)) as session:
                session.queue("hello")
                assert move([session], lambda node=node: len(server.sessions) == node)
                assert move([session, server.sessions[-1]], lambda: server.sessions[-1].inbox)
            assert bool(route.counts) == (node == 2)
        assert time.monotonic() - start >= 0.3
        with socket.create_connection(route.address, LIMIT) as stranger:
            stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
            stranger.settimeout(LIMIT)
            with contextlib.suppress(ConnectionError):
                assert not stranger.recv(10), "the door turns it away"


def inject(route: Route, clause: str) -> LinkFault:
    (fault,) = FaultPlan.parse(clause).links_at(0, 0, 0)
    route.inject(fault)
    return fault


@pytest.mark.parametrize("kind", ["swallow", "cut"])
def test_what_was_sent_before_a_fault_arrives(kind: str) -> None:
    """Though the proxy's thread, which is kept off here, has not come to it when the fault begins."""
    near, far = socket.socketpair()
    with far, Proxy() as proxy:
        ours, route = proxy.interpose(near)
        size = 100_000  # the proxy does not take it at once
        with ours, proxy.changing():
            ours.sendall(bytes(size))
            inject(route, f"{kind} 0-1")
        far.settimeout(LIMIT)
        assert len(far.recv(size, socket.MSG_WAITALL)) == size


def test_what_a_plan_says() -> None:
    """Each kind of link fault comes into force, and ends after its seconds."""
    with Proxy() as proxy, plain(proxy) as (caller, called, route):
        start = time.monotonic()
        inject(route, "+100ms 0>1 for 300ms")
        caller.sendall(b"1")
        assert called.recv(1) == b"1" and time.monotonic() - start >= 0.1
        while route.there.lag:
            assert time.monotonic() - start < LIMIT
            wait_sockets([], [], 0.005)
        assert time.monotonic() - start >= 0.3
        start = time.monotonic()
        inject(route, "throttle 0>1 80kbit")
        caller.sendall(bytes(2000))
        left = 2000
        while left:
            left -= len(called.recv(left))
        assert 0.19 <= time.monotonic() - start < LIMIT
        route.there.throttle(None)
        start = time.monotonic()
        inject(route, "swallow 0>1 for 200ms")
        caller.sendall(b"2")
        assert called.recv(1) == b"2" and time.monotonic() - start >= 0.2, "a partition that heals loses nothing"
        inject(route, "swallow 0>1")
        caller.sendall(b"3")
        called.settimeout(0.2)
        with pytest.raises(TimeoutError):
            called.recv(1)
        called.settimeout(LIMIT)
        inject(route, "cut 0-1 for 100ms")
        with pytest.raises(ConnectionResetError):
            called.recv(1)
        assert {"delay", "throttle", "stall", "swallow", "cut"} <= set(route.counts)


def test_faults_of_messages_need_frames() -> None:
    with Proxy() as proxy, plain(proxy) as (_, _, route):
        for clause in ("lose 0>1 10%", "duplicate 0>1", "reorder 0>1"):
            with pytest.raises(ValueError, match=f"The fault '{clause}' needs a route that knows frames: pass frames=True"):
                inject(route, clause)
    with connected(sealed=False, frames=True) as (ours, theirs, route):
        inject(route, "duplicate 0>1")
        ours.queue("one")
        assert move([ours, theirs], lambda: len(theirs.inbox) == 2)
        inject(route, "reorder 0>1")
        ours.queue("a")
        ours.queue("b")
        assert move([ours, theirs], lambda: len(theirs.inbox) >= 4)
        assert [message.value for message in theirs.inbox] == ["one", "one", "b", "a"]
        inject(route, "lose 0>1 100%")
        ours.queue("two")
        assert move([ours, theirs], lambda: route.counts["lose"]) and len(theirs.inbox) == 4


@covers("INV-7")
def test_the_end_of_the_proxy_ends_its_connections() -> None:
    """Thread, ports and sockets go with the block, whatever is going on; the caller sees the loss."""
    with contextlib.ExitStack() as stack:
        address, _ = stack.enter_context(serving())
        with Proxy() as proxy:
            route = proxy.route(address)
            assert route.address is not None
            session = stack.enter_context(contextlib.closing(dial(target(route.address))))
            session.queue(np.zeros(10_000_000))
            route.there.stall()
            session.send()
            proxy.after(3600, route.heal)
        assert move([session], lambda: session.lost)
        with pytest.raises(NetworkError):
            dial(target(route.address))
    with socket.socket() as again:
        again.bind(route.address)


def test_its_thread_has_ended_with_its_block() -> None:
    before = set(threading.enumerate())
    with Proxy():
        (thread,) = set(threading.enumerate()) - before
    assert not thread.is_alive()

"""The acceptor: strangers cost little and get nowhere, honest visitors get in whatever strangers do."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

import pytest

from network.acceptor import (
    MAX_PENDING,
    MAX_PENDING_PER_ADDRESS,
    Accept,
    Acceptor,
    Authenticated,
    Dropped,
    Forward,
    Forwarded,
    Outcome,
    Policy,
)
from network.errors import NetworkError
from network.handshake import HANDSHAKE_SECONDS, ClientHandshake
from network.hello import Hello, Hint, Refused, parse_hello, parse_reply
from network.keys import Key, Keyring
from network.session import Peer, Session
from network.testing import VirtualClock
from network.transport import SocketLink, wait_sockets

from ..fuzz.mutate import STRANGERS
from ..statements import covers
from .wires import tcp_sockets

KEY, OLD_KEY, WRONG_KEY = (Key(bytes([i]) * 32) for i in (1, 2, 3))
RING = Keyring((KEY, OLD_KEY))


def greeting(
    key: Key = KEY, role: str = "submitter", expect: str = "agent", job: str = "", **caps: int | str
) -> ClientHandshake:
    return ClientHandshake(key, role, expect, job, caps=caps)


class Entrance:
    """A listening socket and its acceptor, with the outcomes so far."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.clock = VirtualClock()
        self.acceptor = Acceptor(policy or (lambda _hello: Accept({"submitter": RING}, "agent")), self.clock)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.listener.setblocking(False)
        self.clients: list[socket.socket] = []
        self.outcomes: list[Outcome] = []

    def connect(self, data: bytes = b"", host: str = "127.0.0.1") -> socket.socket:
        """A visitor that has said `data` and is pending."""
        client = socket.create_connection(self.listener.getsockname(), timeout=5, source_address=(host, 0))
        client.sendall(data)
        self.clients.append(client)
        wait_sockets([self.listener], [], 5)
        self.acceptor.add(self.listener.accept()[0])
        return client

    def step(self, seconds: float = 0.0) -> list[Outcome]:
        self.clock.advance(seconds)
        new = self.acceptor.step()
        self.outcomes += new
        return new

    def outcome(self) -> Outcome:
        """The one that comes next."""
        for _ in range(1000):
            if new := self.step():
                return new[0]
            wait_sockets(self.acceptor.links, [], 1.0)
        raise AssertionError("nothing happened")

    def arrivals(self) -> list[Authenticated]:
        return [o for o in self.outcomes if isinstance(o, Authenticated)]

    def let_in(self, client: socket.socket, handshake: ClientHandshake) -> Authenticated:
        """Go through the handshake from the client's side, whose hello is sent already."""
        before = len(self.arrivals())
        client.setblocking(False)
        while not handshake.done:
            self.step()
            with contextlib.suppress(BlockingIOError):
                data = client.recv(handshake.need)
                assert data
                client.send(handshake.feed(data))
        while len(self.arrivals()) == before:
            self.outcome()
        return self.arrivals()[-1]

    def close(self) -> None:
        for _ in range(2):
            self.acceptor.close()
        for outcome in self.outcomes:
            if isinstance(outcome, Authenticated):
                outcome.session.close()
            elif isinstance(outcome, Forwarded):
                outcome.sock.close()
        for sock in (self.listener, *self.clients):
            sock.close()


@pytest.fixture
def entrance() -> Iterator[Entrance]:
    with contextlib.closing(Entrance()) as made:
        yield made


def is_closed(client: socket.socket) -> bool:
    """Whether the other end has closed."""
    client.settimeout(5)
    try:
        while client.recv(100):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_honest_visitors_arrive_and_many_of_one_address_at_once(entrance: Entrance) -> None:
    """A host with many workers is no attack."""
    handshakes = [greeting(node=n) for n in range(40)]
    clients = [entrance.connect(h.start()) for h in handshakes]
    for node, (client, handshake) in enumerate(zip(clients, handshakes, strict=True)):
        session, hello = entrance.let_in(client, handshake)
        assert session.role == "submitter" and session.alive and hello.caps["node"] == node
    assert (len(entrance.arrivals()), entrance.acceptor.links, entrance.acceptor.deadline) == (40, [], None)


@covers("SEC-1")
@pytest.mark.parametrize("data", STRANGERS)
def test_whatever_a_stranger_says_he_is_turned_away(entrance: Entrance, data: bytes) -> None:
    client = entrance.connect(data)
    entrance.step()
    entrance.step(HANDSHAKE_SECONDS)
    [outcome] = entrance.outcomes
    assert isinstance(outcome, Dropped) and outcome.peer == f"127.0.0.1:{client.getsockname()[1]}"
    assert is_closed(client) and entrance.acceptor.links == []


@covers("SEC-9")
def test_one_byte_at_a_time_is_cut_at_five_seconds_in_all(entrance: Entrance) -> None:
    """Progress does not extend the limit; nor does a hello after which nothing comes."""
    client = entrance.connect()
    for sent, byte in enumerate(greeting(padding="x" * 200).start(), 1):
        client.send(bytes([byte]))
        wait_sockets(entrance.acceptor.links, [], 5)
        if entrance.step(0.1):
            assert sent in (50, 51)  # fifty tenths may round to just below 5
            break
    assert entrance.outcomes == [Dropped(f"127.0.0.1:{client.getsockname()[1]}", "no key was proven within 5 s")]
    assert is_closed(client)
    begun = entrance.clock.monotonic()
    entrance.connect(greeting().start())
    assert entrance.step() == [] and entrance.acceptor.deadline == begun + HANDSHAKE_SECONDS
    assert isinstance(entrance.step(HANDSHAKE_SECONDS)[0], Dropped)


@covers("SEC-2", "SEC-3")
@pytest.mark.parametrize(
    ("policy", "handshake", "hint"),
    [
        (None, greeting(WRONG_KEY), Hint.BAD_KEY),
        (None, greeting(role="peer"), Hint.ROLE),
        (None, greeting(job="other"), Hint.NO_SUCH_JOB),
        (lambda _hello: Hint.BUSY, greeting(), Hint.BUSY),
        (lambda _hello: Hint.FULL, greeting(), Hint.FULL),
    ],
)
def test_who_is_turned_away_is_told_a_hint(policy: Policy | None, handshake: ClientHandshake, hint: Hint) -> None:
    """For the wrong key, role or job, and when the policy says so."""
    with contextlib.closing(Entrance(policy)) as entrance:
        client = entrance.connect(handshake.start())
        outcome = entrance.outcome()
        assert isinstance(outcome, Dropped) and outcome.reason == f"refused: {hint.told}"
        with pytest.raises(Refused) as caught:
            handshake.feed(client.recv(100))
        assert caught.value.hint is hint and is_closed(client)


@covers("SEC-5")
@pytest.mark.parametrize("handed_on", [False, True])
@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("binding", [b"", b"without share and ciphers"])
def test_who_speaks_another_version_is_told_so(entrance: Entrance, version: int, binding: bytes, handed_on: bool) -> None:
    """Whatever else its hello has, and wherever that was read: too old and too new."""
    handshake = ClientHandshake(KEY, "submitter", "agent", binding=binding, versions=(version, version))
    if handed_on:
        client, there = tcp_sockets()
        entrance.clients.append(client)
        entrance.acceptor.add(there, hello=handshake.start(), peer="somebody")
    else:
        client = entrance.connect(handshake.start())
    outcome = entrance.outcome()
    assert (
        isinstance(outcome, Dropped)
        and outcome.reason == "refused: it speaks another version of the protocol, or none (VERSION)"
    )
    client.settimeout(5)
    with pytest.raises(Refused, match=f"does not speak protocol version {version}; install the same release on both sides"):
        handshake.feed(client.recv(100))
    assert is_closed(client)


@covers("SEC-2")
def test_what_a_server_tells_of_itself_only_who_has_proven_a_key_hears() -> None:
    """The reply anybody hears who has seen the id of a key."""
    terms = Accept({"submitter": RING}, "agent", caps={"slots": 77})
    with contextlib.closing(Entrance(lambda _hello: terms)) as entrance:
        handshake = greeting()
        client = entrance.connect(handshake.start())
        wait_sockets(entrance.acceptor.links, [], 5)
        entrance.step()
        reply = client.recv(1024)
        assert parse_reply(reply[3:-32]).caps == {}
        client.send(handshake.feed(reply))
        entrance.outcome()
        session = Session(SocketLink(client, "agent"), handshake.keys, Peer("agent"), is_server=False)
        while not session.confirm():
            session.receive()
            wait_sockets([session.link], [], 5)  # type: ignore[list-item]
        assert session.caps == {"slots": 77}
        session.close()


@covers("SEC-9")
def test_idlers_of_one_address_push_out_each_other_and_an_honest_visitor_gets_in(entrance: Entrance) -> None:
    """At most 8 of one address that have not said hello, the oldest goes."""
    idlers = [entrance.connect() for _ in range(50)]
    entrance.step()
    assert len(entrance.acceptor.links) == MAX_PENDING_PER_ADDRESS
    assert all(is_closed(idler) for idler in idlers[:-MAX_PENDING_PER_ADDRESS])
    reasons = {o.reason for o in entrance.outcomes if isinstance(o, Dropped)}
    assert reasons == {"too many connections wait for their handshake"}
    handshake = greeting()
    client = entrance.connect(handshake.start())
    for _ in range(MAX_PENDING_PER_ADDRESS):  # more idlers while the honest one is on its way
        entrance.connect()
    assert entrance.let_in(client, handshake).session.alive
    assert len(entrance.acceptor.links) <= MAX_PENDING_PER_ADDRESS


@covers("SEC-9")
@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="only Linux has 127.0.0.2 without further ado")
def test_idlers_of_many_addresses_are_bounded_and_an_honest_visitor_gets_in(entrance: Entrance) -> None:
    """At most 64 visitors; those without a hello go first."""
    handshake = greeting()
    client = entrance.connect(handshake.start())
    for number in range(100):
        entrance.connect(host=f"127.0.0.{2 + number // 5}")
        assert len(entrance.acceptor.links) <= MAX_PENDING
    entrance.step()
    assert len(entrance.acceptor.links) == MAX_PENDING
    assert entrance.let_in(client, handshake).session.alive


def test_who_is_handed_on_finishes_within_what_is_left_and_nothing_is_read_beyond_the_hello() -> None:
    """What follows the hello stays in the socket for the job process."""
    agent, job = Entrance(lambda hello: Forward(hello.job)), Entrance(lambda _hello: Accept({"peer": RING}, "peer", "job.1"))
    with contextlib.closing(agent), contextlib.closing(job):
        handshake = greeting(role="peer", expect="peer", job="job.1", node=2)
        hello = handshake.start()
        for behind in (b"behind the hello", b""):
            client = agent.connect(hello[:20])
            agent.step(3.0)
            client.send(hello[20:] + behind)
            passed = agent.outcome()
            assert isinstance(passed, Forwarded)
            assert (passed.job, passed.data, passed.seconds) == ("job.1", hello, HANDSHAKE_SECONDS - 3.0)
            assert passed.hello == parse_hello(hello)
            if behind:
                passed.sock.setblocking(True)
                assert passed.sock.recv(100) == behind
        agent.outcomes.pop()
        job.acceptor.add(passed.sock, hello=passed.data, seconds=passed.seconds, peer=passed.peer)
        assert job.acceptor.deadline == HANDSHAKE_SECONDS - 3.0
        session = job.let_in(client, handshake).session
        assert (session.link.peer, session.bytes_read) == (passed.peer, len(hello) + 32)


def test_a_visitor_that_is_gone_already_is_turned_away(entrance: Entrance) -> None:
    """And one that was handed on with what is no hello; the policy may raise errors of the network."""
    left, right = tcp_sockets()
    with left:
        entrance.acceptor.add(right, hello=b"PSGX", peer="somebody")
        [outcome] = entrance.step()
        assert isinstance(outcome, Dropped) and outcome.peer == "somebody"
    left, right = tcp_sockets()
    left.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    left.close()  # resets the connection
    entrance.acceptor.add(right)
    assert isinstance(entrance.outcome(), Dropped)
    entrance.connect(b"PSGD").close()
    outcome = entrance.outcome()
    assert isinstance(outcome, Dropped) and outcome.reason == "it closed the connection before it proved a key"

    def refuse(_hello: Hello) -> Accept:
        raise NetworkError("The agent is closing.")

    with contextlib.closing(Entrance(refuse)) as closing:
        closing.connect(greeting().start())
        outcome = closing.outcome()
        assert isinstance(outcome, Dropped) and outcome.reason == "The agent is closing."


def test_closing_closes_everything() -> None:
    """Also a session that nobody has taken."""
    entrance = Entrance()
    waiting = entrance.connect(b"PS")
    handshake = greeting()
    entrance.let_in(entrance.connect(handshake.start()), handshake)
    entrance.acceptor.close()
    assert is_closed(waiting) and entrance.acceptor.links == []
    entrance.close()

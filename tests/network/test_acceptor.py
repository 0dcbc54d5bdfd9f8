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
from network.hello import Hello, Hint, Refused
from network.keys import Key, Keyring
from network.testing import VirtualClock
from network.transport import wait_sockets

from ..statements import covers
from .test_hostile import STRANGERS
from .wires import tcp_sockets

KEY, OLD_KEY, WRONG_KEY = (Key(bytes([i]) * 32) for i in (1, 2, 3))
RING = Keyring((KEY, OLD_KEY))


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

    def step(self) -> list[Outcome]:
        new = self.acceptor.step()
        self.outcomes += new
        return new

    def step_until_news(self) -> list[Outcome]:
        for _ in range(1000):
            if new := self.step():
                return new
            wait_sockets(self.acceptor.links, [], 1.0)
        raise AssertionError("nothing happened")

    def close(self) -> None:
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
    made = Entrance()
    yield made
    made.close()


def let_in(entrance: Entrance, client: socket.socket, handshake: ClientHandshake) -> Authenticated:
    """Go through the handshake from the client's side, whose hello is sent already."""

    def arrivals() -> list[Authenticated]:
        return [o for o in entrance.outcomes if isinstance(o, Authenticated)]

    before = len(arrivals())
    client.setblocking(False)
    while not handshake.done:
        entrance.step()
        with contextlib.suppress(BlockingIOError):
            data = client.recv(handshake.need)
            assert data
            client.send(handshake.feed(data))
    while len(arrivals()) == before:
        entrance.step_until_news()
    return arrivals()[-1]


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


def test_an_honest_visitor_arrives(entrance: Entrance) -> None:
    handshake = ClientHandshake(KEY, "submitter", "agent", caps={"node": 4})
    client = entrance.connect(handshake.start())
    session, hello = let_in(entrance, client, handshake)
    assert hello.caps["node"] == 4
    assert session.role == "submitter"
    assert session.alive
    assert entrance.acceptor.links == []
    assert entrance.acceptor.deadline is None


@covers("SEC-1")
@pytest.mark.parametrize("data", STRANGERS)
def test_whatever_a_stranger_says_he_is_turned_away(entrance: Entrance, data: bytes) -> None:
    client = entrance.connect(data)
    entrance.step()
    entrance.clock.advance(HANDSHAKE_SECONDS)
    entrance.step()
    [outcome] = entrance.outcomes
    assert isinstance(outcome, Dropped)
    assert outcome.peer == f"127.0.0.1:{client.getsockname()[1]}"
    assert is_closed(client)
    assert entrance.acceptor.links == []


@covers("SEC-9")
def test_one_byte_at_a_time_is_cut_at_five_seconds_in_all(entrance: Entrance) -> None:
    """Progress does not extend the limit."""
    data = ClientHandshake(KEY, "submitter", "agent", caps={"padding": "x" * 200}).start()
    client = entrance.connect()
    cut_after = 0
    for number in range(len(data)):
        client.send(data[number : number + 1])
        wait_sockets(entrance.acceptor.links, [], 5)
        entrance.clock.advance(0.1)
        cut_after = number + 1
        if entrance.step():
            break
    assert cut_after in (50, 51)  # fifty tenths may round to just below 5
    assert entrance.outcomes == [Dropped(f"127.0.0.1:{client.getsockname()[1]}", "no key was proven within 5 s")]
    assert is_closed(client)


def test_a_visitor_who_stops_after_the_hello_is_cut_too(entrance: Entrance) -> None:
    entrance.connect(ClientHandshake(KEY, "submitter", "agent").start())
    assert entrance.step() == []
    assert entrance.acceptor.deadline == HANDSHAKE_SECONDS
    entrance.clock.advance(HANDSHAKE_SECONDS)
    assert isinstance(entrance.step()[0], Dropped)


@covers("SEC-2", "SEC-3")
@pytest.mark.parametrize(
    ("policy", "key", "role", "job", "hint"),
    [
        (None, WRONG_KEY, "submitter", "", Hint.BAD_KEY),
        (None, KEY, "peer", "", Hint.ROLE),
        (None, KEY, "submitter", "other", Hint.NO_SUCH_JOB),
        (lambda _hello: Hint.BUSY, KEY, "submitter", "", Hint.BUSY),
        (lambda _hello: Hint.FULL, KEY, "submitter", "", Hint.FULL),
    ],
)
def test_who_is_turned_away_is_told_a_hint(policy: Policy | None, key: Key, role: str, job: str, hint: Hint) -> None:
    """For the wrong key, role or job, and when the policy says so."""
    with contextlib.closing(Entrance(policy)) as entrance:
        handshake = ClientHandshake(key, role, "agent", job)
        client = entrance.connect(handshake.start())
        [outcome] = entrance.step_until_news()
        assert isinstance(outcome, Dropped)
        assert outcome.reason == f"refused: {hint.name}"
        with pytest.raises(Refused) as caught:
            handshake.feed(client.recv(100))
        assert caught.value.hint is hint
        assert is_closed(client)


@covers("SEC-9")
def test_idlers_of_one_address_push_out_each_other_and_an_honest_visitor_gets_in(entrance: Entrance) -> None:
    """At most 8 of one address that have not said hello, the oldest goes."""
    idlers = [entrance.connect() for _ in range(50)]
    entrance.step()
    assert len(entrance.acceptor.links) == MAX_PENDING_PER_ADDRESS
    assert all(is_closed(idler) for idler in idlers[:-MAX_PENDING_PER_ADDRESS])
    reasons = {o.reason for o in entrance.outcomes if isinstance(o, Dropped)}
    assert reasons == {"too many connections wait for their handshake"}
    handshake = ClientHandshake(KEY, "submitter", "agent")
    client = entrance.connect(handshake.start())
    for _ in range(MAX_PENDING_PER_ADDRESS):  # more idlers while the honest one is on its way
        entrance.connect()
    assert let_in(entrance, client, handshake).session.alive
    assert len(entrance.acceptor.links) <= MAX_PENDING_PER_ADDRESS


@covers("SEC-9")
@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="only Linux has 127.0.0.2 without further ado")
def test_idlers_of_many_addresses_are_bounded_and_an_honest_visitor_gets_in(entrance: Entrance) -> None:
    """At most 64 visitors; those without a hello go first."""
    handshake = ClientHandshake(KEY, "submitter", "agent")
    client = entrance.connect(handshake.start())
    for number in range(100):
        entrance.connect(host=f"127.0.0.{2 + number // 5}")
        assert len(entrance.acceptor.links) <= MAX_PENDING
    entrance.step()
    assert len(entrance.acceptor.links) == MAX_PENDING
    assert let_in(entrance, client, handshake).session.alive


def test_many_honest_visitors_of_one_address_get_in_at_once(entrance: Entrance) -> None:
    """A host with many workers is no attack."""
    handshakes = [ClientHandshake(KEY, "submitter", "agent", caps={"node": n}) for n in range(40)]
    clients = [entrance.connect(h.start()) for h in handshakes]
    for client, handshake in zip(clients, handshakes, strict=True):
        assert let_in(entrance, client, handshake).session.alive
    assert sum(isinstance(o, Authenticated) for o in entrance.outcomes) == 40


def test_a_hello_is_handed_on_exactly_and_nothing_is_read_beyond_it() -> None:
    """SEC: what follows the hello stays in the socket for the job process."""
    with contextlib.closing(Entrance(lambda hello: Forward(hello.job))) as entrance:
        handshake = ClientHandshake(KEY, "peer", "peer", "job.1")
        hello = handshake.start()
        entrance.connect(hello + b"behind the hello")
        entrance.clock.advance(1.5)
        [outcome] = entrance.step_until_news()
        assert isinstance(outcome, Forwarded)
        assert (outcome.job, outcome.hello, outcome.seconds) == ("job.1", hello, HANDSHAKE_SECONDS - 1.5)
        outcome.sock.setblocking(True)
        assert outcome.sock.recv(100) == b"behind the hello"


def test_a_visitor_who_is_handed_on_finishes_within_what_is_left_of_his_time() -> None:
    terms = Accept({"peer": RING}, "peer", "job.1")

    def second_door() -> Entrance:
        return Entrance(lambda _hello: terms)

    with contextlib.closing(Entrance(lambda hello: Forward(hello.job))) as agent, contextlib.closing(second_door()) as job:
        handshake = ClientHandshake(KEY, "peer", "peer", "job.1", caps={"node": 2})
        hello = handshake.start()
        client = agent.connect(hello[:20])
        agent.step()
        agent.clock.advance(3.0)
        client.send(hello[20:])
        [passed] = agent.step_until_news()
        assert isinstance(passed, Forwarded)
        assert passed.seconds == HANDSHAKE_SECONDS - 3.0
        agent.outcomes.clear()
        job.acceptor.add(passed.sock, hello=passed.hello, seconds=passed.seconds, peer=passed.peer)
        assert job.acceptor.deadline == HANDSHAKE_SECONDS - 3.0
        session = let_in(job, client, handshake).session
        assert session.link.peer == passed.peer
        assert session.bytes_read == len(hello) + 32


def test_a_visitor_that_is_gone_already_is_turned_away(entrance: Entrance) -> None:
    """And one that was handed on with what is no hello."""
    left, right = tcp_sockets()
    with left:
        entrance.acceptor.add(right, hello=b"PSGX", peer="somebody")
        [outcome] = entrance.step()
        assert isinstance(outcome, Dropped) and outcome.peer == "somebody"
    left, right = tcp_sockets()
    left.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    left.close()  # resets the connection
    entrance.acceptor.add(right)
    [outcome] = entrance.step_until_news()
    assert isinstance(outcome, Dropped)


def test_closing_the_door_closes_everything() -> None:
    entrance = Entrance()
    entrance.connect(b"PS")
    handshake = ClientHandshake(KEY, "submitter", "agent")
    let_in(entrance, entrance.connect(handshake.start()), handshake)
    entrance.close()
    entrance.acceptor.close()


def test_errors_of_the_network_only_are_expected_from_a_policy() -> None:
    def refuse(_hello: Hello) -> Accept:
        raise NetworkError("The agent is closing.")

    with contextlib.closing(Entrance(refuse)) as closing:
        closing.connect(ClientHandshake(KEY, "submitter", "agent").start())
        [outcome] = closing.step_until_news()
        assert isinstance(outcome, Dropped) and outcome.reason == "The agent is closing."

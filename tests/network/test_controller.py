"""The communication object: order, fairness, back-pressure, limits that say whom they waited for, and losses that are told."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from network.controller import WAIT_SECONDS, Controller
from network.errors import ClosedByUs, NetworkError, PeerLost, TimedOut
from network.message import Message
from network.session import INBOX_LIMIT
from network.testing import VirtualClock
from network.transport import Link, SocketLink

from ..statements import covers
from .wires import SEALED_WIRES, Talk, talk

LIMIT = 60.0
SOCKETS = ("tcp", "unix")


@contextlib.contextmanager
def nodes(kind: str = "unix", **more: Any) -> Iterator[tuple[Controller, Controller]]:
    """Node 1 (which the other knows by that number) and node 0, connected."""
    with talk(kind, **more) as ends:
        one, zero = Controller(1, {0: ends.client}, wait=ends.wait), Controller(0, {1: ends.server}, wait=ends.wait)
        try:
            yield one, zero
        finally:
            one.close(graceful=False)
            zero.close(graceful=False)


@contextlib.contextmanager
def star(peers: int) -> Iterator[tuple[Controller, dict[int, Controller]]]:
    """Node 9 in the middle and nodes 0..peers-1 around it, over TCP."""
    with contextlib.ExitStack() as stack:
        ends: dict[int, Talk] = {n: stack.enter_context(talk("tcp")) for n in range(peers)}
        around = {n: Controller(n, {9: end.server}) for n, end in ends.items()}
        centre = Controller(9, {n: end.client for n, end in ends.items()})
        for com in (centre, *around.values()):
            stack.callback(com.close, graceful=False)
        yield centre, around


class Background:
    """A call in another thread; `result` waits for it."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self._outcome: Any = None
        self._error: BaseException | None = None
        self._action = action
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome = self._action()
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self._outcome


def get(com: Controller) -> tuple[int, Any]:
    found = com.get_one(timeout=LIMIT)
    assert found is not None
    return found


# ---- messages


@pytest.mark.parametrize(("kind", "sealed"), SEALED_WIRES)
def test_what_one_sends_the_other_gets_in_order(kind: str, sealed: bool) -> None:
    with nodes(kind, sealed=sealed) as (one, zero):
        for value in ("a", {"b": (1, None)}, [2.5]):
            one.send_one(0, value, timeout=LIMIT)
        assert [get(zero) for _ in range(3)] == [(1, "a"), (1, {"b": (1, None)}), (1, [2.5])]
        zero.send_one(1, "back")
        assert one.get_one() == (0, "back")
        with pytest.raises(TypeError, match=r"builtins\.set cannot travel"):
            one.send_one(0, {1})  # and the session goes on
        assert one.get_one(blocking=False) is None
        assert (one.bytes_sent, zero.bytes_sent) == (zero.bytes_read, one.bytes_read)


def test_one_value_goes_to_many_and_get_one_is_fair_between_senders() -> None:
    with star(3) as (centre, around):
        centre.send_one([0, 2], np.arange(3))
        for node in (0, 2):
            sender, value = get(around[node])
            assert (sender, value.tolist()) == (9, [0, 1, 2])
        assert around[1].get_one(blocking=False) is None
        for node, com in around.items():
            for number in range(4):
                com.send_one(9, (node, number))
        centre.wait_until(lambda: all(len(s.inbox) == 4 for s in centre.sessions.values()), LIMIT, lambda: "all")
        senders = [get(centre)[0] for _ in range(12)]
        assert all(sorted(senders[i : i + 3]) == [0, 1, 2] for i in range(0, 12, 3))


def test_only_those_are_read_from_which_something_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """By count: a message costs its own reads, not one of each peer, or a step would grow with the cube of them."""
    with star(6) as (centre, around):
        reads: list[Link] = []
        receive = SocketLink.receive

        def counted(link: SocketLink, buffer: memoryview) -> int | None:
            reads.append(link)
            return receive(link, buffer)

        around[4].send_one(9, "here")
        monkeypatch.setattr(SocketLink, "receive", counted)
        assert get(centre) == (4, "here")
        assert set(reads) == {centre.sessions[4].link}


@pytest.mark.parametrize("kind", SOCKETS)
def test_two_nodes_that_send_50_mb_to_each_other_do_not_block_each_other(kind: str) -> None:
    block = np.arange(50_000_000 // 8, dtype=np.int64)

    def exchange(com: Controller, peer: int) -> bool:
        com.send_one(peer, block, timeout=LIMIT)
        return np.array_equal(get(com)[1], block)

    with nodes(kind) as (one, zero):
        other = Background(lambda: exchange(zero, 1))
        assert exchange(one, 0) and other.result()


@pytest.mark.share(2)
@covers("SUB-35")
@pytest.mark.parametrize("kind", SOCKETS)
def test_a_paused_receiver_stops_the_sender_and_then_gets_everything_in_order(kind: str) -> None:
    """10,000 packets, 160 MB; while the receiver pauses only what inbox and system hold is taken from the sender."""
    packets, block = 10_000, np.zeros(4_000, np.float32)
    sent = 0

    def send_all() -> None:
        nonlocal sent
        for number in range(packets):
            one.send_one(0, [number, block])
            sent = number + 1

    with nodes(kind) as (one, zero):
        sender, session = Background(send_all), zero.sessions[1]
        zero.wait_until(lambda: not session.wants_more, LIMIT, lambda: "a full inbox")
        held = len(session.inbox)
        assert held < INBOX_LIMIT + 100
        zero.pump(0.05)
        assert len(session.inbox) == held and sent < packets // 2
        assert [get(zero)[1][0] for _ in range(packets)] == list(range(packets))
        sender.result()
        assert one.bytes_sent == zero.bytes_read


def test_arrays_that_are_kept_do_not_change_when_more_arrive() -> None:
    """Memory of received arrays is used again, but not while somebody holds them. What is flushed may change at the sender."""
    with nodes("tcp") as (one, zero):
        kept = []
        for number in range(12):
            sender = Background(functools.partial(one.send_one, 0, np.full(100_000, number, np.float64), LIMIT))
            array = get(zero)[1]
            kept.append(array[10:20] if number % 2 else array)
            sender.result()
        assert all((array == number).all() for number, array in enumerate(kept))
        block = np.zeros(3_000_000)
        one.post(0, block)
        one.push()
        while not one.flushed():
            zero.pump(0.01)
            one.pump(0.01)
        block[:] = 1
        assert not get(zero)[1].any()


# ---- blocks


def test_blocks_are_handed_over_at_once_and_messages_wait() -> None:
    with nodes() as (one, zero):
        blocks: list[Any] = []
        zero.on_block = lambda sender, message: blocks.append((sender, message.head, message.value))
        for number in range(3):
            one.post(0, f"block {number}", (7, number))
            one.post(0, f"message {number}")
        one.flush()
        zero.wait_until(lambda: len(blocks) == 3, LIMIT, lambda: "blocks")
        assert blocks == [(1, (7, n), f"block {n}") for n in range(3)]
        assert [get(zero) for _ in range(3)] == [(1, f"message {n}") for n in range(3)]


def test_blocks_that_came_before_the_handler_are_handed_over_without_waiting_for_more() -> None:
    """And closing delivers what is in line."""
    with nodes("tcp") as (one, zero):
        one.send_one(0, "early", timeout=LIMIT)
        one.post(0, np.zeros(50_000), (1,))
        leaving = Background(one.close)
        zero.wait_until(lambda: len(zero.sessions[1].inbox) == 2, LIMIT, lambda: "both")
        blocks: list[Any] = []
        zero.on_block = lambda _sender, message: blocks.append(message.head)
        zero.wait_until(lambda: bool(blocks), 1.0, lambda: "the block")
        assert get(zero) == (1, "early")
        zero.close()
        leaving.result()


def test_a_handler_that_fails_or_sends_leaves_the_other_messages_in_order() -> None:
    with nodes() as (one, zero):
        seen: list[Any] = []

        def answer(sender: int, message: Message) -> None:
            seen.append(message.value)
            zero.send_one(sender, "answer", timeout=LIMIT)
            zero.pump(0.0)
            if message.value == "block 2":
                raise ValueError("a codec's fault")

        for number in range(6):
            one.post(0, f"message {number}")
            one.post(0, f"block {number}", (1,))
        one.flush()
        zero.pump(0.0)
        zero.on_block = answer
        with pytest.raises(ValueError, match="a codec's fault"):
            zero.pump(0.0)
        zero.on_block = lambda _sender, message: seen.append(message.value)
        assert [get(zero)[1] for _ in range(6)] == [f"message {n}" for n in range(6)]
        zero.pump(0.0)
        assert sorted(seen) == [f"block {n}" for n in range(6)]


# ---- waits


class Counted(SocketLink):
    """Counts how often it is asked for bytes."""

    asked = 0

    def receive(self, buffer: memoryview) -> int | None:
        type(self).asked += 1
        return super().receive(buffer)


def test_who_looks_asks_only_those_from_whom_something_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node would else call the system once for each other node, several times in a step."""
    with star(8) as (centre, around):
        monkeypatch.setattr(Counted, "asked", 0)
        for session in centre.sessions.values():
            session.link.__class__ = Counted
        around[3].post(9, "message")
        around[3].flush()
        centre.pump(0.0)
        assert get(centre) == (3, "message")
        centre.pump(0.0)
        assert 0 < Counted.asked <= 4


class Sleeper:
    """A waiter on which nothing ever happens, and what is seen of the waits."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.waits: list[float | None] = []
        self.signs: list[str] = []
        self.found: list[object] | None = []

    def __call__(self, reading: Sequence[Link], writing: Sequence[Link], timeout: float | None) -> list[object] | None:
        self.waits.append(timeout)
        self.signs.append("asleep")
        self.clock.advance(timeout or 0.0)
        return self.found


@pytest.mark.parametrize("kind", SOCKETS)
def test_a_message_with_a_head_is_none_for_the_program(kind: str) -> None:
    """Also one that has arrived when nobody pumped: its handler gets it, and `get_one` waits for one of the program."""
    with nodes(kind) as (one, zero):
        got: list[tuple[int, tuple[int, ...], Any]] = []
        for head in ((7, 1), (1, 2, 3)):
            zero.post(1, f"part {len(head)}", head)
        zero.flush()
        while len(one.sessions[0].inbox) < 2:  # nobody hands them over, as nobody listens yet
            one.pump(LIMIT)
        one.on_block = lambda sender, message: got.append((sender, message.head, message.value))
        one.handlers = {2: lambda sender, message: got.append((sender, (), message.value))}
        assert one.get_one(blocking=False) is None
        assert got == [(0, (), "part 2"), (0, (1, 2, 3), "part 3")]
        zero.post(1, "another part", (7, 2))
        zero.send_one(1, "for the program")
        while not one.sessions[0].inbox:
            one.read()
        assert one.get_one(timeout=LIMIT) == (0, "for the program") and got[-1] == (0, (), "another part")


def test_a_limit_says_whom_it_waited_for() -> None:
    sleeper = Sleeper()
    with talk("memory") as ends, contextlib.closing(Controller(1, {0: ends.client}, clock=sleeper.clock, wait=sleeper)) as com:
        with pytest.raises(TimedOut, match=r"^Timed out after 7 s waiting for a message from node 0 \(memory:b\)\.$"):
            com.get_one(timeout=7.0)
        assert sleeper.clock.monotonic() == 7.0
        text = r"^Timed out after 3 s waiting for node 0 \(memory:b\) to take our data\.$"
        with pytest.raises(TimedOut, match=text) as caught:
            com.send_one(0, np.zeros(1 << 20), timeout=3.0)
        assert caught.value.seconds == 3.0 and isinstance(caught.value, TimeoutError)
        ends.client.close()


class Passing(VirtualClock):
    """Time that passes between two looks, as it does where another process has the processor."""

    def monotonic(self) -> float:
        self.advance(0.25)
        return super().monotonic()


def test_a_limit_is_told_whole_when_some_of_it_was_over_before_the_last_wait() -> None:
    sleeper = Sleeper()
    sleeper.clock = Passing()
    with talk("memory") as ends, contextlib.closing(Controller(1, {0: ends.client}, clock=sleeper.clock, wait=sleeper)) as com:
        with pytest.raises(TimedOut, match=r"^Timed out after 3 s waiting for node 0 ") as caught:
            com.send_one([0, 0], np.zeros(1 << 20), timeout=3.0)
        assert caught.value.seconds == 3.0
        ends.client.close()


def test_a_limit_names_all_that_could_have_spoken() -> None:
    with star(2) as (centre, _):
        names = ", ".join(centre.sessions[peer].peer for peer in (0, 1))
        with pytest.raises(TimedOut) as caught:
            centre.get_one(timeout=0.01)
        assert caught.value.what == f"a message from {names}"


@covers("FD-2")
def test_a_node_that_waits_shows_that_it_lives() -> None:
    """No slice of a wait is longer than a quarter of a second, and a sign comes before and after each, which tells whether
    bytes can be moved; without signs it is one."""
    sleeper = Sleeper()
    with Controller(0, {}, clock=sleeper.clock, wait=sleeper) as com:
        com.pump(1.1)
        com.on_wait = lambda: sleeper.signs.append("wait")
        com.on_resume = lambda moves: sleeper.signs.append("resume, and moves" if moves else "resume")
        with pytest.raises(TimedOut, match=r"Timed out after 1\.1 s waiting for nothing"):
            com.wait_until(lambda: False, 1.1, lambda: "nothing")
        com.pump(None)
        com.pump(0.0)  # looks, and does not wait
        with pytest.raises(NetworkError, match="every peer"):
            com.get_one(timeout=LIMIT)
        assert sleeper.waits == [1.1, *[WAIT_SECONDS] * 4, pytest.approx(0.1), WAIT_SECONDS]
        assert sleeper.signs == ["asleep", *["wait", "asleep", "resume"] * 6]
        for found in ([com._thread_inbox.waker.sock], ["a link"], None):  # woken by another thread; by bytes; nobody knows
            sleeper.found = found
            com.pump(None)
        assert sleeper.signs[-7::3] == ["resume", "resume, and moves", "resume, and moves"]


class Stop(Exception):
    pass


@covers("SUB-14")
@pytest.mark.parametrize("action", ["get", "get with a message", "send"])
@pytest.mark.parametrize("kind", SOCKETS)
def test_an_interruption_wakes_whoever_waits(kind: str, action: str) -> None:
    """At the next receive or send, also when it is already waiting; it comes before messages that wait; the first one wins."""
    with nodes(kind) as (one, zero):
        if action == "get with a message":
            zero.send_one(1, "late")
            one.pump(0.1)
            one.interrupt(Stop("first"))
        waiting = Background(lambda: one.send_one(0, np.zeros(4_000_000)) if action == "send" else one.get_one())
        one.interrupt(Stop("first"))
        one.interrupt(Stop("second"))
        with pytest.raises(Stop, match="first"):
            waiting.result()
        for then in (one.get_one, lambda: one.send_one(0, "x"), one.flush, lambda: one.pump(0.0)):
            with pytest.raises(Stop, match="first"):
                then()


# ---- ends


def test_a_loss_is_told_once_after_the_messages_and_names_node_and_address() -> None:
    with star(2) as (centre, around):
        around[0].send_one(9, "last words")
        around[0].close(graceful=False)
        start = time.monotonic()
        assert get(centre) == (0, "last words")
        address = centre.sessions[0].link.peer
        with pytest.raises(PeerLost) as caught:
            get(centre)
        assert str(caught.value).startswith(f"Node(0) at {address} is lost: ")
        assert time.monotonic() - start < LIMIT
        assert centre.available_clients == [1]
        around[1].send_one(9, "still here")
        assert get(centre) == (1, "still here")
        for action in (lambda: centre.send_one(0, "x"), lambda: centre.post(0, "x")):
            with pytest.raises(PeerLost, match=r"Node\(0\) at"):
                action()


def test_losing_a_peer_ends_a_wait_for_it_to_take_data() -> None:
    with nodes("tcp") as (one, zero):
        # again and again, for one look of the other end may take a whole message
        sending = Background(lambda: [one.send_one(0, np.zeros(1_000_000)) for _ in range(10_000)])
        zero.wait_until(lambda: zero.bytes_read > 100_000, LIMIT, lambda: "bytes")
        zero.close(graceful=False)
        with pytest.raises(PeerLost, match=r"Node\(0\) at 127\.0\.0\.1:\d+ is lost"):
            sending.result()


def test_a_farewell_is_no_loss() -> None:
    with nodes("tcp") as (one, zero):
        one.post(0, "last")
        leaving = Background(one.close)
        assert get(zero) == (1, "last")
        with pytest.raises(PeerLost, match="every peer is lost: all of them have left node 0"):
            get(zero)
        assert (zero.lost, zero.available_clients) == ({}, [])
        with pytest.raises(PeerLost, match="it has left"):
            zero.send_one(1, "too late")
        zero.close()
        leaving.result()


@covers("SUB-36")
def test_a_peer_that_breaks_the_protocol_is_lost_and_named() -> None:
    with nodes("tcp") as (one, zero):
        one.sessions[0].link.send([b"\xff" * 64])
        with pytest.raises(PeerLost, match=r"Node\(1\) at 127\.0\.0\.1:\d+ is lost: A frame of unknown kind 255"):
            get(zero)


def test_who_cannot_be_talked_to_is_named() -> None:
    """A peer that nobody knows, one whose session is lost already, and all where we have closed; then nobody is let in."""
    with nodes("tcp") as (one, _), talk("tcp") as ends, talk() as late:
        with pytest.raises(PeerLost, match=r"Node\(5\) at .*: node 1 has no connection with it"):
            one.send_one(5, "x")
        ends.server.close()
        ends.wait([ends.client.link], [], LIMIT)
        ends.client.receive()
        one.admit(0, ends.client)
        with pytest.raises(PeerLost, match=r"Node\(0\) at"):
            get(one)
        one.close(graceful=False)
        one.close()
        one.admit(7, late.client)
        assert isinstance(late.client.lost, ClosedByUs)
    with nodes() as (one, _):
        one.close(graceful=False)
        with pytest.raises(ClosedByUs, match="was closed by this side"):
            one.send_one(0, "x")


def test_a_newcomer_is_admitted_while_others_are_waited_for() -> None:
    with nodes("tcp") as (one, _), talk("tcp") as ends, contextlib.closing(Controller(1, {2: ends.server})) as guest:
        waiting = Background(lambda: one.get_one(timeout=LIMIT))
        one.admit(2, ends.client)
        guest.send_one(2, "hello")
        assert waiting.result() == (2, "hello")
        assert one.available_clients == [0, 2]
        ends.client.close()


def test_a_peer_that_comes_back_replaces_its_old_session_and_bytes_stay_counted() -> None:
    with nodes() as (one, zero), talk() as ends:
        zero.send_one(1, "from the old one")
        assert get(one) == (0, "from the old one")
        sent, read = one.bytes_sent, one.bytes_read
        zero.close(graceful=False)
        with pytest.raises(PeerLost):
            get(one)
        more = ends.client.bytes_sent, ends.client.bytes_read
        one.admit(0, ends.client)
        one.pump(0.0)
        assert one.lost == {} and one.available_clients == [0]
        assert (one.bytes_sent, one.bytes_read) == (sent + more[0], read + more[1])

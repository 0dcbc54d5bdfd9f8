"""Driving a process over sessions: losses end it, slow peers are given up, late packets are still taken in."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import pytest

from network.clock import SystemClock
from network.controller import Controller
from network.errors import PeerLost
from network.message import Message
from network.wire import Sent
from parallel_sgd.engine.channel import Key, Parameter_Server, Wait
from parallel_sgd.engine.socket_channel import SocketChannel, can_do_without, close_gracefully, run_process
from parallel_sgd.profiles import DuplicateAssignment, IIDBlockAssignment
from tests.network.wires import talk

from ..statements import covers

KEY = (0, 0, 0, 0)
MORE_THAN_A_LINK_HOLDS = np.zeros(1 << 20, np.float32)


@contextlib.contextmanager
def pair() -> Iterator[tuple[Controller, Controller]]:
    """Node 1, which knows node 0, and the other way round."""
    with talk("memory") as ends:
        one, zero = Controller(1, {0: ends.client}, wait=ends.wait), Controller(0, {1: ends.server}, wait=ends.wait)
        try:
            yield one, zero
        finally:
            one.close(graceful=False)
            zero.close(graceful=False)


def waiting(ready: Callable[[], bool], log: list[str], seconds: float | None = None) -> Generator[Wait, None, str]:
    """Waits once; its value tells how that ended."""
    try:
        yield Wait(ready, None if seconds is None else SystemClock().monotonic() + seconds, lambda: "the test")
        return "ready" if ready() else "overdue"
    finally:
        log.append("closed")


def test_the_value_of_the_process() -> None:
    log: list[str] = []
    with pair() as (one, _):
        assert run_process(waiting(lambda: True, log), one, SystemClock(), lambda lost: False) == "ready"
        assert run_process(waiting(lambda: False, log, 0.0), one, SystemClock(), lambda lost: False) == "overdue"


@covers("SUB-13")
@pytest.mark.parametrize("farewell", [False, True])
def test_a_loss_ends_the_process_and_closes_it(farewell: bool) -> None:
    """What the process has to save, its reports for one, is saved. One who leaves is not lost."""
    log: list[str] = []
    with pair() as (one, zero):
        zero.sessions[1].leave() if farewell else None
        zero.push()
        zero.close(graceful=False)
        if farewell:
            assert (
                run_process(waiting(lambda: not one.available_clients, log), one, SystemClock(), lambda lost: False) == "ready"
            )
        else:
            with pytest.raises(PeerLost, match=r"Node\(0\) at memory:b is lost"):
                run_process(waiting(lambda: False, log), one, SystemClock(), lambda lost: False)
    assert log == ["closed"]


def test_packets_for_a_node_that_is_gone_go_nowhere() -> None:
    """And are not counted: the accounts of living links stay conserved."""
    with pair() as (one, zero):
        channel = SocketChannel(one)
        sent = channel.post(0, KEY, np.zeros(4, np.float32))
        assert isinstance(sent, Sent) and sent.raw == 16 and sent.wire == sent.raw + sent.overhead
        with pytest.raises(ValueError, match=r"one of the nodes \[0\], got 2"):
            channel.post(2, KEY, 1)
        zero.close(graceful=False)
        one.pump(1.0)
        assert channel.post(0, KEY, 1) is None
        assert list(channel.peers()) == []


def test_large_packets_cross_while_both_sides_post() -> None:
    """Communication overlaps backward also where it is more than a connection's buffers hold: who posts much reads, too."""
    heard: list[int] = []
    with pair() as (one, zero):
        zero.on_block = lambda _, message: heard.append(message.head[-1])
        channels, content = [SocketChannel(one), SocketChannel(zero)], np.ones(1 << 18, np.float32)
        for number in range(8):  # eight times what the link holds
            for channel, peer in zip(channels, (0, 1), strict=True):
                channel.post(peer, (0, 0, 0, number), content)
                channel.flush()
        assert len(zero.sessions[1].inbox) >= 6 and not heard, "nothing is handed over in the middle of backward"
        zero.pump(1.0)
        assert heard == sorted(heard) and len(heard) >= 6


def test_small_packets_are_read_when_they_are_waited_for() -> None:
    """A look costs a system call: steps that fit into the buffers do without, however many there are."""
    with pair() as (one, zero):
        channels, content = [SocketChannel(one), SocketChannel(zero)], np.ones(1 << 15, np.float32)
        for step in range(7):
            for channel, peer in zip(channels, (0, 1), strict=True):
                channel.post(peer, (0, 0, step, 0), content)
                channel.flush()
                assert channel.flushed()
        assert not zero.sessions[1].inbox and not one.sessions[0].inbox


@covers("FLT-2")
def test_a_peer_that_does_not_take_its_data_is_given_up_if_the_job_can_do_without() -> None:
    """At the deadline of the wait, not before; from then on nobody waits for it."""
    with pair() as (one, _):
        channel, log = SocketChannel(one), list[str]()
        assert channel.post(0, KEY, MORE_THAN_A_LINK_HOLDS) is not None
        start = SystemClock().monotonic()
        assert run_process(waiting(channel.flushed, log, 0.1), one, SystemClock(), lambda lost: lost == {0}) == "ready"
        assert SystemClock().monotonic() - start >= 0.1
        assert list(channel.peers()) == [] and channel.post(0, KEY, 1) is None
        assert re.search(r"Node\(0\) at memory:b is lost: it has not taken our data within [\d.]+ s", str(one.lost[0]))


@covers("SUB-25")
def test_a_peer_that_is_needed_is_waited_for() -> None:
    """The process itself says what is overdue."""
    with pair() as (one, _):
        channel = SocketChannel(one)
        channel.post(0, KEY, MORE_THAN_A_LINK_HOLDS)
        assert run_process(waiting(channel.flushed, [], 0.1), one, SystemClock(), lambda lost: False) == "overdue"
        assert list(channel.peers()) == [0] and not one.lost


@covers("SUB-40")
@pytest.mark.parametrize("read", [False, True], ids=["on the wire", "read while something was sent"])
def test_leaving_takes_in_what_is_still_on_its_way(read: bool) -> None:
    """So that every packet is in the accounts of its receiver."""
    taken: list[tuple[int, Key, Any]] = []

    def deliver(sender: int, message: Message) -> None:
        taken.append((sender, message.head, message.value))

    with pair() as (one, zero):
        one.on_block = deliver
        zero.post(1, "late", KEY)
        zero.sessions[1].leave()
        zero.push()
        if read:
            one.read()
        assert close_gracefully(one, 5.0) == []
        assert taken == [(0, KEY, "late")]


def test_leaving_has_a_limit() -> None:
    """Who has not said farewell is named; who does not even take ours is given up."""
    with pair() as (one, _):
        assert close_gracefully(one, 0.05) == [0]
    with pair() as (one, _):
        SocketChannel(one).post(0, KEY, MORE_THAN_A_LINK_HOLDS)
        assert close_gracefully(one, 0.05) == []
        assert list(one.lost) == [0]


@covers("SUB-31")
def test_what_a_job_can_do_without() -> None:
    """a worker whose blocks others hold; the parameter server never."""
    assert can_do_without(DuplicateAssignment(4, 2).block_2_node, {0, 2})
    assert not can_do_without(DuplicateAssignment(4, 2).block_2_node, {0, 1})
    assert not can_do_without(IIDBlockAssignment(2).block_2_node, {0})
    assert can_do_without(IIDBlockAssignment(2).block_2_node, set())
    assert not can_do_without(DuplicateAssignment(4, 2).block_2_node, {Parameter_Server})

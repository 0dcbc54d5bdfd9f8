"""The socket pair between an agent and a job process."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from network.errors import ProtocolError
from rpc.agent.checks import MOST_NODES
from rpc.messages import FROM_JOB_PROCESS, TO_JOB_PROCESS, Advanced, Begin, Halt, Reached, Took, Visitor
from rpc.process_channel import ProcessChannel, make_channel


@pytest.fixture
def ends() -> Iterator[tuple[ProcessChannel, ProcessChannel]]:
    ours, theirs = make_channel()
    agent, job = ProcessChannel(ours, FROM_JOB_PROCESS), ProcessChannel(theirs, TO_JOB_PROCESS)
    yield agent, job
    agent.close()
    job.close()


def test_operations_keep_their_order(ends: tuple[ProcessChannel, ProcessChannel]) -> None:
    agent, job = ends
    for percent in range(5):
        job.send(Advanced(percent))
    assert [agent.receive() for _ in range(5)] == [(Advanced(percent), None) for percent in range(5)]
    with pytest.raises(BlockingIOError):
        agent.receive()


def test_a_connection_travels(ends: tuple[ProcessChannel, ProcessChannel]) -> None:
    agent, job = ends
    near, far = socket.socketpair()
    with near, far:
        agent.send(Visitor(b"hello", 5.0, "somewhere"), far.fileno())
        received = job.receive()
        assert received is not None
        operation, connection = received
        assert operation == Visitor(b"hello", 5.0, "somewhere") and connection is not None
        with connection:
            assert not os.get_inheritable(connection.fileno())
            near.sendall(b"through")
            assert connection.recv(10) == b"through"


def test_the_keys_of_the_largest_job_travel(ends: tuple[ProcessChannel, ProcessChannel]) -> None:
    """With the longest ids, in one packet, which the job process takes in whole."""
    agent, job = ends
    nodes = range((1 << 20) - MOST_NODES, 1 << 20)
    keys = {node: os.urandom(32) for node in nodes[1:]}
    title = "t" * 128
    begin = Begin("j" * 48, title, nodes[0], list(nodes), 0, os.urandom(32), keys, 1.0, 1.0, "/" * 1000, "/" * 1000)
    agent.send(begin)
    assert job.receive() == (begin, None)


def test_last_words_of_one_that_did_not_listen(ends: tuple[ProcessChannel, ProcessChannel]) -> None:
    """The kernel reports the unread order first; what the process had said before its end must not be lost over that."""
    agent, job = ends
    agent.send(Halt("now"))
    job.send(Reached("done", "", ["result.psgd"]))
    job.close()
    assert agent.receive() == (Reached("done", "", ["result.psgd"]), None)
    assert agent.receive() is None


def test_the_other_end_is_gone(ends: tuple[ProcessChannel, ProcessChannel]) -> None:
    agent, job = ends
    job.close()
    assert agent.receive() is None
    with pytest.raises(OSError, match="pipe"):
        agent.send(Halt(""))


def test_full(ends: tuple[ProcessChannel, ProcessChannel]) -> None:
    _, job = ends
    with pytest.raises(BlockingIOError):
        for _ in range(100_000):
            job.send(Took())


@pytest.mark.parametrize("packet", [b"\xc1", b"\x93", os.urandom(50), b"\x81\xa1x\x01"], ids=range(4))
def test_anything_else_is_refused(ends: tuple[ProcessChannel, ProcessChannel], packet: bytes) -> None:
    agent, job = ends
    job.sock.send(packet)
    with pytest.raises(ProtocolError):
        agent.receive()


def test_operations_of_the_other_direction_are_refused(ends: tuple[ProcessChannel, ProcessChannel]) -> None:
    agent, job = ends
    job.send(Halt("you"))
    with pytest.raises(ProtocolError, match="'Halt' is not allowed here"):
        agent.receive()

"""A question of a driver, a file as an agent sends it, and what somebody is told."""

from __future__ import annotations

import hashlib

from network import VERSION
from network.session import Session
from network.transport import wait_sockets
from rpc.agent.checks import python_version
from rpc.messages import CanCommit, FileBegin, FileChunk, FileEnd, Operation, parse


def question(job: str = "job", blas_threads: int = 1) -> CanCommit:
    """To an agent, with a job's least."""
    return CanCommit(job, "title", 0, [], 0, python_version(), VERSION, blas_threads, 1, 10.0, 60.0)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def file(name: str, data: bytes = b"x", chunks: int = 1) -> list[Operation]:
    step = -(-len(data) // chunks) or 1
    parts = [FileChunk(data[i : i + step]) for i in range(0, len(data), step)]
    return [FileBegin(name, len(data)), *parts, FileEnd(sha(data))]


def heard(session: Session, *kinds: type[Operation]) -> Operation:
    """The next that the other side says; one write of some hundred bytes comes as a whole."""
    message = session.take()
    if message is None:
        wait_sockets([session.link], [], 5.0)
        session.receive()
        message = session.take()
    assert message is not None
    return parse(message.value, kinds)

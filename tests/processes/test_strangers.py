"""Whoever has no key, or the wrong one, gets nothing done; and the jobs of the others go on."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import select
import signal
import socket
import struct
import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from psgd import cli

import msgpack
import pytest

from network.dial import Target, dial
from network.errors import NetworkError
from network.handshake import ClientHandshake
from network.hello import Hint, Refused
from network.key_files import load_key_file
from network.keys import Key, new_key
from network.nodes import Address
from network.session import Session
from network.transport import wait_sockets
from network.wire import Kind, pack
from rpc import Coordinator
from rpc import messages as m
from rpc.agent.checks import python_version
from rpc.agent.supervisor import MOST_UNTAKEN
from rpc.liveness.heartbeat import process_status
from rpc.messages import FROM_AGENT, FROM_SUBMITTER, CanCommit, ListJobs, Load, Operation
from rpc.support.identity import peer_key, process_name

from ..statements import covers
from .executors import Stepping, Sum
from .harness import LIMIT, Cluster, wait_for

ORDER = CanCommit("stolen", "stolen", 0, [0], 0, python_version(), "1.1.0", 1, 1, 5.0, 5.0)
OPERATIONS: tuple[Operation, ...] = (
    ORDER,
    m.Abort("", "x"),
    m.Stop("", "x"),
    m.StopNode("", 0, "x"),
    m.Lose("", 0, "x"),
    m.Suspect("", 0, 1.0),
    m.Subscribe(""),
    ListJobs(),
    m.Fetch(""),
    m.Examine("", 0),
    m.Tail("", 0, {}),
    m.KeepManifest("", 0, 0, 0, "Node(0)/0123456789abcdef", 0, "0f" * 32, 1, "parallel_sgd.driver.standby", ""),
    m.ManifestPart("", 0, b"x"),
    m.ClaimJob("", 0, "Node(0)/0123456789abcdef", "0f" * 32, 1),
    m.ProposeAttempt("", 0, "Node(0)/0123456789abcdef", 1, 1, ""),
    m.Conclude("", 0, "done", "", ""),
    m.Inspect(),
    m.Ping(b"x"),
    m.Measure("127.0.0.1:1"),
)


class Evil:
    """Unpickled, it leaves a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


def frame(operation: Operation) -> bytes:
    return b"".join(pack(Kind.MESSAGE, (), operation.to_value()).buffers())


def hostile_bytes(marker: Path, key_id: Key, job: str) -> Iterator[bytes]:
    """An endless stream of things to say to a port."""
    chance = random.Random(36)
    hello = ClientHandshake(key_id, "submitter", "agent").start()
    to_job = ClientHandshake(key_id, "peer", "peer", job).start()
    tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)  # the beginning of a ClientHello
    fixed = [
        pickle.dumps(Evil(marker)),
        b"\x80\x04" + pickle.dumps(Evil(marker), 2),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        tls,
        msgpack.packb({"op": "CanCommit", "job": "x"}),
        struct.pack("!Q", 1 << 40) + b"x" * 100,
        b"",
        b"PSGD",
        b"PSGD\xff\xff" + b"\xc1" * 2000,
        *[frame(operation) for operation in OPERATIONS],
    ]
    while True:
        yield from fixed
        for whole in (hello, to_job):
            yield whole[: chance.randrange(len(whole))]
            altered = bytearray(whole)
            altered[chance.randrange(len(altered))] ^= 1 << chance.randrange(8)
            yield bytes(altered)
            yield whole + chance.randbytes(32) + frame(ORDER)
        yield chance.randbytes(chance.randrange(1, 3000))


@covers("SUB-36", "SEC-1")
def test_hostile_connections_while_a_job_runs(trio: Cluster, tmp_path: Path) -> None:
    """400 hostile connections: no file, no process, no crash; the job goes on, and the next one begins."""
    marker = tmp_path / "marker"
    with trio.running(Stepping, tmp_path) as coordinator:
        before = [agent.job_pids() for agent in trio.agents]
        address = trio.agents[0].address
        shown = load_key_file(trio.key_file).offered
        stream = hostile_bytes(marker, shown, process_name(coordinator.job, 0))
        held: list[socket.socket] = []
        for number in range(400):
            visitor = socket.create_connection(address, LIMIT)
            with contextlib.suppress(OSError):
                visitor.sendall(next(stream))
                if number % 3 == 0:
                    visitor.shutdown(socket.SHUT_WR)
            held.append(visitor)
            if len(held) > 40:
                held.pop(0).close()
        for visitor in held:
            visitor.close()
        assert [agent.job_pids() for agent in trio.agents] == before and all(len(pids) == 1 for pids in before)
        assert not marker.exists()
    assert {state for state, _ in coordinator.failures.values()} == {"stopped"}
    assert not (trio.agents[0].work / "jobs" / "stolen.0").exists()
    assert not trio.run(Sum, tmp_path).error
    assert "Traceback" not in trio.agents[0].console


def await_end(session: Session, limit: float = LIMIT) -> bool:
    """Whether the other side hangs up in time."""
    deadline = time.monotonic() + limit
    while session.lost is None and time.monotonic() < deadline:
        wait_sockets([session.link], [], 0.1)  # type: ignore[list-item]
        session.receive()
    return session.lost is not None


def until_closed(connection: socket.socket) -> bytes:
    """Everything the agent still says before it hangs up."""
    connection.settimeout(LIMIT)
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(4096):
            said += data
    return said


@covers("SEC-2")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: type(operation).__name__)
def test_operations_without_key(trio: Cluster, operation: Operation) -> None:
    """Every operation, before and after each message of the handshake: closed, audited, nothing done."""
    assert {type(o) for o in OPERATIONS} == set(FROM_SUBMITTER)
    agent = trio.agents[0]
    jobs = set((agent.work / "jobs").iterdir())
    hello = ClientHandshake(load_key_file(trio.key_file).offered, "submitter", "agent").start()
    for opening in (frame(operation), hello[:20] + frame(operation), hello + frame(operation)):
        with socket.create_connection(agent.address, LIMIT) as connection:
            connection.sendall(opening)
            with contextlib.suppress(OSError):  # it may have hung up already
                connection.shutdown(socket.SHUT_WR)
            said = until_closed(connection)
            assert len(said) < 1100  # a REPLY at most
            assert not any(answer.__name__.encode() in said for answer in FROM_AGENT)
    assert set((agent.work / "jobs").iterdir()) <= jobs  # an old one may be removed
    assert not agent.job_pids()
    assert '"turned away"' in (agent.work / "audit.jsonl").read_text()


@covers("SEC-2")
def test_wrong_key(trio: Cluster) -> None:
    """a wrong key is refused with a hint."""
    with pytest.raises(NetworkError, match="wrong key"):
        dial(Target(trio.agents[0].address, new_key(), "submitter", "agent"))
    with pytest.raises(NetworkError, match="role"):
        dial(Target(trio.agents[0].address, load_key_file(trio.key_file).offered, "peer", "agent"))


@covers("SEC-11", "SEC-21")
def test_peer_that_plays_submitter(trio: Cluster, tmp_path: Path) -> None:
    """The key of a pair opens the session of that pair only; operations sent there do nothing; wrong node, attempt or
    key is refused, and so are ids of no node of the job, SEC-21."""
    with trio.running(Stepping, tmp_path) as coordinator:
        cluster, code_key = load_key_file(trio.key_file).offered, coordinator._messages.code_keys[0]
        keys = {node: peer_key(cluster, coordinator.job, 0, node) for node in (-1, 0, 1, 2, 9)}
        address, job = trio.agents[0].address, process_name(coordinator.job, 0)

        def target(key: Key, role: str, **caps: int) -> Target:
            return Target(address, key, role, "peer", job, 0, dict(caps))

        for key, role in ((keys[1], "code"), (keys[1], "submitter"), (code_key, "peer"), (new_key(), "peer")):
            with pytest.raises(NetworkError):
                dial(target(key, role, node=1, attempt=0))
        others = peer_key(cluster, coordinator.job, 1, 2), peer_key(cluster, "another job", 0, 1)
        for key, node in ((others[0], 1), (others[0], 2), (others[1], 1), (keys[0], 0), (keys[9], 8)):
            with pytest.raises(NetworkError, match=r"wrong key|role"):
                dial(target(key, "peer", node=node, attempt=0))
        for node, attempt in ((1, 0), (2, 0), (2, 1), (9, 0), (-1, 0)):  # both have called; ids that no roster names
            assert hung_up_on(target(keys[node], "peer", node=node, attempt=attempt)), (node, attempt)
        assert hung_up_on(target(code_key, "code"))  # the submitter's own session came first
        with pytest.raises(NetworkError, match=r"no job|role|wrong key"):
            dial(Target(Address(*address), keys[1], "submitter", "agent"))
    assert {state for state, _ in coordinator.failures.values()} == {"stopped"}
    assert "refused" in (trio.agents[0].work / "audit.jsonl").read_text()


@covers("SEC-5")
def test_another_release_is_told_to_install_the_same(
    own: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Too new, too old, and as version 1 says hello; over TCP, over the Unix socket, and where it asks for a process of a job;
    the user of a command reads it, too."""
    (agent,) = own.start(1)
    key = load_key_file(own.key_file).offered
    with own.running(Stepping, tmp_path) as coordinator:
        job = process_name(coordinator.job, 0)
        for family, where in ((socket.AF_INET, agent.address), (socket.AF_UNIX, str(agent.work / "agent.sock"))):
            for version, role, asked, binding in product((1, 3), ("submitter", "code"), ("", job), (b"", b"none")):
                handshake = ClientHandshake(key, role, "agent", asked, binding=binding, versions=(version, version))
                with socket.socket(family) as visitor:
                    visitor.settimeout(LIMIT)
                    visitor.connect(where)
                    visitor.sendall(handshake.start())
                    with pytest.raises(Refused) as caught:
                        handshake.feed(visitor.recv(100))
                assert caught.value.hint is Hint.VERSION
    assert "(VERSION)" in (agent.work / "audit.jsonl").read_text()
    monkeypatch.setattr("network.dial.ClientHandshake", partial(ClientHandshake, versions=(3, 3)))
    monkeypatch.setenv("PSGD_KEY_FILE", str(own.key_file))
    (nodes := tmp_path / "worker.json").write_text(json.dumps({"Worker": [str(agent.address)]}))
    assert cli.main(["jobs", "--workers", str(nodes)]) == 4
    assert "does not speak protocol version 3; install the same release on both sides" in capsys.readouterr().err


@covers("SEC-11")
def test_operations_on_a_peer_session(trio: Cluster, tmp_path: Path) -> None:
    """What a peer sends is data, and no order."""
    with trio.running(Stepping, tmp_path, group=[1, 2]) as coordinator:
        key = peer_key(load_key_file(trio.key_file).offered, coordinator.job, 0, 1)
        job = process_name(coordinator.job, 1)
        session = dial(Target(trio.agents[1].address, key, "peer", "peer", job, 1, {"node": 0, "attempt": 0}))
        for operation in (*OPERATIONS, Load(b"", b"", {}, {})):
            session.queue(operation.to_value())
        assert session.send()
        wait_sockets([], [], 0.2)
        assert [len(agent.job_pids()) for agent in trio.agents] == [0, 1, 1]
        session.close()
    assert {state for state, _ in coordinator.failures.values()} == {"stopped"}
    assert not trio.run(Sum, tmp_path).error


def hung_up_on(target: Target) -> bool:
    """Whether the job process ends the session at once."""
    session = dial(target)
    ended = await_end(session)
    session.close()
    return ended


@covers("SEC-3")
def test_bad_operations_of_a_submitter(trio: Cluster, tmp_path: Path) -> None:
    """a key holder that breaks the protocol is hung up on; unknown fields, types and operations alike."""
    key = load_key_file(trio.key_file).offered
    good = ListJobs().to_value()
    for value in (
        {"op": "Exec"},
        {**good, "more": 1},
        {"op": "Fetch", "job": 7},
        ["ListJobs"],
        "x" * 1000,
        Load(b"", b"", {}, {}).to_value(),
    ):
        session = dial(Target(trio.agents[0].address, key, "submitter", "agent"))
        session.queue(value)
        session.send()
        assert await_end(session) and not session.inbox
        session.close()
    assert not trio.run(Sum, tmp_path).error


@covers("SEC-9")
def test_idlers_do_not_lock_the_door(trio: Cluster, tmp_path: Path) -> None:
    """With a hundred silent connections held open a job still goes through."""
    with contextlib.ExitStack() as held:
        for agent in trio.agents:
            for _ in range(100):
                held.enter_context(socket.create_connection(agent.address, LIMIT))
        assert not trio.run(Sum, tmp_path).error


@covers("SEC-9")
def test_stopped_job_process_does_not_hold_back_others(own: Cluster, tmp_path: Path) -> None:
    """Visitors for a job process that hangs wait there, as many as fit, and more are told; the agent serves everybody else."""
    (agent,) = own.start(1, "--slots", "2")
    with own.running(Stepping, tmp_path / "hung") as coordinator:
        (pid,) = agent.job_pids()
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: process_status(pid).is_stopped, "the process to stand still")
        job = process_name(coordinator.job, 0)
        key = peer_key(load_key_file(own.key_file).offered, coordinator.job, 0, 1)
        hello = ClientHandshake(key, "peer", "peer", job, {"node": 1}).start()
        with contextlib.ExitStack() as held:
            visitors = []
            for _ in range(100):
                visitors.append(held.enter_context(socket.create_connection(agent.address, LIMIT)))
                visitors[-1].sendall(hello)
            assert not own.run(Sum, tmp_path / "other").error
            deadline = time.monotonic() + LIMIT
            # the last of them may be on their way to the agent
            while len(answered := select.select(visitors, [], [], 0.1)[0]) < 100 - MOST_UNTAKEN:
                assert time.monotonic() < deadline
            assert {visitor.recv(2) for visitor in answered} == {bytes([Hint.FULL])}
            assert len(visitors) - len(answered) == MOST_UNTAKEN
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: not agent.job_pids(), "the job to end")


def test_no_coordinator_without_agents(tmp_path: Path, trio: Cluster) -> None:
    """A group must be nodes of the connection."""
    with trio.request() as com, pytest.raises(ValueError, match="must be nodes of this connection"):
        Coordinator(com, directory=tmp_path).submit_group(Sum, [7])

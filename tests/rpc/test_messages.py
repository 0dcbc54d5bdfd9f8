"""Every operation crosses the wire unchanged, also between an agent and a job process, and nothing else gets through."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import msgpack
import numpy as np
import pytest

from network.budget import OBJECT_BYTES
from network.errors import ProtocolError
from network.values import decode, encode
from network.wire import unpack
from rpc import messages as m
from rpc.agent.checks import MOST_NODES
from rpc.process_channel import ProcessChannel, make_channel
from tests.network.wires import talk

from ..statements import covers

KEY = bytes(32)
EXAMPLES: list[m.Operation] = [
    m.CanCommit("job", "title", 0, [0, 1], 0, "3.11", "1.0", 1, 2, 68.0, 60.0),
    m.Abort("job", "why"),
    m.Stop("job", "why"),
    m.StopNode("job", 3, "why"),
    m.Lose("job", 1, "why"),
    m.Subscribe(""),
    m.ListJobs(),
    m.Fetch("job"),
    m.KeepManifest("job", 0, 1, 4, "Node(0)/0123456789abcdef", 2, "0f" * 32, 1 << 30, "parallel_sgd.driver.standby", "{}"),
    m.ManifestPart("job", 0, b"x" * 10_000),
    m.ClaimJob("job", -2, "The submitter/0123456789abcdef", "0f" * 32, 4),
    m.ProposeAttempt("job", -2, "The submitter/0123456789abcdef", 4, 2, "{}"),
    m.Conclude("job", 0, "failed", "why", "[]"),
    m.Examine("job", -2),
    m.Tail("job", 0, {"TR.csv": [7, 1 << 40]}, {"TR": [1 << 14, 16]}),
    m.Suspect("job", 1, 2.5),
    m.Inspect(),
    m.Ping(b"x" * 10_000),
    m.Measure("10.0.0.1:15387"),
    m.AgentStatus("0f" * 16, "host", "name", "1.0", "3.11", "/path", 2, 1, "/work", 1 << 40, "full"),
    m.Pong("0f" * 16, 1.5, 2.5, False),
    m.Measured("10.0.0.1:15387", "why", "0f" * 16, 0.5, -1.5, 0.25, 1e9, True),
    m.Accepted("job", -2, "host", 1, "/path", "1.0"),
    m.Refused("job", 0, "busy", 1.5),
    m.State("job", 0, "aborted", ""),
    m.Progress("job", 0, 100),
    m.Remark("job", 0, "./TR.csv cannot be written: No space left on device."),
    m.Heartbeat("job", 0, 1, "host", 4711, "step", 3, 17, 0.5, 0.25, 10.0),
    m.Notice("job", 0, 0, "warned", "step", 3, 17, 5.5),
    m.Verdict("job", 0, 0, "stuck", "host", 4711, "step", 3, 17, 10.5, "detail", -1, 0, "stack", ["last line"]),
    m.Jobs([{"job": "a", "node": 0, "started": 1.5, "nodes": [0, 1]}]),
    m.FileBegin("EV.csv", 1 << 40),
    m.FileChunk(b"x" * 10_000),
    m.FileEnd("0f" * 32),
    m.FetchEnd("job", "done", "", "title"),
    m.Tailed("job", 0, {"TR.csv": [7, 0]}, {"TR.csv": b"x" * 10_000}),
    m.ManifestKept("job", 0, False),
    m.Granted("job", 0, -1, 0, False, "", 0, -1, "", 4, "living", 1, "running", ""),
    m.Agreed("job", 0, 4, 2),
    m.Denied("job", 0, 1, 3, True, "{}", 3, 1, "{}", 4, False, "why", ""),
    m.Halted("job", "why"),
    m.Standing("job", 0, 1, 4, "Node(0)", "", ""),
    m.Begin("job", "title", -2, [-2], 0, KEY, {0: KEY, 1: KEY}, 68.0, 60.0, "/cache", "any"),
    m.Visitor(b"PSGD", 4.5, "127.0.0.1:9", 3, KEY),
    m.Halt("why"),
    m.Took(),
    m.Reached("done", "", ["a", "b"]),
    m.Advanced(0),
    m.Warned("./TR.csv is written again.", True),
    m.SecurityEvent("refused", "detail"),
    m.Load(b"objects", b"code", {0: ["a:1", "host", ""], -2: ["b:1", "", ""]}, {"codecs": "import nn"}),
    m.Loaded("1.0"),
    m.Asks(["data"]),
    m.Answers([None, {"x": (1, 2)}]),
    m.Prepared(),
    m.DoCommit(),
]
ROLES = {
    name: getattr(m, name)
    for name in ("FROM_SUBMITTER", "FROM_AGENT", "TO_JOB_PROCESS", "FROM_JOB_PROCESS", "CODE_TO_JOB", "CODE_FROM_JOB")
}
ROLES["peer"] = ()  # what job processes have among each other submits nothing
ALL = tuple(operation for role in ROLES.values() for operation in role)


def name_of(operation: m.Operation) -> str:
    return type(operation).__name__


def leaves(cls: type[m.Operation]) -> list[type[m.Operation]]:
    """The operations that derive from `cls`, without what several have in common."""
    return [leaf for below in cls.__subclasses__() for leaf in leaves(below)] or [cls]


def test_every_operation_has_an_example_and_a_role() -> None:
    ours = [cls for cls in leaves(m.Operation) if cls.__module__.startswith("rpc.")]
    assert sorted(map(name_of, EXAMPLES)) == sorted(cls.__name__ for cls in ours)
    assert len(ALL) - 2 == len(set(ALL)) == len(EXAMPLES)  # Lose and Suspect are passed on to job processes


@covers("SEC-2", "SEC-3", "SEC-11")
@pytest.mark.parametrize("operation", EXAMPLES, ids=name_of)
def test_round_trip_by_role(operation: m.Operation) -> None:
    """Of all roles and operations exactly the allow-list passes."""
    tree, arrays = encode(operation.to_value())
    value = decode(unpack(msgpack.packb(tree)), list(map(np.asarray, arrays)))
    assert m.parse(value, ALL) == operation
    for role in ROLES.values():
        if type(operation) in role:
            assert m.parse(value, role) == operation
        else:
            with pytest.raises(ProtocolError, match=f"'{name_of(operation)}' is not allowed here"):
                m.parse(value, role)


FOREIGN: list[Any] = [
    None, True, -3, 1 << 20, 1 << 63, 10**400, float("nan"), float("inf"), "", "x" * (m.MAX_TEXT + 1), b"", bytes(31),
    [], [None], [1.5], ["a"], (), (0,), {}, {1: 2}, {"a": []}, {0: ["a", "b"]}, {0.5: ["a", "b", "c"]}, object(), int,
]  # fmt: skip
EMPTY = {str: "", bytes: b"", list: [], dict: {}}


@pytest.mark.parametrize("operation", EXAMPLES, ids=name_of)
def test_schema_table(operation: m.Operation) -> None:
    """Each field refuses every value of another type, and is named; it can neither be left out nor doubled by another."""
    value = operation.to_value()
    for field in value.keys() - {"op"}:
        for foreign in FOREIGN:
            if isinstance(operation, m.Answers) and type(foreign) is list:
                continue  # the contents of answers are any data
            if type(foreign) is type(value[field]) or (type(foreign) is int and type(value[field]) is float):
                plausible = type(foreign) in (*EMPTY, bool) or (type(foreign) is int and -(1 << 63) <= foreign < 1 << 63)
                if plausible and foreign not in ("x" * (m.MAX_TEXT + 1),):
                    continue  # of the right type: ranges are tested below
            with pytest.raises(ProtocolError, match=f"'{field}' of the operation {name_of(operation)} must be"):
                m.parse({**value, field: foreign}, ALL)
        for broken in ({k: v for k, v in value.items() if k != field}, {**value, "another": 1}, {**value, 1: 1}):
            with pytest.raises(ProtocolError, match="missing or unknown fields"):
                m.parse(broken, ALL)


RANGES: dict[type[m.Operation], dict[str, list[Any]]] = {
    m.CanCommit: {"node": [-3, 1 << 20], "group": [[0, -3]], "attempt": [-1], "others": [[-3]], "start_limit": [10**400]},
    m.Begin: {"code_key": [bytes(31)], "peer_keys": [{0: bytes(33)}, {-3: KEY}]},
    m.Visitor: {"caller": [True], "key": [bytes(33)], "hello": [bytes(1025)], "seconds": [float("nan")]},
    m.Refused: {"busy_since": [-(10**400), float("-inf")]},
    m.Progress: {"percent": [101, -1, 10**300]},
    m.Advanced: {"percent": [101]},
    m.Remark: {"text": ["x" * 501], "over": [1]},
    m.Warned: {"text": ["x" * 501]},
    m.State: {"state": ["finished", "running\n"]},
    m.Reached: {"state": ["starting", "aborted"], "files": [["a", 1]]},
    m.FileBegin: {"size": [-1, 1 << 53]},
    m.FileEnd: {"sha256": ["0F" * 32, "0f" * 32 + "\n", "0f" * 31]},
    m.Load: {"roster": [{0: ["a", "b"]}, {-3: ["a", "b", "c"]}]},
    m.Jobs: {"entries": [[{"job": None}], [{1: "a"}]]},
    m.Answers: {"contents": [(1,)]},
    m.Ping: {"data": [bytes((1 << 20) + 1)]},
    m.Measure: {"address": ["", "x" * 301]},
    m.Pong: {"instance": ["0f" * 15, "0F" * 16], "sent": [float("nan")]},
}


@pytest.mark.parametrize("operation", RANGES, ids=lambda operation: operation.__name__)
def test_ranges(operation: type[m.Operation]) -> None:
    example = next(e for e in EXAMPLES if type(e) is operation)
    for field, values in RANGES[operation].items():
        for value in values:
            with pytest.raises(ProtocolError, match=f"'{field}' of the operation {operation.__name__} must be"):
                m.parse({**example.to_value(), field: value}, ALL)


@covers("SEC-17")
def test_no_operation_at_all() -> None:
    """An unknown name is cut and shown escaped."""
    for value in (None, 5, "Abort", [], {}, {"op": 1}, {"op": None}, {"op": b"Abort"}, ("op", "Abort"), {1: 2}):
        with pytest.raises(ProtocolError, match="no operation"):
            m.parse(value, ALL)
    for name in ("", "abort", "Operation", "Abort ", "__class__", "submit", "\x1b[2J" * 1000):
        with pytest.raises(ProtocolError, match="is not allowed here") as caught:
            m.parse({"op": name}, ALL)
        assert len(str(caught.value)) < 400 and str(caught.value).isprintable()


@covers("SUB-36")
def test_operations_of_a_session() -> None:
    """What is allowed comes in order, also before what is not; whoever sends that is hung up on."""
    with talk() as (ours, theirs, _):
        theirs.queue(m.ListJobs().to_value())
        theirs.queue(m.Fetch("job").to_value())
        theirs.send()
        assert list(m.operations(ours, m.FROM_SUBMITTER)) == [m.ListJobs(), m.Fetch("job")]
        assert list(m.operations(ours, m.FROM_SUBMITTER)) == [] and ours.alive
        ours.queue(m.Jobs([]).to_value())
        assert list(m.operations(ours, m.FROM_SUBMITTER)) == [] and not ours.pending_bytes  # what is in line goes out, too
        theirs.queue(m.Fetch("job").to_value())
        theirs.queue(m.Took().to_value())
        theirs.send()
        found = m.operations(ours, m.FROM_SUBMITTER)
        assert next(found) == m.Fetch("job")
        with pytest.raises(ProtocolError, match="'Took' is not allowed here"):
            next(found)
        assert not ours.alive


@covers("SUB-36")
def test_operations_are_small_unless_their_receiver_expects_more() -> None:
    """What becomes more objects than a role may send is refused before it is made."""
    state = m.Jobs([{"node": 1}] * 20_000)
    with talk() as (ours, theirs, _):
        for _ in range(2):
            theirs.queue(state.to_value())
        while not theirs.send():
            ours.receive()
        assert next(m.operations(ours, (m.Jobs,), OBJECT_BYTES)) == state
        with pytest.raises(ProtocolError):
            next(m.operations(ours, (m.Jobs,)))


Ends = tuple[ProcessChannel, ProcessChannel]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Of the agent, and of its job process."""
    ours, theirs = make_channel()
    agent, job = ProcessChannel(ours, m.FROM_JOB_PROCESS), ProcessChannel(theirs, m.TO_JOB_PROCESS)
    yield agent, job
    agent.close()
    job.close()


def test_operations_and_connections_travel_to_a_job_process(ends: Ends) -> None:
    """In order. The keys of the largest job, with the longest ids, go in one packet, which the process takes in whole."""
    agent, job = ends
    for percent in range(5):
        job.send(m.Advanced(percent))
    assert [agent.receive() for _ in range(5)] == [(m.Advanced(percent), None) for percent in range(5)]
    with pytest.raises(BlockingIOError):
        agent.receive()
    near, far = socket.socketpair()
    with near, far:
        agent.send(m.Visitor(b"hello", 5.0, "somewhere"), far.fileno())
        operation, connection = job.receive() or (None, None)
        assert operation == m.Visitor(b"hello", 5.0, "somewhere") and connection is not None
        with connection:
            assert not os.get_inheritable(connection.fileno())
            near.sendall(b"through")
            assert connection.recv(10) == b"through"
    nodes = range((1 << 20) - MOST_NODES, 1 << 20)
    keys = {node: os.urandom(32) for node in nodes[1:]}
    long = "/" * 1000
    begin = m.Begin("j" * 48, "t" * 128, nodes[0], list(nodes), 0, os.urandom(32), keys, 1.0, 1.0, long, long)
    agent.send(begin)
    assert job.receive() == (begin, None)
    with pytest.raises(BlockingIOError):
        for _ in range(100_000):
            job.send(m.Took())


def test_last_words_of_one_that_did_not_listen(ends: Ends) -> None:
    """The kernel reports the unread order first; what the process had said before its end must not be lost over that."""
    agent, job = ends
    agent.send(m.Halt("now"))
    job.send(m.Reached("done", "", ["result.psgd"]))
    job.close()
    assert agent.receive() == (m.Reached("done", "", ["result.psgd"]), None) and agent.receive() is None
    with pytest.raises(OSError, match="pipe"):
        agent.send(m.Halt(""))


def test_anything_else_is_refused(ends: Ends) -> None:
    agent, job = ends
    for packet in (b"\xc1", b"\x93", os.urandom(50), b"\x81\xa1x\x01"):
        job.sock.send(packet)
        with pytest.raises(ProtocolError):
            agent.receive()
    job.send(m.Halt("you"))  # of the other direction
    with pytest.raises(ProtocolError, match="'Halt' is not allowed here"):
        agent.receive()

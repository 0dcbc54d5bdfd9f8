"""An agent before its first job: where it listens, what it finds wrong with an order, and which children are its own."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from network import VERSION, transport
from network.dial import Target, dial
from network.keys import Keyring, new_key
from network.session import Session
from network.transport import wait_sockets
from rpc.agent import children, server
from rpc.agent.agent import Agent
from rpc.agent.checks import MOST_NODES, objection, python_version
from rpc.agent.children import project_root
from rpc.agent.settings import AgentSettings
from rpc.agent.store import JobRecord
from rpc.liveness.limits import LEAST_SILENCE, MOST_SECONDS
from rpc.messages import FROM_AGENT, CanCommit, Jobs, ListJobs, Operation, State, Subscribe, operations

from ...statements import covers


def agent(work: Path, listen: str = "127.0.0.1") -> contextlib.closing[Agent]:
    return contextlib.closing(Agent(AgentSettings(listen, 0, work_dir=str(work), keyring=Keyring((new_key(),)))))


@pytest.mark.parametrize(
    ("number", "is_told"),
    [(errno.EACCES, True), (errno.EMFILE, True), (errno.EAFNOSUPPORT, False), (errno.EADDRNOTAVAIL, False)],
)
def test_why_it_does_not_listen_on_ipv6(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int, is_told: bool
) -> None:
    """A warning says it, but for a machine without IPv6, where nobody expects it."""
    make = socket.socket

    def refusing(family: int = -1, *arguments: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(number, os.strerror(number))
        return make(family, *arguments)

    monkeypatch.setattr(transport.socket, "socket", refusing)
    with agent(tmp_path / "work") as made:
        told = f"Cannot listen on [::1]:{made.address.port}: {os.strerror(number)}. Who calls this worker by a name"
        assert any(message.startswith(told) for message in caplog.messages) == is_told


@pytest.mark.parametrize(
    ("name", "hosts", "is_told"),
    [
        ("my-host", ["127.0.1.1"], True),
        ("my-host", ["127.0.0.1", "::1"], True),
        ("my-host", ["127.0.0.1", "0.0.0.0"], False),
        ("localhost", ["127.0.0.1", "127.0.0.2"], False),
    ],
)
def test_a_name_that_only_this_machine_reaches_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    hosts: list[str],
    is_told: bool,
) -> None:
    """As /etc/hosts of Debian has it for the machine's own name. All addresses of a name are listened on."""
    look_up = socket.getaddrinfo

    def known(host: str, port: int, *more: Any, **named: Any) -> Any:
        found = [look_up(each, port, *more, **named) for each in (hosts if host == name else [host])]
        return [each for infos in found for each in infos]

    monkeypatch.setattr(socket, "getaddrinfo", known)
    with agent(tmp_path / "work", name) as made:
        told = f"{name} means {' and '.join(hosts)} on this machine (see /etc/hosts), so no other machine reaches this worker."
        assert any(message.startswith(told) for message in caplog.messages) == is_told
        for host in hosts if "0.0.0.0" not in hosts else ():
            socket.create_connection((host, made.address.port)).close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_both_families_at_once(tmp_path: Path, host: str) -> None:
    """An agent that listens on `::` is reached by addresses of IPv4, too."""
    with agent(tmp_path / "work", "::") as made:
        assert str(made.address) == f"[::]:{made.address.port}"
        socket.create_connection((host, made.address.port)).close()


def asked(session: Session, question: Operation) -> Operation:
    """What the agent answers within a minute."""
    session.queue(question.to_value())
    deadline = time.monotonic() + 60
    while session.alive and time.monotonic() < deadline:
        for answer in operations(session, FROM_AGENT):
            return answer
        wait_sockets([session.link], [session.link] if session.pending_bytes else [], 1.0)  # type: ignore[list-item]
    raise AssertionError(session.lost or "no answer")


def test_idle_sessions_give_way_to_who_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that asked for nothing for the longest go first, never one that watches a job; where all do, none comes in."""
    monkeypatch.setattr(server, "MOST_SESSIONS", 8)
    key, work = new_key(), tmp_path / "work"
    record = JobRecord("job", 0, "title", "done")
    folder = work / "jobs" / record.name
    work.mkdir(mode=0o700)
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps(asdict(record)))
    made = Agent(AgentSettings(port=0, work_dir=str(work), keyring=Keyring((key,))))
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    with contextlib.ExitStack() as at_end:
        at_end.callback(made.close)
        at_end.callback(thread.join)
        at_end.callback(made.stop)

        def call() -> Session:
            session = dial(Target(made.address, key, "submitter", "agent"), 60)
            at_end.callback(session.close)
            return session

        watching = call()
        assert asked(watching, Subscribe("job")) == State("job", 0, "done", "")
        idle = [call() for _ in range(7)]
        assert isinstance(asked(idle[0], ListJobs()), Jobs)
        callers = [call() for _ in range(6)]
        for session in (watching, idle[0], *callers):
            assert isinstance(asked(session, ListJobs()), Jobs)
        for session in idle[1:]:
            wait_sockets([session.link], [], 60)  # type: ignore[list-item]
            session.receive()
            assert not session.alive
        for session in (idle[0], *callers):
            assert isinstance(asked(session, Subscribe("job")), State)
        refused = call()
        with pytest.raises(AssertionError, match="lost"):
            asked(refused, ListJobs())
        assert isinstance(asked(watching, ListJobs()), Jobs)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder in which a Unix socket has room for its name."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("name", "has_runtime", "expected"),
    [("w", True, ["w"]), ("w", False, ["w"]), ("w" * 100, True, ["r"]), ("w" * 100, False, [])],
)
def test_where_its_unix_socket_is(
    short: Path, monkeypatch: pytest.MonkeyPatch, name: str, has_runtime: bool, expected: list[str]
) -> None:
    """In the work directory; where its path is too long for a socket in the user's own folder for such, if there is one."""
    (short / "r").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short / "r") if has_runtime else "")
    with agent(short / name):
        assert [path.relative_to(short).parts[0] for path in short.rglob("*") if path.is_socket()] == expected
    assert not [path for path in short.rglob("*") if path.is_socket()]
    assert list((short / "r").iterdir()) == []


ORDER = CanCommit("20261120-173000-9f86d081", "title", 0, [0, 1], 0, python_version(), VERSION, 1, 1, 5.0, 5.0)


@covers("FD-6", "FD-15")
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        # limits of silence are taken as they are given; 0 stands for the default
        ({}, ""),
        ({"stall": LEAST_SILENCE, "begin": 1.0, "between": 2.0, "save": MOST_SECONDS}, ""),
        *(
            ({name: limit}, f"the limit '{name}' of silence must be 0 or 0.1 to 86400 s, got {limit:g} s")
            for name in ("stall", "begin", "between", "save")
            for limit in (-1.0, LEAST_SILENCE / 2, 2 * MOST_SECONDS)
        ),
        ({"blas_threads": 10**6}, "'blas_threads' must be 0 to 4096, got 1000000"),
        ({"others": list(range(2, MOST_NODES + 1))}, "a job may have at most 2048 nodes, got 2049"),
        *(({"start_limit": limit}, f"a job may take at most 86400 s to start, got {limit:g} s") for limit in (0.0, math.nan)),
        (
            {"prepare_limit": 1e6},
            "a job may take at most 86400 s to get its data (its size by 'network_bandwidth'), got 1e+06 s",
        ),
    ],
)
def test_what_is_wrong_with_an_order(changed: dict[str, Any], words: str) -> None:
    assert objection(replace(ORDER, **changed)) == words


# a process of its own, whose only children are these
_PROGRAM = """
import subprocess, sys
from rpc.agent.children import ChildProcesses
before = subprocess.Popen(["sleep", "60"])
mine = ChildProcesses(adopts=sys.argv[1] != "leaves")
own = mine.start(["sleep", "60"])
shell = ["sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!"]
orphan = int(subprocess.run(shell, stdout=subprocess.PIPE, text=True).stdout)
if sys.argv[1] == "gives up":
    mine.give_up({orphan})
while mine.end_adopted():
    pass
sys.stdout.write(f"{before.poll()} {own.poll()} {orphan}")
for process in (before, own):
    process.kill()
    process.wait()
"""


@covers("SEC-25")
def test_all_children_of_an_agent_are_known_to_it() -> None:
    """a child that was started elsewhere would be taken for a job's, and killed with the next one."""
    folder = Path(children.__file__).parent
    starting = re.compile(r"Popen\(|os\.fork|os\.posix_spawn|subprocess\.(run|call)")
    assert [path.name for path in folder.glob("*.py") if starting.search(path.read_text())] == ["children.py"]


@covers("SEC-25")
@pytest.mark.processes
@pytest.mark.parametrize("how", ["adopts", "leaves", "gives up"])
def test_what_is_not_of_a_job_stays(how: str) -> None:
    """What a shell had started before it became the agent, and what the agent has started; in a program that is more
    than an agent, nothing is taken for a job's. What has been given up holds up no later job."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": project_root()}
    done = subprocess.run([sys.executable, "-c", _PROGRAM, how], env=environ, stdout=subprocess.PIPE, text=True, check=True)
    before, own, orphan = done.stdout.split()
    assert (before, own) == ("None", "None")
    assert Path(f"/proc/{orphan}").exists() != (how == "adopts")
    if how != "adopts":
        subprocess.run(["kill", orphan], check=True)

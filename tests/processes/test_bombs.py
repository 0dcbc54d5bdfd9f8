"""SEC-22: small messages that would become many objects, at every reader, measured where they arrive."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from network.dial import Target, dial
from network.key_files import create_key_file, load_key_file
from network.serve import Serve
from network.session import Session
from network.transport import wait_sockets
from rpc.agent.children import project_root

from .bombs import REFUSED, TAKEN, Bombed, JustSmallEnough, bomb, dishonest
from .executors import Sum
from .harness import LIMIT, Cluster, wait_for

MIB = 1 << 20
BUDGET = 64 * MIB
SLACK = 12 * MIB  # what the interpreter adds: blocks of its allocator, buffers of sockets


def allowed(wire: int) -> int:
    return 3 * wire + BUDGET + SLACK


def drive(session: Session, frame: bytes, times: int) -> None:
    """Send until all is out or the other side hangs up."""
    with dishonest():
        deadline = time.monotonic() + LIMIT
        for _ in range(times):
            if session.lost is not None:
                return
            session.queue(frame)
            while not session.send() and session.lost is None:
                assert time.monotonic() < deadline
                wait_sockets([session.link], [session.link], 1.0)  # type: ignore[list-item]
                session.receive()


def peak_of(pid: int) -> int:
    """Most memory that the process has had, so far."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


@pytest.mark.parametrize("lists", [REFUSED, TAKEN])
def test_an_agent(trio: Cluster, tmp_path: Path, lists: int) -> None:
    """What is no small operation is not even opened; the next job runs."""
    agent = trio.agents[0]
    audit, words = agent.work / "audit.jsonl", "bytes of objects, which is the limit"
    earlier = audit.read_text().count(words) if audit.exists() else 0
    before = peak_of(agent.pid)
    key = load_key_file(trio.key_file).offered
    session = dial(Target(agent.address, key, "submitter", "agent"))
    drive(session, bomb(lists), 58)
    while session.lost is None:
        wait_sockets([session.link], [], 5.0)  # type: ignore[list-item]
        session.receive()
    session.close()
    assert peak_of(agent.pid) - before < allowed(4 * MIB)
    wait_for(lambda: audit.read_text().count(words) == earlier + 1, "the audit log to tell why")
    assert trio.run(Sum, tmp_path).results


def test_a_job_process(trio: Cluster, tmp_path: Path) -> None:
    """One peer sends 58 MiB of bombs, each second one as a part of a group operation that never comes."""
    outcome = trio.run(Bombed, tmp_path, nodes=trio.nodes(2))
    grown, taken, error = outcome.results[0]
    assert grown < allowed(58 * MIB) and taken == 0
    assert re.match(
        r"Node\(1\) at .* is lost: A message of 1048\d+ bytes would become more than .* of objects, which is", error
    )


@pytest.mark.long
def test_a_job_process_that_opens_them(trio: Cluster, tmp_path: Path) -> None:
    """Bombs that are just small enough: what is not asked for stays as it came."""
    outcome = trio.run(JustSmallEnough, tmp_path, nodes=trio.nodes(2))
    grown, taken, _ = outcome.results[0]
    assert taken == 10
    assert grown < allowed(20 * TAKEN)


SUBMITTER = """
import logging, resource, sys, time
from network.clock import SystemClock
from network import NodeAssignment, Request
from network.nodes import Address
from rpc.submit.connections import Connections

logging.basicConfig(stream=sys.stdout, format="%(message)s")
nodes = NodeAssignment(key_file=sys.argv[1])
nodes.add(0, Address.parse(sys.argv[2]))
with Request(sys.argv[1]).request(nodes) as com:
    lines = Connections(com, {0: "Node(0)"}, logging.getLogger(), SystemClock())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print("ready", flush=True)
    end = time.monotonic() + 120
    while not any(type(said).__name__ == "Gone" for said in lines.wait(1.0)) and time.monotonic() < end:
        pass
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
READER = """
import resource, sys
from pathlib import Path
from network.errors import ProtocolError
from parallel_sgd.elastic.job import StateFile
from parallel_sgd.driver.manifest import JobManifest
from rpc.support.files import read_result

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name in sys.argv[1:]:
    path = Path(name)
    plain = (lambda: read_result(path, ()), lambda: JobManifest.read(path))
    for read in (lambda: StateFile(path),) if path.suffix == ".state" else plain:
        try:
            read()
        except (ProtocolError, ValueError) as error:
            print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def in_child(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=project_root(),
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("lists", [REFUSED, TAKEN])
def test_a_submitter(tmp_path: Path, lists: int) -> None:
    """A worker sends 58 bombs in place of what an agent says."""
    create_key_file(tmp_path / "key")
    with Serve("127.0.0.1:0", tmp_path / "key") as serve:
        child = in_child(SUBMITTER, str(tmp_path / "key"), str(serve.address))
        with serve.acquire(LIMIT) as com:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
            drive(com.sessions[-1], bomb(lists), 58)
            said, grown = child.communicate(timeout=LIMIT)[0].splitlines()
    assert said.startswith("Node(0) broke the protocol: A message of ")
    assert said.endswith("bytes of objects, which is the limit: send numbers as arrays, or in parts")
    assert int(grown) << 10 < allowed(4 * MIB)


def test_files(tmp_path: Path) -> None:
    """24 MiB of messages where there should be one, and one that is too much; results, manifests and states of elastic jobs."""
    many, one = bomb(TAKEN) * 24, bomb(REFUSED)
    for name, content in (("many", many), ("one", one)):
        (tmp_path / name).write_bytes(content)
        (tmp_path / f"{name}.state").write_bytes(b"PSGD elastic state 1\n" + hashlib.sha256(content).digest() + content)
    names = [str(tmp_path / name) for name in ("many", "many.state", "one", "one.state")]
    *said, grown = in_child(READER, *names).communicate(timeout=LIMIT)[0].splitlines()
    assert ["more than one message" in line for line in said] == [True] * 3 + [False] * 3
    assert ["bytes of objects, which is the limit" in line for line in said] == [False] * 3 + [True] * 3
    assert int(grown) << 10 < allowed(24 * MIB)

"""The three phases with real processes: resources, limits, roll-back, and losses at every boundary."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from network import NodeAssignment
from network.faults import Proxy
from network.transport import wait_sockets
from rpc import Coordinator, ReplyPackage, SubmissionError
from rpc.agent.children import project_root
from rpc.liveness.limits import FIRST_PHASE_SECONDS
from rpc.submit.event_loop import EventLoop

from ..statements import covers
from .executors import Held, Hungry, NeverReady, Reporting, SlowEater, Stepping, Sum
from .harness import LIMIT, SLACK, AgentProcess, Cluster, start_job, wait_for

BLOCKED = 2.0  # seconds beyond a limit after which no node is taken any more
BUSY = BLOCKED + SLACK  # the same, while other tests run
DIGESTING = 30.0


@covers("SUB-5")
def test_resources(trio: Cluster, tmp_path: Path) -> None:
    """Every executor gets what it asks for, in its order; later requests may follow from earlier answers."""
    asked: list[tuple[int, str]] = []

    def reply(node: int, request: str) -> Any:
        asked.append((node, request))
        return ReplyPackage(f"{request} for {node}") if request == "first" else [node, request]

    outcome = trio.run(Hungry, tmp_path, reply=reply)
    assert outcome.results == {node: [f"first for {node}", [node, "second"]] for node in range(3)}
    assert sorted(asked) == [(node, request) for node in range(3) for request in ("first", "second")]


def test_nothing_starts_before_the_dispatch(trio: Cluster, tmp_path: Path) -> None:
    with trio.request() as com:
        with pytest.raises(ValueError, match=r"Coordinator 'title' must be able to stand in a file name .*, got '\.\./x'"):
            Coordinator(com, title="../x", directory=tmp_path)
        coordinator = Coordinator(com, directory=tmp_path)
        coordinator.submit_group(Stepping)
        wait_sockets([], [], 0.3)
        assert not [path for agent in trio.agents for path in agent.work.glob(f"jobs/{coordinator.job}.*/out/begun")]
        coordinator.resources_dispatch(lambda node, request: None)
        coordinator.stop_executing()
        coordinator.join()


@covers("SUB-6", "SUB-9")
def test_a_start_that_is_given_up_has_not_run(trio: Cluster, tmp_path: Path) -> None:
    """All have what they need, but one of them is heard of too late: its messages to the submitter take longer than the limit
    of preCommit. No executor starts, so the next attempt does not do any work twice."""
    nodes = NodeAssignment(key_file=trio.key_file)
    with Proxy() as proxy:
        for node, agent in enumerate(trio.agents[:2]):
            route = proxy.route(agent.address, selects=lambda hello: hello.role != "peer")
            assert route.address is not None
            nodes.add(node, route.address)
        with trio.request(nodes) as com:
            coordinator = Coordinator(com, directory=tmp_path)
            coordinator.submit_group(Stepping)
            (machine,) = coordinator._groups.machines
            wait_for(lambda: (coordinator.look_after(), len(machine._held) == 2)[1], "both to ask")
            route.back.delay(LIMIT)
            with pytest.raises(SubmissionError, match=r"Node\(1\) at .* did not finish preCommit in time"):
                coordinator.resources_dispatch(lambda node, request: None)
            wait_for(trio.is_free, "all nodes to be free", BUSY)
    assert not [path for agent in trio.agents for path in agent.work.glob(f"jobs/{coordinator.job}.*/out/begun")]
    assert not trio.run(Sum, tmp_path).error


@covers("SUB-6")
def test_pre_commit_limit(trio: Cluster, tmp_path: Path) -> None:
    """a worker that does not confirm within the limit, here of 4 s, is named, the submission abandoned, everybody free."""
    with trio.request() as com:
        coordinator = Coordinator(com, estimate_bandwidth=1.0, directory=tmp_path)
        coordinator.submit_group(SlowEater, package_size=1, objects={"seconds": DIGESTING})
        begin = time.monotonic()
        with pytest.raises(SubmissionError, match=r"Node\(1\) at .* did not finish preCommit in time") as caught:
            coordinator.resources_dispatch(lambda node, request: request)
        assert "Node(0)" not in str(caught.value) and "Node(2)" not in str(caught.value)
        assert 4.0 <= time.monotonic() - begin < DIGESTING / 2
        wait_for(trio.is_free, "all nodes to be free", BUSY)
    assert not trio.run(Sum, tmp_path).error


@covers("SUB-8")
def test_never_ready(trio: Cluster, tmp_path: Path) -> None:
    """When one node is never READY all roll back within the start limit, nobody has started, the next job works."""
    with trio.request() as com:
        begin = time.monotonic()
        with pytest.raises(SubmissionError, match="The job was not started") as caught:
            start_job(com, NeverReady, tmp_path, start_limit=1.0)
        assert 1.0 <= time.monotonic() - begin < FIRST_PHASE_SECONDS + BUSY
        assert "node 1" in str(caught.value).lower()
        wait_for(trio.is_free, "all nodes to be free", BUSY)
    assert not [path for agent in trio.agents for path in agent.work.glob("jobs/*/out/started")]
    assert not trio.run(Sum, tmp_path).error


@covers("SUB-9")
@pytest.mark.alone
def test_reply_that_raises(trio: Cluster, tmp_path: Path) -> None:
    """An error of the submitter's own program takes the job back everywhere and is what the caller sees."""

    def reply(node: int, request: str) -> Any:
        raise KeyError("no such resource")

    with trio.request() as com:
        with pytest.raises(KeyError, match="no such resource"):
            start_job(com, Hungry, tmp_path, reply=reply)
        wait_for(trio.is_free, "all nodes to be free", BLOCKED)


SUBMITTER = """
import os, signal, sys
import network, rpc
from network.nodes import Address
import rpc.submit.event_loop
from tests.processes.executors import Hungry

moment, key_file, folder, *addresses = sys.argv[1:]
nodes = network.NodeAssignment(key_file)
for number, address in enumerate(addresses):
    nodes.add(number, address)


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def mortal(self, node, operation, hear=rpc.submit.event_loop.EventLoop.hear):
    if type(operation).__name__ == moment:
        die()
    hear(self, node, operation)


def reply(node, request):
    if moment == request:
        die()
    return request


with network.Request().request(nodes) as com:
    if moment == "connected":
        die()
    rpc.submit.event_loop.EventLoop.hear = mortal
    coordinator = rpc.Coordinator(com, directory=folder)
    coordinator.submit_group(Hungry)
    if moment == "submitted":
        die()
    coordinator.resources_dispatch(reply)
sys.exit("the submitter has survived")
"""


@covers("SUB-9", "FLT-14")
def test_killed_submitter(trio: Cluster, tmp_path: Path) -> None:
    """The submitter dies at a message boundary of the three phases; the nodes take the job back within 2 s, and
    the next one at once."""
    environ = {**os.environ, "PYTHONPATH": project_root()}
    for moment in ("connected", "Accepted", "submitted", "first", "Prepared"):
        command = [sys.executable, "-c", SUBMITTER, moment, str(trio.key_file), str(tmp_path)]
        command += [str(agent.address) for agent in trio.agents]
        ended = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, timeout=LIMIT, check=False)
        assert ended.returncode == -signal.SIGKILL, f"{moment}: {ended.stderr.decode()}"
        wait_for(trio.is_free, f"all nodes to be free after {moment}", BUSY)
    assert not trio.run(Sum, tmp_path).error


AtFirst = Callable[[str, Callable[[], object]], Path]


@pytest.fixture
def at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AtFirst:
    """`at_first(kind, act)`: `act` when the first message of this kind comes to the submitter; then the file is there."""

    def install(kind: str, act: Callable[[], object]) -> Path:
        done, hear = tmp_path / kind, EventLoop.hear

        def watch(attendant: EventLoop, node: int, operation: Any) -> None:
            if type(operation).__name__ == kind and not done.exists():
                act()
                done.touch()
            hear(attendant, node, operation)

        monkeypatch.setattr(EventLoop, "hear", watch)
        return done

    return install


@covers("SUB-9")
def test_killed_job_process(trio: Cluster, tmp_path: Path, at_first: AtFirst) -> None:
    """a job process dies at a message boundary; nothing runs anywhere, the error names the node and the signal, and the
    nodes take the next job."""

    def kill() -> None:
        (victim,) = wait_for(trio.agents[1].job_pids, "the job process to begin")
        os.kill(victim, signal.SIGKILL)

    for moment in ("Accepted", "Loaded", "Asks", "Prepared"):
        with trio.request() as com:
            killed = at_first(moment, kill)
            coordinator = Coordinator(com, directory=tmp_path)
            begin = time.monotonic()
            with pytest.raises(SubmissionError, match=r"Node\(1\)"):
                coordinator.submit_group(Held, objects={"flag": str(killed)})
                coordinator.resources_dispatch(lambda node, request: request)
            assert killed.exists() and time.monotonic() - begin < FIRST_PHASE_SECONDS + BUSY, moment
            wait_for(trio.is_free, f"all nodes to be free after {moment}", BUSY)
    assert not trio.run(Sum, tmp_path).error


@covers("SUB-9")
def test_killed_agent(own: Cluster, tmp_path: Path, at_first: AtFirst) -> None:
    """An agent dies at a message boundary; the others are free within 2 s and take the next job, here with another agent
    in its place, and at last without."""
    own.start(2)
    for moment in ("Accepted", "Asks", "Prepared"):
        (victim,) = own.start(1)
        with own.request() as com:
            killed = at_first(moment, victim.process.kill)
            coordinator = Coordinator(com, directory=tmp_path)
            begin = time.monotonic()
            with pytest.raises(SubmissionError, match=r"Node\(2\)|node 2"):
                coordinator.submit_group(Held, objects={"flag": str(killed)})
                coordinator.resources_dispatch(lambda node, request: request)
            assert killed.exists() and time.monotonic() - begin < FIRST_PHASE_SECONDS + BUSY, moment
        wait_for(own.is_free, f"the others to be free after {moment}", BUSY)
        victim.process.wait(LIMIT)
    assert not own.run(Sum, tmp_path).error


@covers("SUB-47", "SUB-9")
def test_stopped(own: Cluster, tmp_path: Path) -> None:
    """An agent, or a job process, stands still while it gets its data, for which it has an hour; it is named
    within ten seconds, is free when it goes on, and the next job works. Both are waited for at the same time."""
    with ThreadPoolExecutor(2) as pool:
        waiting = [
            pool.submit(stop, own, agent, what, tmp_path)
            for agent, what in zip(own.start(2), ("agent", "job process"), strict=True)
        ]
        for each in waiting:
            each.result()
    wait_for(own.is_free, "all nodes to be free", BUSY)
    assert not own.run(Sum, tmp_path).error


def stop(own: Cluster, agent: AgentProcess, what: str, folder: Path) -> None:
    """Submit to this agent a job that is stopped while it is submitted."""
    stopped: list[float] = []

    def reply(node: int, request: str) -> Any:
        (victim,) = [agent.pid] if what == "agent" else agent.job_pids()
        os.kill(victim, signal.SIGSTOP)
        stopped.append(time.monotonic())
        return request

    told = "was lost in doCommit: its worker has given no sign" if what == "agent" else "Its process was stopped by a signal"
    with own.request(NodeAssignment(key_file=own.key_file).add(0, agent.address)) as com:
        coordinator = Coordinator(com, estimate_bandwidth=1.0, directory=folder)
        coordinator.submit_group(Hungry, package_size=3600)
        with pytest.raises(SubmissionError, match=rf"not started: Node\(0\) at .*{told}"):
            coordinator.resources_dispatch(reply)
        assert time.monotonic() - stopped[0] < 10.0 + SLACK
    if what == "agent":
        os.kill(agent.pid, signal.SIGCONT)


@covers("SUB-12")
def test_plain_lines(
    trio: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal one line per change and no escape codes; every worker reaches 100."""
    caplog.set_level(logging.INFO, "P-SGD Submit")
    assert not trio.run(Reporting, tmp_path).error
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Current progress: ")]
    assert len(lines) == len(set(lines))
    assert lines[-1] == "Current progress: Worker(0):100% Worker(1):100% Worker(2):100% | Running"
    assert all("\x1b" not in line and "\r" not in line for line in lines)
    assert "\x1b" not in "".join(capfd.readouterr())

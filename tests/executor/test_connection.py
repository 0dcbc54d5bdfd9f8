"""The session between a submitter and a running executor: who may open it, and what it may carry."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from executor import ClusterExecutor
from executor.messages import PICKLED
from executor.task_server import TaskServer
from network import Controller, NodeAssignment, Request
from network.dial import Target, dial
from network.errors import NetworkError, Rejected
from network.session import Session
from rpc import Communication, Coordinator
from rpc.dialing import watch_for_silence
from rpc.support.identity import peer_key, process_name
from tests.processes.harness import wait_for

from ..statements import covers
from .calls import LIMIT, add, alone

pytestmark = pytest.mark.processes


@pytest.fixture
def running(
    agents: NodeAssignment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Coordinator, Controller]]:
    """A task server on the first node that nobody has called yet; reports go to a folder of the test."""
    monkeypatch.chdir(tmp_path)
    with Request().request(alone(agents)) as com:
        coordinator = Coordinator(com)
        coordinator.submit_group(TaskServer)
        coordinator.resources_dispatch(lambda node, request: None)
        yield coordinator, com


def is_closed(session: Session) -> bool:
    session.receive()
    return session.lost is not None


def end(coordinator: Coordinator, session: Session) -> None:
    session.queue(["end"])
    session.send()
    wait_for(lambda: is_closed(session) or session.left, "the node to say farewell")
    session.close()
    assert coordinator.join() == ({0: 0}, False)


def test_only_one_line_at_a_time(running: tuple[Coordinator, Controller]) -> None:
    """A second session with the key for code is turned away while the first one lives."""
    coordinator, _ = running
    first = coordinator.call()[0]
    second = coordinator.call()[0]
    wait_for(lambda: is_closed(second), "the second line to be closed")
    assert not is_closed(first)
    end(coordinator, first)


@covers("SEC-11")
def test_a_peer_cannot_pose_as_the_submitter(running: tuple[Coordinator, Controller], agents: NodeAssignment) -> None:
    """No key that nodes share among each other opens a line for code, whatever number its holder claims."""
    coordinator, com = running
    assert com.key is not None
    name = process_name(coordinator.job, 0)
    caps = {"node": -1, "attempt": 0}
    posing = dial(Target(agents[0], peer_key(com.key, coordinator.job, 0, -1), "peer", "peer", name, 0, caps))
    wait_for(lambda: is_closed(posing), "the impostor to be turned away")
    for role, stolen in (("peer", 1), ("code", 1), ("code", -1)):
        with pytest.raises(NetworkError):
            dial(Target(agents[0], peer_key(com.key, coordinator.job, 0, stolen), role, "peer", name, 0, caps))
    end(coordinator, coordinator.call()[0])


@pytest.mark.parametrize("nonsense", [["run", [[1]]], ["erase"], 7])
def test_nonsense_ends_the_job(running: tuple[Coordinator, Controller], nonsense: object) -> None:
    """A submitter that breaks the protocol loses its node, and the reason says so."""
    coordinator, _ = running
    session = coordinator.call()[0]
    session.queue(nonsense)
    session.send()
    results, error = coordinator.join()
    assert (results, error) == ({}, True)
    assert "no message about tasks" in coordinator.failures[0][1]
    session.close()


def test_code_is_loaded_in_job_processes_only(tmp_path: Path) -> None:
    """Elsewhere a Communication refuses it."""
    with Controller(0, {}) as controller:
        com = Communication(controller, [0], tmp_path, tmp_path, lambda percent: None)
        with pytest.raises(Rejected, match="runs in no job process"):
            com.load_code(b"", b"")


def test_silence_is_watched_for(running: tuple[Coordinator, Controller]) -> None:
    """The kernel probes an idle connection after two seconds, then every second."""
    coordinator, com = running
    session = coordinator.call()[0]
    watch_for_silence(session)  # a Unix socket: its other end is on this host
    watch_for_silence(com.sessions[0])
    with socket.socket(fileno=os.dup(com.sessions[0].link.fileno())) as twin:  # type: ignore[attr-defined]
        options = [twin.getsockopt(socket.IPPROTO_TCP, option) for option in (socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)]
        assert options == [1, 3]
        assert twin.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    end(coordinator, session)


class Touch:
    """Loading its pickle leaves a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")


@covers("SEC-18")
def test_a_pickle_that_nobody_asked_for_ends_the_line(agents: NodeAssignment, tmp_path: Path) -> None:
    """It is not loaded; the node counts as lost."""
    proof = tmp_path / "proof"

    def forge() -> Any:
        from executor import task_server
        from executor.payload import pack_pickled

        task_server._pack_result = lambda value, callee: (PICKLED, pack_pickled(Touch(str(proof)), ()))
        return str(proof)

    with ClusterExecutor(alone(agents)) as executor:
        assert executor.submit(forge).result(LIMIT) == str(proof)
        error = executor.submit(add, 1, 2).exception(LIMIT)
        assert "sent a pickle to a submitter who does not trust it" in str(error)
        wait_for(lambda: executor.live_nodes == [], "the node to count as lost, as it does after the future has its error")
    assert not proof.exists()

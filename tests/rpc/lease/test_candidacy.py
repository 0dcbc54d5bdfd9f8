"""An election over real sockets: agents that answer, hosts without one, and hosts that take a connection and say nothing."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from network import NodeAssignment, Request
from network.keys import new_key
from rpc.lease import candidacy, election
from rpc.lease.candidacy import Candidacy, NoMajority
from rpc.lease.election import Candidate, Decision
from tests.processes.harness import LIMIT, Cluster, cluster

from ...statements import covers

JOB, SHA = "20260101-000000-00000000", "0" * 64


class Hosts:
    """Ports of this machine behind which nobody is, and others that take a connection and say nothing."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._socks: list[socket.socket] = []

    def nodes(self, kinds: str) -> NodeAssignment:
        """One node for each letter: `g`one, `s`ilent."""
        made = NodeAssignment()
        for node, kind in enumerate(kinds):
            sock = self._stack.enter_context(socket.socket())
            sock.bind(("127.0.0.1", 0))  # bound, so that nobody else gets the port; who does not listen refuses
            self._socks.append(sock)
            if kind == "s":
                sock.listen(8)
                sock.setblocking(False)
            made.add(node, f"127.0.0.1:{sock.getsockname()[1]}")
        return made

    def has_been_called(self, host: int) -> bool:
        try:
            self._socks[host].accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with ExitStack() as stack:
        yield Hosts(stack)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path / "pair") as made:
        made.start(2)
        yield made


def made(request: Request, nodes: NodeAssignment, *, is_standby: bool = False, **further: Any) -> Candidacy:
    candidate = Candidate(JOB, "The submitter/0123456789abcdef", SHA, 0, (0, 0), is_standby)
    return Candidacy(request, nodes, candidate, logging.getLogger("candidacy test"), **further)


def wait_for_answers(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Give each round so long."""
    for module in (candidacy, election):
        monkeypatch.setattr(module, "ANSWER_SECONDS", seconds)


@covers("FLT-21", "FLT-25")
@pytest.mark.processes
def test_a_silent_host_is_asked_only_where_the_others_are_not_enough(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would cost 1.5 s of the five after which training goes on without it. Who is asked and does not answer is named."""
    wait_for_answers(monkeypatch, 0.1)
    nodes = hosts.nodes("gs")
    further = {"lost": [1], "known_dead": [0]}
    with closing(made(Request(key=new_key()), nodes, **further)) as asking:
        asking.require()
        assert not hosts.has_been_called(1)
    with closing(made(Request(key=new_key()), nodes, is_standby=True, **further)) as asking:
        with pytest.raises(NoMajority, match=rf"Node\(1\) at {nodes[1]} cannot be reached, and may be going on without us"):
            asking.require()
        assert hosts.has_been_called(1)


@covers("FLT-25")
@pytest.mark.processes
def test_hosts_that_refuse_and_hosts_that_are_silent(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who refuses the connection has ended; of who is silent nothing is known, and the message names it."""
    wait_for_answers(monkeypatch, 0.1)
    nodes = hosts.nodes("ggs")
    with closing(made(Request(key=new_key()), nodes, known_dead={0})) as asking:
        assert asking.ask() is Decision.PAUSE
        assert (asking.election.refused, asking.election.silent) == ({0, 1}, [2])
        assert asking.reasons == (
            f"Node(2) at {nodes[2]} cannot be reached, and may be going on without us. Node(1) at {nodes[1]} cannot be "
            "reached (connection refused), and may have gone on before that without us."
        )
        assert set(asking.missing) == {0, 1, 2}
    with closing(made(Request(key=new_key()), hosts.nodes("ggs"), known_dead={0, 1})) as asking:
        assert asking.ask() is Decision.DRIVE


@pytest.mark.processes
def test_agents_that_know_no_such_job_have_no_voice(pair: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have lost what they had promised."""
    wait_for_answers(monkeypatch, LIMIT)  # all that are asked answer or refuse, on a busy machine late
    with closing(made(Request(pair.key_file), pair.nodes())) as asking:
        assert asking.ask() is Decision.PAUSE
        assert [answer.state for answer in asking.election.granted.values()] == ["unknown", "unknown"]
        pair.agents[1].end()
        assert asking.ask() is Decision.PAUSE
        assert asking.election.refused == {1}
        with asking.take_connections() as com:
            assert com.available_clients == [0]

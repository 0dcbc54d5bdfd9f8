"""An election over real sockets: agents that answer, hosts without one, and hosts that take a connection and say nothing."""

from __future__ import annotations

import logging
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from network import NodeAssignment, Request
from network.key_files import load_key_file
from network.keys import new_key
from rpc.lease import candidacy, election
from rpc.lease.candidacy import Candidacy, NoMajority
from rpc.lease.election import Candidate, Decision
from tests.processes.harness import LIMIT, Cluster, cluster, make_key

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


@pytest.mark.processes
def test_agents_with_another_key_are_told_as_that_until_the_file_here_has_it(
    pair: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver outlives a change of the key: it reads the file again, and until then says what is in its way. Sessions of both
    keys are not mixed, as agents derive the keys of a job from that of the session."""
    wait_for_answers(monkeypatch, LIMIT)
    own, new = tmp_path / "own", tmp_path / "new"
    shutil.copy(pair.key_file, own)
    make_key(new)
    nodes = pair.nodes()
    nodes.key_file = None
    with closing(made(Request(own), nodes)) as asking:
        assert asking.ask([0]) is Decision.PAUSE
        assert list(asking.election.granted) == [0]
        shutil.copy(new, pair.key_file)
        assert asking.ask() is Decision.PAUSE
        told = f"it does not accept key {load_key_file(own).offered.id.hex()}"
        where = f"That key is from {own}, which is read again as soon as it changes; it may be going on without us."
        assert f"Node(1) at {nodes[1]}: The peer says, unauthenticated: wrong key; compare key files: {told}. {where}" in (
            asking.reasons
        )
        assert "cannot be reached" not in asking.reasons and told in asking.missing[1]
        shutil.copy(new, own)
        assert asking.ask() is Decision.PAUSE
        assert sorted(asking.election.granted) == [0, 1] and not asking.election.unserved
        with asking.take_connections() as com:
            assert com.key is not None and com.key.id == load_key_file(new).offered.id
            assert com.available_clients == [0, 1]

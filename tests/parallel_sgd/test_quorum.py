"""Whom a driver asks before it goes on without somebody: real sockets, of hosts without an agent and of silent ones."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from network import NodeAssignment, Request
from network.keys import new_key
from parallel_sgd.quorum import NoMajority, Quorum
from rpc.lease import candidacy, election
from rpc.lease.election import Decision, Office

from ..statements import covers

JOB, DRIVER = "20260101-000000-00000000", "The submitter/0123456789abcdef"


def quorum(nodes: NodeAssignment, office: Office, lost: list[int], known_dead: list[int]) -> Quorum:
    request = Request(key=new_key())
    return Quorum(request, nodes, JOB, DRIVER, "0" * 64, office, (0, 0), 0, lost, known_dead)


@covers("FLT-21", "FLT-25")
@pytest.mark.processes
def test_a_silent_host_is_asked_only_where_the_others_are_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would cost 1.5 s of the five after which training goes on without it. Who is asked and does not answer
    is named."""
    for module in (candidacy, election):
        monkeypatch.setattr(module, "ANSWER_SECONDS", 0.1)
    with socket.socket() as gone, socket.socket() as silent:
        nodes = NodeAssignment()
        for node, sock in enumerate((gone, silent)):
            sock.bind(("127.0.0.1", 0))  # bound, so that nobody else gets the port; who does not listen refuses
            nodes.add(node, f"127.0.0.1:{sock.getsockname()[1]}")
        silent.listen(8)
        silent.setblocking(False)
        with closing(quorum(nodes, Office(is_standby=False), lost=[1], known_dead=[0])) as asked:
            assert asked.ask() is Decision.DRIVE
            with pytest.raises(BlockingIOError):
                silent.accept()
        with closing(quorum(nodes, Office(is_standby=True), lost=[1], known_dead=[0])) as asked:
            with pytest.raises(NoMajority, match=rf"Node\(1\) at {nodes[1]} cannot be reached, and may be going on without us"):
                asked.require()
            silent.accept()[0].close()

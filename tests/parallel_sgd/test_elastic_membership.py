"""What feeds the driver of elastic jobs under both engines, and the nodes of attempts that it decides on."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest

from network import NodeAssignment
from network.nodes import PARAMETER_SERVER, Address
from network.transport import wait_sockets
from parallel_sgd import JobFailed
from parallel_sgd.elastic_membership import DiscoveredNodes, Inbox, failure_of
from rpc.elastic import FunctionDiscovery, Worker
from rpc.verdict import Verdict

from ..statements import covers

LIMIT = 10.0
WORKER = Worker(Address("a", 15387), 0, 0)


def test_what_threads_bring_is_taken_in_its_order() -> None:
    """Its socket is readable when there is something, and nothing comes twice."""
    with contextlib.closing(Inbox()) as inbox:
        assert inbox.take() == []
        thread = threading.Thread(target=lambda: [inbox.put(number) for number in range(100)])
        thread.start()
        found: list[int] = []
        while len(found) < 100:
            wait_sockets([inbox.sock], [], LIMIT)
            found += inbox.take()
        thread.join()
        assert found == list(range(100))
        assert inbox.take() == []


def verdict(kind: Any = "crashed", **further: Any) -> Verdict:
    return Verdict("job", 0, 0, kind, "a", 7, "step", 2, 5, 0.0, **further)


@covers("EL-21")
@pytest.mark.parametrize(
    ("state", "said", "code", "place"),
    [
        ("failed", None, 1, (0, 0)),
        ("lost", None, None, (0, 0)),
        ("failed", verdict("stuck"), -9, (2, 5)),  # its agent has killed it
        ("failed", verdict(signal=11), -11, (2, 5)),
        ("failed", verdict("exited", exit_code=3), 3, (2, 5)),
        ("failed", verdict(trace="ValueError: no"), 1, (2, 5)),
        ("failed", verdict(trace="network.errors.PeerLost: Node(1) is lost"), 1, None),  # only because another one had
    ],
)
def test_how_a_worker_failed(state: str, said: Verdict | None, code: int | None, place: tuple[int, int] | None) -> None:
    ended = failure_of(WORKER, state, "Traceback\nValueError: no\n", said, agent_lost=state == "lost")
    assert (ended.code, ended.place, ended.returned, ended.agent_lost) == (code, place, False, state == "lost")
    assert ended.detail == ("ValueError: no" if said is None else said.headline)


@covers("EL-11", "EL-15", "EL-19", "EL-21")
def test_the_nodes_of_attempts(caplog: pytest.LogCaptureFixture) -> None:
    """They are those that discovery finds, without hosts that failed, numbered anew; the parameter server stays."""
    nodes = NodeAssignment().add(PARAMETER_SERVER, "p").add(0, "a").add(1, "b")
    hosts = ["a", "b"]
    with contextlib.closing(DiscoveredNodes(nodes, FunctionDiscovery(lambda: list(hosts)), 1, 3, "job")) as members:
        assert members.nodes.worker_ids == [0, 1] and members.look() == ""
        hosts.append("c")
        while not (changed := members.look()):
            members._members.wait(seconds=0.05)
        assert changed == "The hosts have changed: workers have come."
        assert members.settle(JobFailed({}, {}, "job", [])) == ""
        assert [str(members.nodes[node]) for node in (0, 1, 2)] == ["a:15387", "b:15387", "c:15387"]
        assert members.settle(JobFailed({1: ("failed", "ValueError: no")}, {}, "job", [])) == ""
        assert [str(members.nodes[node]) for node in (0, 1, PARAMETER_SERVER)] == ["a:15387", "c:15387", "p:15387"]
        reason = members.settle(JobFailed({0: ("failed", "OSError: no"), 1: ("lost", "it is gone")}, {}, "job", []))
        assert reason.endswith("The first worker to fail was:\nProcess name: b[0]\nExit code: 1\nValueError: no")


@covers("EL-16", "EL-17")
def test_hosts_that_do_not_come() -> None:
    def broken() -> str:
        raise LookupError("no such rack")

    with pytest.raises(JobFailed, match=r"The first discovery of hosts failed: .*LookupError: no such rack"):
        DiscoveredNodes(NodeAssignment().add(0, "a"), FunctionDiscovery(broken), 1, None, "job")

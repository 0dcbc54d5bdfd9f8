"""Nodes that cannot take a job: busy, unreachable, silent."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

import pytest

from network import NetworkError, NodeAssignment
from network.dial import CONNECT_SECONDS
from rpc import Coordinator, Reclaimer, SubmissionError
from rpc.errors import NodeBusy
from rpc.lease.handoff import new_driver
from rpc.submit.diagnostics import list_jobs

from ..stated_time import in_time
from ..statements import covers
from .executors import Alone, Stepping, Sum
from .harness import SLACK, Cluster, start_job, wait_for


def only(cluster: Cluster, node: int) -> NodeAssignment:
    """That of the nodes of a job on all agents."""
    return NodeAssignment(cluster.key_file).add(node, cluster.nodes()[node])


@covers("SUB-3", "SUB-4")
@pytest.mark.alone
def test_busy_node_is_named(trio: Cluster, tmp_path: Path) -> None:
    """With one busy node nothing starts; the error tells address, title and since when; the others are free."""
    everybody = trio.nodes()
    with trio.running(Stepping, tmp_path / "held", nodes=only(trio, 1), title="The long one"):
        with trio.request() as com:
            begin = time.monotonic()
            with pytest.raises(NodeBusy) as caught:
                Coordinator(com, directory=tmp_path).submit_group(Sum)
        text = str(caught.value)
        assert str(everybody[1]) in text and "busy with job 'The long one'" in text
        assert re.search(r"since \d\d:\d\d:\d\d", text)
        wait_for(lambda: trio.is_free(trio.agents[0], trio.agents[2]), "the others to be free", 2.0)
        in_time(time.monotonic() - begin, 2.0)
        free = NodeAssignment(trio.key_file).add(0, everybody[0]).add(1, everybody[2])
        assert not trio.run(Sum, tmp_path, nodes=free).error
    assert not trio.run(Sum, tmp_path).error


@covers("SUB-3", "SUB-15")
def test_a_job_that_was_refused_is_over(trio: Cluster, tmp_path: Path) -> None:
    """Those who had taken it wait for its driver no longer, and whoever attaches to it is told."""
    everybody = trio.nodes()
    with trio.running(Stepping, tmp_path / "held", nodes=only(trio, 1)):
        with trio.request() as com:
            refused = Coordinator(com, directory=tmp_path, driver=new_driver("The submitter"))
            with pytest.raises(NodeBusy):
                refused.submit_group(Sum)
        free = NodeAssignment(trio.key_file).add(0, everybody[0]).add(1, everybody[2])
        with trio.request(free) as com:
            states = Reclaimer(com).follow(refused.job)
            assert {state for state, _ in states.values()} == {"aborted"}
            mine = [entry for known in list_jobs(com).values() for entry in known if entry["job"] == refused.job]
            assert [(entry["state"], entry["driver"]) for entry in mine] == [("aborted", "")] * 2


@covers("SUB-3")
def test_unreachable_address(trio: Cluster) -> None:
    """a port where nobody listens is an error that names the address."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        nodes = trio.nodes().add(3, f"127.0.0.1:{port}")
        told = rf"at 127\.0\.0\.1:{port} for node 3: Connection refused. Start one .*--port {port} --key-file .*/key'"
        with pytest.raises(NetworkError, match=told):
            trio.request(nodes)


@covers("SUB-4")
def test_swallowed_connection_is_bounded(trio: Cluster) -> None:
    """An address that takes the connection and never answers costs the connect limit, not the kernel's minutes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        nodes = trio.nodes().add(3, f"127.0.0.1:{port}")
        begin = time.monotonic()
        with pytest.raises(NetworkError, match=rf"127\.0\.0\.1:{port}.*answer"):
            trio.request(nodes)
        assert time.monotonic() - begin < CONNECT_SECONDS + SLACK


@covers("SUB-3")
def test_the_same_address_twice(trio: Cluster, tmp_path: Path) -> None:
    """a line of the node file too many is told before anything is sent, with what to do; and by the agent, too, where
    the job's nodes come to it one by one."""
    (address, *_) = [agent.address for agent in trio.agents]
    one, other = (NodeAssignment(trio.key_file).add(node, address) for node in (0, 1))
    with trio.request(NodeAssignment(trio.key_file).add(0, address).add(1, address)) as com:
        told = rf"the worker at {address} .* 1 slot .* nodes 0, 1 .*'psgd worker --slots 2'"
        with pytest.raises(SubmissionError, match=told):
            start_job(com, Sum, tmp_path)
        assert trio.idle()
    with trio.running(Stepping, tmp_path, nodes=one, others=[1]) as held, trio.request(other) as second:
        told = r"busy with job 'job' since .*, which is this one: it has 1 slot and was given nodes 0, 1"
        with pytest.raises(NodeBusy, match=told):
            start_job(second, Alone, tmp_path, job=held.job)


def test_two_slots(own: Cluster, tmp_path: Path) -> None:
    """`--slots 2`: two jobs at once, the third is refused, and each can be stopped without the other."""
    (agent,) = own.start(1, "--slots", "2")
    with own.request() as first, own.request() as second, own.request() as third:
        one = start_job(first, Stepping, tmp_path / "one", title="One")
        with pytest.raises(NodeBusy, match="busy with job 'One'"):  # the next attempt at it, while this one goes on
            Coordinator(third, directory=tmp_path, job=one.job, attempt=1).submit_group(Sum)
        two = start_job(second, Stepping, tmp_path / "two", title="Two")
        assert len(agent.job_pids()) == 2
        with pytest.raises(SubmissionError, match="busy with job 'One'"):
            Coordinator(third, directory=tmp_path).submit_group(Sum)
        one.stop_executing()
        assert one.join()[1]
        assert len(agent.job_pids()) == 1
        assert not own.run(Sum, tmp_path).error
        two.stop_executing()
        two.join()


@covers("SUB-39")
def test_two_nodes_of_one_job_on_one_agent(own: Cluster, tmp_path: Path) -> None:
    """With two slots an agent runs two nodes of the same job, and both sets of files come home."""
    (agent,) = own.start(1, "--slots", "2")
    port = agent.address.port
    nodes = NodeAssignment(own.key_file).add(0, agent.address).add(1, f"localhost:{port}")
    outcome = own.run(Sum, tmp_path, nodes=nodes)
    assert not outcome.error and [node for node, _ in outcome.results.values()] == [0, 1]
    for node, paths in outcome.coordinator.files.items():
        assert [path.name for path in paths if path.name.startswith(f"Fit-{node}")]


def test_a_subset_of_the_connection(trio: Cluster, tmp_path: Path) -> None:
    """A working group may be some of the connected nodes; the others are neither waited for nor blocked."""
    with trio.request() as com:
        coordinator = start_job(com, Sum, tmp_path, group=[0, 2])
        results, error = coordinator.join()
    assert not error and list(results) == [0, 2] and results[0][1][0] == 3.0


def test_who_ends_early_is_free_early(trio: Cluster, tmp_path: Path) -> None:
    """A node that has done its part takes the next job while the others still work."""
    with trio.request() as com:
        coordinator = start_job(com, Alone, tmp_path)
        wait_for(lambda: trio.is_free(trio.agents[0]), "node 0 to be free")
        assert all(agent.job_pids() for agent in trio.agents[1:])
        alone = NodeAssignment(trio.key_file).add(0, trio.agents[0].address)
        assert not trio.run(Sum, tmp_path / "other", nodes=alone).error
        with trio.request() as other:
            Reclaimer(other).stop(coordinator.job)
        results, error = coordinator.join()
    assert error and results == {0: 0} and {state for state, _ in coordinator.failures.values()} == {"stopped"}

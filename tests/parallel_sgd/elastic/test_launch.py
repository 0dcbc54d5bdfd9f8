"""Elastic jobs that end before a worker has started."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from network import NodeAssignment
from network.key_files import create_key_file
from parallel_sgd import JobFailed, elastic

from ...statements import covers


@pytest.fixture
def nodes(tmp_path: Path) -> NodeAssignment:
    """Two nodes where nobody listens."""
    create_key_file(tmp_path / "key")
    assignment = NodeAssignment(key_file=tmp_path / "key")
    for node in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            assignment.add(node, f"127.0.0.1:{free.getsockname()[1]}")
    return assignment


@covers("EL-16")
def test_hosts_that_do_not_come(nodes: NodeAssignment) -> None:
    """The first round waits for its slots, up to the time-out."""
    with pytest.raises(JobFailed, match=r"Timed out waiting for minimum number of slots .* there are 0 slot\(s\) of the 2"):
        elastic.launch(int, nodes, discovery=list, timeout=0.1)


@covers("EL-17")
def test_a_discovery_that_fails_at_once(nodes: NodeAssignment) -> None:
    """a failure of the first look ends the job."""

    def broken() -> str:
        raise LookupError("no such rack")

    with pytest.raises(JobFailed, match=r"The first discovery of hosts failed: .*LookupError: no such rack"):
        elastic.launch(int, nodes, discovery=broken)


@covers("EL-20", "EL-21")
def test_agents_that_cannot_be_reached(nodes: NodeAssignment, caplog: pytest.LogCaptureFixture) -> None:
    """The error says who and why; hosts that failed are not tried again."""
    with pytest.raises(
        JobFailed, match=r"All workers have failed\.\nThe first worker to fail was:\nProcess name: 127"
    ) as failed:
        elastic.launch(int, nodes)
    assert len(failed.value.failures) == 2 and "Connection refused" in str(failed.value)
    assert sum("cannot be started" in record.getMessage() for record in caplog.records) == 2

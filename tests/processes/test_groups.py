"""Group operations over three real job processes, and a job with a parameter server: submitted singly, the last to leave."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from rpc import Coordinator

from ..statements import covers
from .executors import Broadcasting, Client, LargeSum, Server, Unread
from .harness import Cluster


def test_allreduce_broadcast_barrier(trio: Cluster, tmp_path: Path) -> None:
    outcome = trio.run(Broadcasting, tmp_path)
    assert not outcome.error
    for mean, most, word in outcome.results.values():
        np.testing.assert_array_equal(mean, np.array([1.0, 2.0], np.float32))
        assert mean.dtype == np.float32 and most.tolist() == [2] and word == "from 2"


@covers("SUB-35")
def test_large_arrays(trio: Cluster, tmp_path: Path) -> None:
    """4 MiB each way between all nodes, more than a socket buffer takes at once."""
    outcome = trio.run(LargeSum, tmp_path)
    assert outcome.results == dict.fromkeys(range(3), (6.0 * ((1 << 20) - 1), 4 << 20))


def test_the_limit_covers_sending(trio: Cluster, tmp_path: Path) -> None:
    """No wait without a limit: a peer that does not read ends the operation, too."""
    outcome = trio.run(Unread, tmp_path, nodes=trio.nodes(2), objects={"folder": str(tmp_path)})
    assert outcome.results[0] == "did not read"
    assert outcome.results[1].startswith("Timed out after 0.3 s waiting for node 0 ")


@covers("SUB-11")
def test_server_and_group(trio: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The single submission precedes the group; the server starts by itself and leaves when all workers have left."""
    caplog.set_level(logging.INFO, "P-SGD Submit")
    with trio.request(trio.nodes(ps=True)) as com:
        coordinator = Coordinator(com, directory=tmp_path)
        coordinator.submit_single(Server, -2, objects={"workers": [0, 1]})
        coordinator.submit_group(Client)
        coordinator.resources_dispatch(lambda node, request: None)
        results, error = coordinator.join()
    assert not error and list(results) == [-2, 0, 1]
    assert results[-2][1] == 2 * sum(range(10))
    lines = [record.getMessage() for record in caplog.records]
    assert lines.index("Single node submission complete.") < lines.index("Group submission complete ({0, 1}).")
    assert "Waiting for ({0, 1, -2}) ..." in lines


@covers("SUB-9")
def test_lost_server(trio: Cluster, tmp_path: Path) -> None:
    """When the single node is refused, the group is not even asked."""
    with trio.request(trio.nodes(ps=True)) as com:
        coordinator = Coordinator(com, directory=tmp_path)
        coordinator.submit_single(Server, -2, objects={"workers": [0, 1]})
        with pytest.raises(TypeError, match="cannot travel"):
            coordinator.submit_group(Client, objects={"lock": __import__("threading").Lock()})
    # the connection has ended, so the server's node takes its job back by itself

"""A job with a parameter server: submitted singly, before the group, and the last to leave."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rpc import Coordinator

from ..statements import covers
from .executors import Client, Server
from .harness import Cluster


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

"""Two agents for all tests of executors; each ClusterExecutor starts its own job on them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from executor import local_nodes
from network import NodeAssignment


@pytest.fixture(scope="session")
def agents() -> Iterator[NodeAssignment]:
    """Nodes 0 and 1, each for up to three executors at once."""
    with local_nodes(2, slots=3) as nodes:
        yield nodes

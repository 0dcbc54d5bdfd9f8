"""Two agents for all tests of executors, on which each ClusterExecutor starts its own job; and executors of three kinds."""

from __future__ import annotations

import concurrent.futures as cf
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor import local_nodes
from network import NodeAssignment

from .calls import LIMIT, add
from .kinds import KINDS, Make, maker, occupy


@pytest.fixture(scope="session")
def agents() -> Iterator[NodeAssignment]:
    """Nodes 0 and 1, each for up to three executors at once."""
    with local_nodes(2, slots=3) as nodes:
        yield nodes


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def make(kind: str, agents: NodeAssignment) -> Make:
    return maker(kind, agents)


@pytest.fixture(scope="module")
def shared(kind: str, agents: NodeAssignment) -> Iterator[cf.Executor]:
    """One executor for the tests that leave it idle."""
    with maker(kind, agents)() as executor:
        assert sorted(executor.map(add, range(4), timeout=LIMIT)) == [0, 1, 2, 3]
        yield executor


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `cancel` wait for the answer of a node whose process has no processor for longer than its second."""
    monkeypatch.setattr("executor.queues.RECALL_SECONDS", LIMIT)


@pytest.fixture
def occupied(make: Make, tmp_path: Path, patient: None) -> Iterator[tuple[cf.Executor, list[cf.Future[int]], Path]]:
    """An executor without a free worker until the path exists; a new one, which does not know that tasks can be short."""
    with make() as executor, occupy(executor, tmp_path) as (futures, gate):
        yield executor, futures, gate

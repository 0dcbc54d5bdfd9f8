"""Agents that all tests of this folder share: started once, they serve job after job, failed ones too; each test leaves them
free."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parallel_sgd import local_workers
from parallel_sgd.nodes import LocalNodes
from tests.proc import at_work_for
from tests.processes.harness import wait_for


@pytest.fixture(scope="package")
def four() -> Iterator[LocalNodes]:
    with local_workers(4) as nodes:
        yield nodes


@pytest.fixture
def agents(four: LocalNodes) -> Iterator[LocalNodes]:
    """Four agents, which the next job finds free: no process of a job is left on any."""
    yield four
    assert four.agents is not None
    for pid in four.agents.pids:
        wait_for(lambda pid=pid: not at_work_for(pid), "the agents to be free")

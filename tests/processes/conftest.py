"""Every test here starts or uses real processes; each ends with idle agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import Cluster, cluster, short_folder, wait_for
from .ordinary_user import is_ordinary, run_as_nobody


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.processes)


@pytest.fixture(scope="session")
def shared() -> Iterator[Cluster]:
    """Three agents for all tests that leave them free and unharmed."""
    with short_folder() as folder, cluster(folder) as made:
        made.start(3)
        yield made


@pytest.fixture
def trio(shared: Cluster) -> Iterator[Cluster]:
    """The three shared agents, idle before and after the test."""
    assert shared.idle()
    yield shared
    wait_for(shared.is_free, "the agents to be free")
    assert [agent.process.poll() for agent in shared.agents] == [None] * 3


@pytest.fixture
def own() -> Iterator[Cluster]:
    """A cluster for one test, which starts its agents itself."""
    with short_folder() as folder, cluster(folder) as made:
        yield made


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if pyfuncitem.get_closest_marker("ordinary_user") is None or is_ordinary():
        return None
    run_as_nobody(pyfuncitem.nodeid)
    return True

"""Agents that all tests of this folder share: started once, they serve job after job, failed ones too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parallel_sgd import local_workers
from parallel_sgd.nodes import LocalNodes


@pytest.fixture(scope="package")
def agents() -> Iterator[LocalNodes]:
    with local_workers(4) as nodes:
        yield nodes

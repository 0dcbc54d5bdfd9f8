"""Stopping a job: wherever its executors are, they end, and their nodes are free."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from rpc.liveness.limits import HALT_SECONDS

from ..statements import covers
from .executors import Computing, Deaf, Receiving, Stepping, Sum
from .harness import LIMIT, Cluster, start_job

ALONE = pytest.mark.alone


@covers("SUB-14")
@pytest.mark.parametrize(
    ("executor", "count", "limit"),
    [
        pytest.param(Receiving, 3, 1.0, marks=ALONE),
        pytest.param(Stepping, 3, 1.0, marks=ALONE),
        pytest.param(Computing, 3, 1.3, marks=ALONE),
        (Deaf, 1, HALT_SECONDS + LIMIT),
    ],
)
def test_stop_executing(trio: Cluster, tmp_path: Path, executor: Any, count: int, limit: float) -> None:
    """An interruption at the next receive or send; one that only computes is killed after five seconds. The nodes are
    free, which the fixture asserts, and take the next job."""
    with trio.request(trio.nodes(count)) as com:
        coordinator = start_job(com, executor, tmp_path)
        trio.begun(coordinator, count)
        begin = time.monotonic()
        coordinator.stop_executing()
        results, error = coordinator.join()
        assert time.monotonic() - begin < limit
    assert error and not results
    assert {state for state, _ in coordinator.failures.values()} == {"stopped"}
    if executor is Receiving:
        assert {detail for _, detail in coordinator.failures.values()} == {
            "This job has been aborted. It was stopped by the submitter."
        }
    if executor is Deaf:  # after the others comes the next of these
        assert not trio.run(Sum, tmp_path).error

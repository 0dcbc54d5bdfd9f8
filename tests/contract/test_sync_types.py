"""What holds for every synchronous sync type, on a job of arrays."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import parallel_sgd.batch_sync
from parallel_sgd.batch_sync import ISyncType, SynchronizedSGD
from parallel_sgd.profiles import IIDBlockAssignment
from tests.contract.kinds import public_kinds
from tests.parallel_sgd.array_job import ArrayJob, expected


@dataclass(frozen=True)
class Row:
    """What is true of a sync type beyond the common laws."""

    exact: bool  # a result holds every block of its batch and nothing of another


ROWS: dict[type[ISyncType], Row] = {SynchronizedSGD: Row(exact=True)}


def test_every_sync_type_has_a_row() -> None:
    assert public_kinds(ISyncType, parallel_sgd.batch_sync) == set(ROWS)


@pytest.mark.parametrize("kind", ROWS)
def test_every_batch_ends(kind: type[ISyncType]) -> None:
    """design.md decision 6: no wait without a limit."""
    job = ArrayJob(IIDBlockAssignment(3), sync_type=kind, link=lambda s, r, _: (0.5,) if s == 0 else (0.0,)).run()
    assert [len(job.results[node]) for node in range(3)] == [job.batches] * 3


@pytest.mark.parametrize("kind", [kind for kind, row in ROWS.items() if row.exact])
def test_a_result_holds_its_batch_and_nothing_else(kind: type[ISyncType]) -> None:
    """SUB-22."""
    job = ArrayJob(IIDBlockAssignment(3), sync_type=kind, link=lambda s, r, _: (0.5,) if r == 1 else (0.0, 0.25)).run()
    for batch in range(job.batches):
        for node in range(3):
            for got, wanted in zip(job.results[node][batch], expected(batch, 3), strict=True):
                assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("kind", [kind for kind, row in ROWS.items() if row.exact])
def test_a_peer_that_never_answers_is_named_within_two_periods(kind: type[ISyncType]) -> None:
    """SUB-25, SUB-26."""
    job = ArrayJob(IIDBlockAssignment(2), sync_type=kind, timeout=3.0, link=lambda *_: ())
    with pytest.raises(TimeoutError, match=r"variable 1 \(dense/bias\) of epoch 1, batch 1: missing block\(s\) 1"):
        job.run()
    assert 3.0 <= job.clock.monotonic() <= 6.0

"""What holds for every sync type, on a job of arrays: alone, and with every codec that ships."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

import parallel_sgd.batch_sync
from nn.optimizer import GradientAveragingOptimizer, IOptimizer, PSGDOptimizer
from parallel_sgd.batch_sync import (
    AsynchronizedSGD,
    FirstK,
    ISyncType,
    StaleSynchronous,
    SyncChoice,
    SynchronizedSGD,
    SyncSetting,
)
from parallel_sgd.batch_sync.sync.asynchronous import StaleSynchronizedSGD
from parallel_sgd.batch_sync.sync.first import FirstKSGD
from parallel_sgd.codec import AsyncPS, Codec, Partial, Plain
from parallel_sgd.profiles import IIDBlockAssignment
from parallel_sgd.testing.array_job import ArrayJob, expected
from tests.contract.kinds import public_kinds, row_faults
from tests.contract.test_codecs import ROWS as CODECS

from ..statements import covers


@dataclass(frozen=True)
class Row:
    """What is true of a sync type beyond the common laws."""

    exact: bool  # a result holds every block of its batch and nothing of another
    codec: type[Codec] = Plain  # one that it is made for
    refuses: Callable[[type[Codec]], bool] = lambda codec: False  # the codecs that it cannot run
    nodes: int = 2  # so few that a result still needs blocks of others


ROWS: dict[type[ISyncType], Row] = {
    SynchronizedSGD: Row(exact=True),
    AsynchronizedSGD: Row(exact=False, codec=AsyncPS, refuses=lambda codec: codec.traits.synchronous),
    FirstKSGD: Row(exact=False, refuses=lambda codec: not issubclass(codec, Partial)),
    StaleSynchronizedSGD: Row(exact=True),  # without slack
}
CHOICES: dict[SyncChoice, type[ISyncType]] = {
    SynchronizedSGD: SynchronizedSGD,
    AsynchronizedSGD: AsynchronizedSGD,
    StaleSynchronous(0): StaleSynchronizedSGD,
    StaleSynchronous(2): AsynchronizedSGD,
    FirstK(1): FirstKSGD,
    FirstK(2): FirstKSGD,
}
"""By choice, the sync type whose row says what it refuses."""


def job_of(kind: SyncChoice, codec: type[Codec], nodes: int, **settings: object) -> ArrayJob:
    server = codec if CODECS[codec].server else None
    return ArrayJob(IIDBlockAssignment(nodes), sync_type=kind, codec=codec, server=server, **settings)  # type: ignore[arg-type]


def test_every_sync_type_has_a_row() -> None:
    assert not row_faults(public_kinds(ISyncType, parallel_sgd.batch_sync), ROWS, "ROWS in tests/contract/test_sync_types.py")


def test_every_choice_runs_with_every_codec() -> None:
    """A setting with a number, and a type that needs none, is among those that are tried with all codecs."""
    exported = {getattr(parallel_sgd.batch_sync, name) for name in parallel_sgd.batch_sync.__all__}
    settings = {kind for kind in exported if isinstance(kind, type) and issubclass(kind, SyncSetting)} - {SyncSetting}
    types = {kind for kind in public_kinds(ISyncType, parallel_sgd.batch_sync) if kind in exported}
    tried = {choice if isinstance(choice, type) else type(choice) for choice in CHOICES}
    assert not row_faults(settings | types, tried, "CHOICES in tests/contract/test_sync_types.py")


@pytest.mark.parametrize("kind", ROWS)
def test_every_batch_ends(kind: type[ISyncType]) -> None:
    """No wait without a limit."""
    job = job_of(kind, ROWS[kind].codec, 3, link=lambda s, r, _: (0.5,) if s == 0 else (0.0,)).run()
    assert [len(job.results[node]) for node in range(3)] == [job.batches] * 3


@covers("SUB-22")
@pytest.mark.parametrize("kind", [kind for kind, row in ROWS.items() if row.exact])
def test_a_result_holds_its_batch_and_nothing_else(kind: type[ISyncType]) -> None:
    job = job_of(kind, ROWS[kind].codec, 3, link=lambda s, r, _: (0.5,) if r == 1 else (0.0, 0.25)).run()
    for batch in range(job.batches):
        for node in range(3):
            for got, wanted in zip(job.results[node][batch], expected(batch, 3), strict=True):
                assert got.tobytes() == wanted.tobytes()


@covers("SUB-25", "SUB-26")
@pytest.mark.parametrize("kind", ROWS)
def test_one_that_never_answers_is_named_within_two_periods(kind: type[ISyncType]) -> None:
    missing = r"missing block\(s\) 1" if ROWS[kind].codec is Plain else r"nothing came from node\(s\) -2"
    job = job_of(kind, ROWS[kind].codec, ROWS[kind].nodes, timeout=3.0, link=lambda *_: ())
    with pytest.raises(TimeoutError, match=rf"variable 1 \(dense/bias\) of epoch 1, batch 1: {missing}"):
        job.run()
    assert 3.0 <= job.clock.monotonic() <= 6.0


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice.__name__)
@pytest.mark.share(6)
def test_every_codec_runs_or_is_refused_with_both_names(choice: SyncChoice, codec: type[Codec]) -> None:
    """A codec that is admitted ends every batch, whatever the links do; one that is not is refused before anything is sent."""
    op_type: type[IOptimizer] = GradientAveragingOptimizer if codec.traits.gives == "parameters" else PSGDOptimizer
    try:
        choice.admit(codec, op_type)
    except ValueError as error:
        assert choice.__name__ in str(error)
        assert codec.__name__ in str(error)
        assert ROWS[CHOICES[choice]].refuses(codec)
        return
    assert not ROWS[CHOICES[choice]].refuses(codec)
    row = CODECS[codec]
    for assignment in row.assignments[1:3]:
        link = lambda sender, receiver, key: (0.1 * sender + 0.2, 0.5) if sender >= 0 else (0.05,)  # noqa: E731
        server = codec if row.server else None
        job = ArrayJob(assignment, sync_type=choice, codec=codec, server=server, link=link, parameters=row.parameters).run()
        assert [len(job.results[node]) for node in assignment.nodes] == [job.batches] * assignment.node_count

"""`FirstK(k)`: whose blocks a result holds, when it is complete, what is late, and what is refused."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import parallel_sgd
from nn.optimizer import PSGDOptimizer
from parallel_sgd import in_process
from parallel_sgd.batch_sync import FirstK, SynchronizedSGD
from parallel_sgd.codec import Plain, Ring
from parallel_sgd.engine.merge import BlockMean
from parallel_sgd.options.named_parts import sync, sync_forms
from parallel_sgd.options.names import UnknownName
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.testing.array_job import ArrayJob, expected, gradient
from tests.processes.training.jobs import line_job

THREE = IIDBlockAssignment(3)


def _mean_of(batch: int, variable: int, blocks: list[int]) -> np.ndarray:
    return np.mean([gradient(batch, block, variable).astype(np.float64) for block in blocks], axis=0)


@pytest.mark.parametrize("assignment", [THREE, FixedBlockAssignment(2, 1, 6), DuplicateAssignment(4, 2)])
def test_the_first_n_are_all_with_the_bits_of_synchronized_sgd(assignment: ISetting) -> None:
    link: Any = lambda s, r, _: (0.1 * s + 0.2, 0.7)  # noqa: E731
    job = ArrayJob(assignment, sync_type=FirstK(assignment.node_count), link=link).run()
    for node in assignment.nodes:
        for batch in range(job.batches):
            for got, wanted in zip(job.results[node][batch], expected(batch, assignment.block_count), strict=True):
                assert got.tobytes() == wanted.tobytes()


def test_a_result_waits_for_k_workers_and_holds_their_blocks_alone() -> None:
    """Node 2 is always late: what it sends counts nowhere, and it takes what it finds."""
    job = ArrayJob(THREE, batches=4, sync_type=FirstK(2), link=lambda s, r, _: (5.0,) if s == 2 else (0.25,)).run()
    for node in (0, 1):
        for batch in range(4):
            for variable in (0, 1):
                got = job.results[node][batch][variable]
                np.testing.assert_allclose(got, _mean_of(batch, variable, [0, 1]), rtol=1e-5, atol=1e-4)
    assert job.clock.monotonic() < 5.0 + 4  # they have not waited for it once in each batch


def test_what_is_late_is_counted_and_changes_neither_its_result_nor_the_next() -> None:
    link: Any = lambda s, r, _: (0.3,) if s == 2 else (0.2,)  # noqa: E731 - late, but before the next result is there
    job = ArrayJob(THREE, batches=5, sync_type=FirstK(2), link=link).run()
    for node in (0, 1):
        for batch in range(5):
            for variable in (0, 1):
                got = job.results[node][batch][variable]
                np.testing.assert_allclose(got, _mean_of(batch, variable, [0, 1]), rtol=1e-5, atol=1e-4)
    assert job.sync(0).late > 0


def test_one_is_enough_for_one_that_takes_none_of_the_others() -> None:
    job = ArrayJob(THREE, sync_type=FirstK(1), link=lambda *_: (1.0,)).run()
    for node in range(3):
        for got, wanted in zip(job.results[node][0], [gradient(0, node, variable) for variable in (0, 1)], strict=True):
            assert got.tobytes() == wanted.tobytes()


def test_a_mean_so_far_does_not_depend_on_the_order_of_arrival() -> None:
    for blocks in combinations(range(5), 3):
        bits = set()
        for order in (blocks, blocks[::-1]):
            mean = BlockMean(5)
            for block in order:
                mean.mean_with((block, block + 1), gradient(0, block, 0), stays=True)
            found = mean.mean_so_far()
            assert found is not None
            np.testing.assert_allclose(found, _mean_of(0, 0, list(blocks)), rtol=1e-5, atol=1e-4)
            bits.add(found.tobytes())
        assert len(bits) == 1
    assert BlockMean(5).mean_so_far() is None


def test_by_its_word_it_is_what_the_number_says() -> None:
    assert sync("'sync_type'", "first:3") == FirstK(3)
    assert next(iter(sync_forms())) == "ssgd" and "first:K" in sync_forms()
    assert FirstK(3).__name__ == "FirstK(3)"
    with pytest.raises(UnknownName, match=r"^'sync_type' 'frist:3' is unknown; did you mean 'first:K'\? Known: .*first:K"):
        sync("'sync_type'", "frist:3")
    with pytest.raises(UnknownName, match=r"^'sync_type' 'stael:2' is unknown; did you mean 'stale:N'\?"):
        sync("'sync_type'", "stael:2")


@pytest.mark.parametrize("k", [0, -1, 1.5, True, float("inf")])
def test_k_is_a_positive_integer(k: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="FirstK 'k' must be"):
        FirstK(k)


def test_a_codec_that_makes_no_result_of_some_blocks_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'sync_type' FirstK\(2\) cannot run 'codec' Ring, .*take Plain, or SynchronizedSGD"):
        FirstK(2).admit(Ring, PSGDOptimizer)
    FirstK(2).admit(Plain, PSGDOptimizer)


def test_a_job_in_process_runs_and_more_than_all_are_refused_before_it_begins(tmp_path: Any) -> None:
    with in_process(2) as nodes:
        result = line_job().parallel(nodes, sync_type="first:1", epoch=2, block_size=4, directory=tmp_path)
        assert sorted(result.models) == [0, 1]
        with pytest.raises(ValueError, match="FirstK 'k' must be at most the number of workers, 2, got 3"):
            line_job().parallel(nodes, sync_type=FirstK(3), epoch=2, block_size=4, directory=tmp_path)


def test_all_of_two_train_as_synchronized_sgd_does(tmp_path: Any) -> None:
    found = []
    for kind in (FirstK(2), SynchronizedSGD):
        with in_process(2) as nodes:
            result = line_job().parallel(nodes, sync_type=kind, codec=Plain, epoch=2, block_size=4, directory=tmp_path)
        found.append([model.store.values.tobytes() for model in result.models.values()])
    assert found[0] == found[1]
    assert parallel_sgd.batch_sync.FirstK is FirstK

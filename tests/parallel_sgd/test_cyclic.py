"""Stragglers: the cyclic assignment with its gradient code, and first copies of duplicated blocks."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from nn.random import keyed
from parallel_sgd import Parameter_Server
from parallel_sgd.batch_sync import AsynchronizedSGD
from parallel_sgd.codec import Codec, FirstCopy, FirstCopyInt8, GradCode, GradCodePeers, Plain, compose
from parallel_sgd.codec.compose import PS
from parallel_sgd.codec.grad_code import CHUNK, MOST_SETS, CyclicCode, WeightedSum, cyclic_code
from parallel_sgd.codec.pipeline import Int8
from parallel_sgd.profiles import CyclicAssignment, DuplicateAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.testing.array_job import ArrayJob, expected
from tests.parallel_sgd.codec.compositions import check_exact, codec_of
from tests.parallel_sgd.links import lost_once, without

from ..statements import covers

CODES = [(4, 1), (5, 2), (6, 2), (8, 3), (10, 3)]


@pytest.mark.parametrize(("workers", "stragglers"), [*CODES, (3, 0), (1, 0), (4, 3)])
def test_every_set_of_workers_that_is_large_enough_gives_the_sum(workers: int, stragglers: int) -> None:
    """Cyclic: a^T B_I = 1, residual <= 1e-11, and fp32 recovery to 1e-5."""
    code = cyclic_code(workers, stragglers)
    held = CyclicAssignment(workers, stragglers + 1).node_2_block
    assert [sorted(np.flatnonzero(row).tolist()) for row in code.matrix] == held
    assert np.diagonal(code.matrix).tolist() == [1.0] * workers
    gradients = keyed(3, "test", workers).standard_normal((workers, 2000)).astype(np.float32)
    coded = (code.matrix @ gradients.astype(np.float64)).astype(np.float32)
    total = gradients.astype(np.float64).sum(axis=0)
    for alive in combinations(range(workers), workers - stragglers):
        decoder = code.decoder(alive)
        assert np.abs(decoder @ code.matrix[list(alive)] - 1).max() <= 1e-11
        error = np.linalg.norm(decoder @ coded[list(alive)].astype(np.float64) - total)
        assert error <= 1e-5 * np.linalg.norm(total)


def test_the_code_is_the_same_everywhere_and_one_straggler_too_many_raises() -> None:
    """Cyclic. Its seed is a function of the numbers alone, and it is the best of the draws; many workers are judged
    by a sample."""
    code = cyclic_code(10, 3)
    assert CyclicCode(10, 3).seed == code.seed
    assert CyclicCode(10, 3).matrix.tobytes() == code.matrix.tobytes()
    assert not code.matrix.flags.writeable and code.amplification < 2000
    many, alive = CyclicCode(24, 4), [node for node in range(24) if node not in (3, 4, 11, 20)]
    assert np.abs(many.decoder(alive) @ many.matrix[alive] - 1).max() <= 1e-9
    for nodes, message in (([2, 0], r"needs the sums of 3, got those of \[0, 2\]"), ([0, 1, 7], "needs the sums of 3")):
        with pytest.raises(ValueError, match=message):
            cyclic_code(5, 2).decoder(nodes)
    for workers, stragglers in ((0, 0), (3, 3), (3, -1)):
        with pytest.raises(ValueError, match="CyclicCode 'stragglers' must be at least 0 and less than the number of workers"):
            CyclicCode(workers, stragglers)


@pytest.mark.parametrize(("workers", "stragglers"), [(14, 4), (20, 3)])
def test_a_code_is_judged_by_every_set_of_workers_that_may_be_left(workers: int, stragglers: int) -> None:
    """Where they are no more than MOST_SETS: the worst of them bounds what rounding does to a result."""
    code = cyclic_code(workers, stragglers)
    sizes = np.linalg.norm(code.matrix, axis=1)
    sets = list(combinations(range(workers), workers - stragglers))
    assert len(sets) <= MOST_SETS
    grown = max(float(np.abs(code.decoder(alive)) @ sizes[list(alive)]) for alive in sets)
    assert code.amplification == pytest.approx(grown)


def test_weighted_sums_are_taken_in_float64() -> None:
    rng = keyed(1, "test")
    arrays = [rng.standard_normal((3, CHUNK // 2 + 5)).astype(np.float32) for _ in range(3)]
    total = WeightedSum()
    for _ in range(2):
        for coefficient, array in zip((1.0, 1e3, -1e3), arrays, strict=True):
            total.add(coefficient, array)
        exact = arrays[0].astype(np.float64) + 1e3 * arrays[1].astype(np.float64) - 1e3 * arrays[2].astype(np.float64)
        assert total.write(np.empty((3, CHUNK // 2 + 5), np.float32)).tobytes() == exact.astype(np.float32).tobytes()


def coded(workers: int, stragglers: int, codec: type[Codec] = GradCode, **settings: Any) -> ArrayJob:
    server = codec if codec.traits.needs_server else None
    return ArrayJob(CyclicAssignment(workers, stragglers + 1), codec=codec, server=server, **settings)


def check_mean(job: ArrayJob) -> None:
    """Everybody has what is close to the mean over all blocks; from a server the same bits."""
    for batch in range(job.batches):
        for variable, mean in enumerate(expected(batch, job.assignment.block_count)):
            results = [job.results[node][batch][variable] for node in job.assignment.nodes]
            assert len({result.tobytes() for result in results}) == 1 or job.server is None
            for result in results:
                assert np.linalg.norm(result - mean) <= 1e-5 * max(np.linalg.norm(mean), 1.0)


@pytest.mark.share(3)
@pytest.mark.parametrize("codec", [GradCode, GradCodePeers])
@pytest.mark.parametrize(("workers", "stragglers"), [(4, 1), (5, 2), (6, 2), (3, 0), (3, 2)])
def test_whoever_is_missing_the_mean_is_the_same(codec: type[Codec], workers: int, stragglers: int) -> None:
    """Every set of stragglers, without any time-out."""
    for count in range(stragglers + 1):
        for missing in combinations(range(workers), count):
            job = coded(workers, stragglers, codec, batches=2, link=without(missing)).run()
            check_mean(job)
            assert job.clock.monotonic() == 0.0


@pytest.mark.parametrize("codec", [GradCode, GradCodePeers])
def test_too_many_stragglers_end_in_a_time_out_that_names_them(codec: type[Codec]) -> None:
    """Not in a wrong sum."""
    with pytest.raises(TimeoutError, match=r"the retry did not help.*batch 1: nothing came from node\(s\) 1, 3"):
        coded(4, 1, codec, link=without((1, 3))).run()


def test_a_lost_sum_is_asked_for() -> None:
    """Also by one whose peers are a batch ahead by then, which send what they sent."""
    lose_once = lost_once(lambda _, receiver, key: receiver == 2 and key[2] == 1)
    job = coded(3, 0, GradCodePeers, batches=4, link=lose_once).run()
    check_mean(job)
    assert job.clock.monotonic() == 10.0
    with pytest.raises(TimeoutError, match="nothing came from node"):
        coded(3, 0, GradCodePeers, link=lambda sender, receiver, key: () if receiver == 2 else (0.0,)).run()


def test_copies_and_late_sums_change_nothing_without_a_server() -> None:
    rng = np.random.default_rng(0)
    link = lambda *_: tuple(rng.uniform(0, 0.3, 2).tolist())  # noqa: E731
    job = coded(5, 2, GradCodePeers, batches=6, link=link).run()
    check_mean(job)
    assert sum(codec_of(job, node).late + job.sync(node).late for node in range(5)) > 6


def test_packets_that_are_late_doubled_or_lost_change_nothing() -> None:
    delay = {0: 0.1, 1: 0.1, 2: 0.1, 3: 0.1, 4: 0.35, Parameter_Server: 0.0}
    slow = coded(5, 1, batches=6, link=lambda sender, *_: (delay[sender], delay[sender])).run()
    check_mean(slow)
    codec = slow.server_bank.codecs[0]
    assert isinstance(codec, GradCode) and codec.late > 6
    lost_answer = lost_once(lambda sender, receiver, key: (sender, receiver, key[2]) == (Parameter_Server, 1, 1))
    job = coded(4, 0, link=lost_answer).run()
    check_mean(job)
    assert job.clock.monotonic() == 10.0


@covers("SUB-31")
def test_the_job_goes_on_without_lost_workers() -> None:
    for codec in (GradCode, GradCodePeers):
        job = coded(5, 2, codec, batches=4, ends_after={1: 1, 4: 2}).run()
        assert [len(job.results[node]) for node in range(5)] == [4, 1, 4, 4, 2]


@pytest.mark.parametrize("assignment", [IIDBlockAssignment(4, 2), DuplicateAssignment(4, 2)])
def test_other_assignments_are_refused(assignment: ISetting) -> None:
    with pytest.raises(ValueError, match=f"GradCode needs a CyclicAssignment, got {type(assignment).__name__}"):
        ArrayJob(assignment, codec=GradCode, server=GradCode).run()
    with pytest.raises(ValueError, match="AsynchronizedSGD cannot run 'codec' GradCode"):
        AsynchronizedSGD.admit(GradCode, object)  # type: ignore[arg-type]


GROUPS = [(workers, copies) for workers in range(2, 9) for copies in range(2, workers + 1) if workers % copies == 0]


@pytest.mark.parametrize(("workers", "copies"), GROUPS)
@pytest.mark.parametrize("codec", [Plain, FirstCopy])
@pytest.mark.share(3)
def test_any_stragglers_but_one_of_each_group_change_nothing(codec: type[Codec], workers: int, copies: int) -> None:
    """FirstCopy/FRC: every set of at most r - 1 stragglers of n <= 8, bit-equal and without time-out."""
    for count in range(copies):
        for missing in combinations(range(workers), count):
            job = ArrayJob(
                DuplicateAssignment(workers, copies), batches=1, shapes=((5,),), codec=codec, link=without(missing)
            ).run()
            check_exact(job)
            assert job.clock.monotonic() == 0.0


FirstCopyPS = Codec.of(PS(), up=Int8(4), merge=compose.FirstCopy(), name="FirstCopyPS")


@pytest.mark.long
@pytest.mark.parametrize(
    ("codec", "assignment"),
    [
        (FirstCopyInt8, DuplicateAssignment(8, 4)),
        (FirstCopyInt8, IIDBlockAssignment(5, 3)),
        (FirstCopyPS, DuplicateAssignment(6, 3)),
        (FirstCopyPS, DuplicateAssignment(8, 2)),
    ],
)
def test_encoded_first_copies_bear_every_set_of_stragglers(codec: type[Codec], assignment: ISetting) -> None:
    """FirstCopy/FRC: all C(n, s) sets of s <= r - 1; the bits are those without stragglers."""

    def bits(missing: tuple[int, ...]) -> set[tuple[bytes, ...]]:
        server = codec if codec.traits.needs_server else None
        job = ArrayJob(assignment, batches=2, shapes=((5,),), codec=codec, server=server, link=without(missing)).run()
        assert job.clock.monotonic() == 0.0
        return {tuple(value.tobytes() for batch in results for value in batch) for results in job.results.values()}

    whole = bits(())
    assert len(whole) == 1
    for count in range(1, assignment.redundancy):
        for missing in combinations(assignment.nodes, count):
            assert bits(missing) == whole


@pytest.mark.parametrize("assignment", [IIDBlockAssignment(4, 2), IIDBlockAssignment(5, 3), CyclicAssignment(5, 3)])
def test_other_redundant_assignments_bear_the_same(assignment: ISetting) -> None:
    """FirstCopy over IID: any r - 1 stragglers."""
    for count in range(assignment.redundancy):
        for missing in combinations(assignment.nodes, count):
            check_exact(ArrayJob(assignment, batches=2, codec=Plain, link=without(missing)).run())


def test_a_whole_group_of_stragglers_is_an_error() -> None:
    """Not a wrong sum: a time-out that names the block and its workers."""
    with pytest.raises(TimeoutError, match=r"missing block\(s\) 1 of node\(s\) 2, 3"):
        ArrayJob(DuplicateAssignment(6, 2), link=without((2, 3))).run()
    check_exact(ArrayJob(DuplicateAssignment(6, 2)).run())

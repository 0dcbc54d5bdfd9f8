"""Payload bytes of whole exchanges, per worker: those rows of the table of contracts/codecs.md that are no stages."""

from __future__ import annotations

from math import ceil, comb
from typing import Any

import pytest

from parallel_sgd import codec as codecs
from parallel_sgd.codec import Codec
from parallel_sgd.codec.compose import PS, FirstCopy
from parallel_sgd.profiles import CyclicAssignment, DuplicateAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.testing.array_job import ArrayJob

N, BATCHES = 4000, 6
FOUR = IIDBlockAssignment(4)
FirstCopyPS = Codec.of(PS(), merge=FirstCopy(), name="FirstCopyPS")


def sent(kind: type[Codec], assignment: ISetting, **parameters: Any) -> list[float]:
    """Bytes of arrays that each worker sends per batch, over all targets."""
    job = ArrayJob(
        assignment,
        batches=BATCHES,
        shapes=((N,),),
        codec=kind,
        server=kind if kind.needs_server else None,
        parameters={"learn_rate": 0.1, **parameters},
    ).run()
    return [job.exchanges[node].accounts.total("sent").raw / BATCHES for node in assignment.nodes]


@pytest.mark.parametrize("kind", [codecs.FedAvg, codecs.DiLoCoPS, codecs.FedProx])
@pytest.mark.parametrize("every", [1, 3])
def test_seldom_exchanges(kind: type[Codec], every: int) -> None:
    """FedAvg/DiLoCo H: 4n / H; what the packet adds stands in no array."""
    assert sent(kind, FOUR, local_batches=every) == [4 * N / every] * 4


def test_control_variates_double_the_bytes() -> None:
    assert sent(codecs.SCAFFOLD, FOUR, local_batches=3) == [8 * N / 3] * 4


def test_neighbours() -> None:
    """D-PSGD ring: 2 * 4n; AD-PSGD pair: 4n per step."""
    assert sent(codecs.DPSGD, FOUR) == [2 * 4 * N] * 4
    assert sent(codecs.RandomPair, FOUR) == [4 * N] * 4


def test_what_travels_in_shards() -> None:
    """Ring/ShardedPS: 2 (W - 1) / W payloads; `SMA` the same; `OneBitAdam` one bit and the scale of each shard."""
    for kind in (codecs.Ring, codecs.ShardedPS, codecs.SMA):
        assert sum(sent(kind, FOUR)) == pytest.approx(4 * 2 * 3 / 4 * 4 * N)
    shards = 3  # of at least 1024 elements
    bits = sum(ceil((N * (i + 1) // shards - N * i // shards) / 8) + 4 for i in range(shards))
    compressed = sent(codecs.OneBitAdam, FOUR, warmup=1)
    dense = 2 * 3 * 4 * N
    assert sum(compressed) == pytest.approx((dense + (BATCHES - 1) * 2 * 3 * bits) / BATCHES)


@pytest.mark.parametrize(("workers", "copies"), [(4, 2), (5, 3)])
def test_first_copies_over_all_subsets(workers: int, copies: int) -> None:
    """FirstCopy over IID(W, r): C(W - 1, r - 1) 4n, each to the W - r workers without the block."""
    assignment = IIDBlockAssignment(workers, copies)
    assert sent(codecs.FirstCopyInt8, assignment) == [comb(workers - 1, copies - 1) * (workers - copies) * (N + 4)] * workers
    assert sent(FirstCopyPS, assignment)[0] <= comb(workers - 1, copies - 1) * 4 * N


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_codes_cost_one_gradient_however_many_stragglers_they_bear(copies: int) -> None:
    """FRC / cyclic code: 4n per worker, independent of s."""
    assert sent(codecs.SyncPS, DuplicateAssignment(8, copies)) == [4 * N] * 8
    assert sent(FirstCopyPS, DuplicateAssignment(8, copies)) == [4 * N] * 8
    assert sent(codecs.GradCode, CyclicAssignment(5, copies)) == [4 * N] * 5
    assert sent(codecs.GradCodePeers, CyclicAssignment(5, copies)) == [4 * 4 * N] * 5

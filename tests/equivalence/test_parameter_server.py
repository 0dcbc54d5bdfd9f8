"""With a parameter server the weights have the bits of the direct exchange, for any number of workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import nn
from nn.dataset.transforms import ImageCls, Shuffle
from parallel_sgd import JobResult, ParallelSGD, Parameter_Server, in_process
from parallel_sgd.codec import Plain, SyncPS
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment
from tests.parallel_sgd.networks import mlp

from ..statements import covers

FOUR_BLOCKS = FixedBlockAssignment.of(blocks=4)


def run(directory: Path, workers: int, *, ps: bool, **settings: Any) -> JobResult:
    job = ParallelSGD(mlp(dropout=0.25), nn.dataset.Digits(), Shuffle().add(ImageCls()))
    with in_process(workers, ps=ps) as nodes:
        return job.parallel(nodes, **{"epoch": 2, "block_size": 32, "directory": directory, "seed": 11, **settings})


def bits(result: JobResult) -> set[bytes]:
    return {model.store.values.tobytes() for model in result.models.values()}


@covers("SUB-20")
def test_one_two_and_four_workers_have_the_bits_of_plain(tmp_path: Path) -> None:
    """SyncPS; `codec=None` means SyncPS on both sides."""
    reference = run(tmp_path, 1, ps=False, assignment_type=FOUR_BLOCKS, codec=Plain)
    assert len(bits(reference)) == 1
    for workers in (1, 2, 4):
        result = run(tmp_path, workers, ps=True, assignment_type=FOUR_BLOCKS)
        assert bits(result) == bits(reference)
        assert result == reference
        assert sorted(result.models) == list(range(workers))
        assert {entry.codec for node in result.accounts for entry in result.accounts[node]} == {"SyncPS"}
        assert sorted(result.accounts) == sorted(result.files) == [Parameter_Server, *range(workers)]
        tables = {(tmp_path / f"Node-{node}-Retrieve" / f"EV-P-SGD-N({node}).csv").read_bytes() for node in range(workers)}
        assert len(tables) == 1


@pytest.mark.share(2)
@pytest.mark.parametrize("assignment", [IIDBlockAssignment, DuplicateAssignment])
def test_redundant_blocks_do_not_change_the_bits(tmp_path: Path, assignment: Any) -> None:
    settings = {"assignment_type": assignment, "redundancy": 2}
    assert bits(run(tmp_path, 4, ps=True, **settings)) == bits(run(tmp_path, 4, ps=False, **settings))


@covers("SUB-33")
def test_each_variable_may_have_its_own_codec(tmp_path: Path) -> None:
    """One variable goes through the server, the others from worker to worker."""
    result = run(tmp_path, 2, ps=True, assignment_type=FOUR_BLOCKS, codec=dict.fromkeys(range(1, 6), Plain), ps_codec=SyncPS)
    assert bits(result) == bits(run(tmp_path, 2, ps=False, assignment_type=FOUR_BLOCKS))
    assert {(entry.codec, entry.peer) for entry in result.accounts[0]} == {("SyncPS", Parameter_Server), ("Plain", 1)}


def test_without_a_server_its_codecs_are_refused(tmp_path: Path) -> None:
    """Before anything is sent; also for a single variable."""
    for codec in (SyncPS, {3: SyncPS}):
        with pytest.raises(ValueError, match=r"'codec' SyncPS needs a parameter server among the nodes"):
            run(tmp_path, 2, ps=False, codec=codec)

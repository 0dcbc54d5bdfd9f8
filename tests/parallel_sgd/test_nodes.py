"""Which nodes a job gets: what the functions that name them refuse."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import nn
from executor import ClusterExecutor
from network import ClosedByUs, Request
from nn.dataset.transforms import ImageCls
from parallel_sgd import ParallelSGD, elastic, in_process, local_workers, nodes_from, parse_worker
from tests.parallel_sgd.networks import mlp


def test_the_name_of_a_file_in_the_place_of_ps_is_refused_with_the_call_that_is_meant() -> None:
    said = r"'ps' must be True or False .*, got 'my.json'; write parse_worker\(4, filename='my.json'\)"
    with pytest.raises(TypeError, match=said):
        parse_worker(4, "my.json")  # type: ignore[arg-type]


@pytest.mark.parametrize("start", [local_workers, in_process, partial(nodes_from, "local:1")])
@pytest.mark.parametrize("ps", ["Plain", 1, None])
def test_ps_is_true_or_false(start: partial[object], ps: object) -> None:
    with pytest.raises(TypeError, match=f"'ps' must be True or False .*, got {ps!r}$"), start(1, ps):  # type: ignore[attr-defined]
        pass


@pytest.mark.processes
def test_nodes_outlive_their_block_in_vain(tmp_path: Path) -> None:
    """What is said is that the block has ended, not that its key file is missing."""
    with local_workers(1) as nodes:
        assert not list(tmp_path.iterdir())
    told = "The 'with' block that started these workers has ended"
    for use in (
        lambda: Request().request(nodes),
        lambda: elastic.launch(int, nodes),
        lambda: ClusterExecutor(nodes),
        lambda: ParallelSGD(mlp(), nn.dataset.Digits(), ImageCls()).parallel(nodes, directory=tmp_path),
    ):
        with pytest.raises(ClosedByUs, match=told):
            use()
    assert not list(tmp_path.iterdir())  # no folder of a run that never was

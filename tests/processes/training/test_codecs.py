"""Codecs on real agents: the bits are those of one worker, and of the same job inside this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nn.gradient_descent import SGDOptimizer
from nn.optimizer import LocalUpdateOptimizer
from parallel_sgd import Parameter_Server
from parallel_sgd.accounts import SENT
from parallel_sgd.codec import Codec, Plain, Ring, SyncPS, TopKInt8
from parallel_sgd.nodes import LocalNodes
from tests.parallel_sgd.networks import mlp
from tests.processes.training.jobs import FOUR_BLOCKS, digits_job, here, only_weights, some, weights

from ...statements import covers

pytestmark = pytest.mark.processes


@covers("SUB-20")
@pytest.mark.parametrize(("codec", "workers"), [(Ring, 3), (SyncPS, 3)])
def test_workers_have_the_bits_of_one(agents: LocalNodes, tmp_path: Path, codec: type[Codec], workers: int) -> None:
    """Ring and SyncPS of codecs.md: n workers with fixed blocks equal one worker."""
    settings: dict[str, Any] = {"epoch": 1, "block_size": 32, "assignment_type": FOUR_BLOCKS, "seed": 5}
    nodes = some(agents, workers)
    if codec.needs_server:
        nodes.add(Parameter_Server, agents[3])
    result = digits_job(mlp(dropout=0.25)).parallel(nodes, codec=codec, directory=tmp_path, **settings)
    one = here(digits_job(mlp(dropout=0.25)), 1, tmp_path / "one", codec=Plain, **settings)
    assert sorted(result.models) == list(range(workers))
    assert only_weights(result) == only_weights(one)
    used = {(entry.codec, entry.peer) for entry in result.accounts[0] if entry.direction == SENT}
    assert used == {(codec.__name__, peer) for peer in ([Parameter_Server] if codec.needs_server else range(1, workers))}


@covers("SUB-33")
def test_two_codecs_share_one_job(agents: LocalNodes, tmp_path: Path) -> None:
    """a lossy codec on one layer, a dense one on the other, in the same steps; the rest takes the default."""
    settings: dict[str, Any] = {
        "codec": {"dense_1/kernel": TopKInt8, "dense_2": Ring},
        "codec_extra_parameters": {"rho": 0.05},
        "op_type": LocalUpdateOptimizer,
        "gd_type": SGDOptimizer,
        "gd_params": (0.3,),
        "epoch": 2,
        "block_size": 32,
    }
    result = digits_job().parallel(some(agents, 2), directory=tmp_path, **settings)
    inside = here(digits_job(), 2, tmp_path / "here", **settings)
    assert weights(result) == weights(inside)
    dense = {**settings, "codec": Plain, "codec_extra_parameters": {}}
    assert only_weights(result) != only_weights(here(digits_job(), 2, tmp_path / "dense", **dense))
    sent = {entry.variable: (entry.codec, entry.raw) for entry in result.accounts[0] if entry.direction == SENT}
    assert {variable: codec for variable, (codec, _) in sent.items()} == {
        0: "TopKInt8",
        1: "Plain",
        2: "Ring",
        3: "Ring",
        4: "Plain",
        5: "Plain",
    }
    batches = 2 * -(-1500 // 64)
    k = 103  # of 64 x 32
    assert sent[0][1] == batches * (5 + k + 4 + min(4 * k, 2 * k + 4, 64 * 32 // 8))
    assert sent[4][1] == batches * 4 * 32 * 10

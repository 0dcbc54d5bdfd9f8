"""A sharded rule on real agents: the bits of PSGDOptimizer, and the accounts of what travelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nn.optimizer import ShardedPSGDOptimizer
from parallel_sgd.accounts import SENT
from parallel_sgd.nodes import LocalNodes
from tests.processes.training.jobs import FOUR_BLOCKS, digits_job, here, some, weights

pytestmark = pytest.mark.processes


def test_the_bits_are_those_of_parallel_sgd(agents: LocalNodes, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epoch": 2, "block_size": 16, "assignment_type": FOUR_BLOCKS, "seed": 3}
    reference = here(digits_job(), 1, tmp_path / "here", **settings)
    sharded = digits_job().parallel(some(agents, 3), op_type=ShardedPSGDOptimizer, directory=tmp_path, **settings)
    assert set(weights(sharded).values()) == set(weights(reference).values())
    assert dict(sharded) == dict(reference)
    sent = [entry for entries in sharded.accounts.values() for entry in entries if entry.direction == SENT]
    assert {entry.codec for entry in sent if entry.packets} == {"GradientShard", "ParameterShard"}

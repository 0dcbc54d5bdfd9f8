"""What an agent finds wrong with an order before it starts anything."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from network import VERSION
from rpc.agent.checks import MOST_NODES, objection, python_version
from rpc.liveness.limits import LEAST_SILENCE, MOST_SECONDS
from rpc.messages import CanCommit

from ...statements import covers

ORDER = CanCommit("20261120-173000-9f86d081", "title", 0, [0, 1], 0, python_version(), VERSION, 1, 1, 5.0, 5.0)


@covers("FD-6")
def test_a_good_order() -> None:
    """Limits of silence are taken as they are given; 0 stands for the default."""
    assert objection(ORDER) == ""
    assert objection(replace(ORDER, stall=LEAST_SILENCE, begin=1.0, between=2.0, save=MOST_SECONDS)) == ""


@covers("FD-15")
@pytest.mark.parametrize("name", ["stall", "begin", "between", "save"])
@pytest.mark.parametrize("limit", [-1.0, LEAST_SILENCE / 2, 2 * MOST_SECONDS])
def test_impossible_limits_of_silence(name: str, limit: float) -> None:
    """An order with a limit that cannot be kept is refused, with the reason."""
    changed: Any = {name: limit}
    assert objection(replace(ORDER, **changed)) == f"the limit '{name}' of silence must be 0 or 0.1 to 86400 s, got {limit:g} s"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"blas_threads": 10**6}, "'blas_threads' must be 0 to 4096, got 1000000"),
        ({"others": list(range(2, MOST_NODES + 1))}, "a job may have at most 2048 nodes, got 2049"),
        ({"start_limit": 0.0}, "at most 86400 s to start, got 0 s"),
        ({"start_limit": math.nan}, "at most 86400 s to start, got nan s"),
        ({"prepare_limit": 1e6}, "at most 86400 s to get its data (its size by 'network_bandwidth'), got 1e+06 s"),
    ],
)
def test_impossible_numbers_are_named(changed: dict[str, Any], words: str) -> None:
    assert objection(replace(ORDER, **changed)).endswith(words)

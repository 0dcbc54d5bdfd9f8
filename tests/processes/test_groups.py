"""Group operations over three real job processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..statements import covers
from .executors import Broadcasting, LargeSum, Unread
from .harness import Cluster


def test_allreduce_broadcast_barrier(trio: Cluster, tmp_path: Path) -> None:
    outcome = trio.run(Broadcasting, tmp_path)
    assert not outcome.error
    for mean, most, word in outcome.results.values():
        np.testing.assert_array_equal(mean, np.array([1.0, 2.0], np.float32))
        assert mean.dtype == np.float32 and most.tolist() == [2] and word == "from 2"


@covers("SUB-35")
def test_large_arrays(trio: Cluster, tmp_path: Path) -> None:
    """4 MiB each way between all nodes, more than a socket buffer takes at once."""
    outcome = trio.run(LargeSum, tmp_path)
    assert outcome.results == dict.fromkeys(range(3), (6.0 * ((1 << 20) - 1), 4 << 20))


def test_the_limit_covers_sending(trio: Cluster, tmp_path: Path) -> None:
    """No wait without a limit: a peer that does not read ends the operation, too."""
    outcome = trio.run(Unread, tmp_path, nodes=trio.nodes(2), objects={"folder": str(tmp_path)})
    assert outcome.results[0] == "did not read"
    assert outcome.results[1].startswith("Timed out after 0.")

"""More workers than cores: everybody takes part, and the bits are those of the same job in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from parallel_sgd import local_workers
from tests.processes.training.jobs import here, line_job, only_weights

from ..statements import covers

EPOCHS, VARIABLES = 2, 2


@pytest.mark.parametrize("workers", [10, pytest.param(64, marks=[pytest.mark.long, pytest.mark.timeout(240)])])
@covers("SUB-20", "SUB-39", "SUB-47")
@pytest.mark.long
def test_many_workers_of_one_host_finish_a_job(workers: int, tmp_path: Path) -> None:
    """Packets grow with the workers and not with their square: each sends its sum to who merges, and gets the mean."""
    settings = {"epoch": EPOCHS, "block_size": 2}
    with local_workers(workers) as nodes:
        result = line_job(2 * workers).parallel(nodes, directory=tmp_path, **settings)
    assert sorted(result.models) == list(range(workers))
    assert only_weights(result) == only_weights(here(line_job(2 * workers), workers, tmp_path / "here", **settings))
    sent = sum(row.packets for rows in result.accounts.values() for row in rows if row.direction == "sent")
    assert sent == EPOCHS * VARIABLES * 2 * (workers - 1)

"""More workers than cores: everybody takes part, and the bits are those of the same job in one process."""

from __future__ import annotations

from pathlib import Path

from parallel_sgd import local_workers
from tests.processes.training.jobs import here, line_job, only_weights

from ..statements import covers

WORKERS = 8


@covers("SUB-20", "SUB-39")
def test_eight_workers_finish_a_job(tmp_path: Path) -> None:
    """Several workers per host, and many more than it has cores."""
    settings = {"epoch": 2, "block_size": 2}
    with local_workers(WORKERS) as nodes:
        result = line_job(32).parallel(nodes, directory=tmp_path, **settings)
    assert sorted(result.models) == list(range(WORKERS))
    assert only_weights(result) == only_weights(here(line_job(32), WORKERS, tmp_path / "here", **settings))

"""Jobs of composed codecs on given arrays, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from parallel_sgd.codec import Codec
from parallel_sgd.profiles import ISetting
from parallel_sgd.testing.array_job import ArrayJob, expected


def run(kind: type[Codec], assignment: ISetting, **settings: Any) -> ArrayJob:
    """Run a job whose server, where there is one, has the same class."""
    return ArrayJob(assignment, **{"codec": kind, "server": kind if kind.needs_server else None, **settings}).run()


def bits(job: ArrayJob) -> list[tuple[bytes, ...]]:
    """The results of each worker."""
    return [tuple(value.tobytes() for batch in job.results[node] for value in batch) for node in job.assignment.nodes]


def check_exact(job: ArrayJob) -> None:
    """Every worker has got the mean over all blocks along the tree, to the bit."""
    for node in job.assignment.nodes:
        assert len(job.results[node]) == job.batches
        for batch, got in enumerate(job.results[node]):
            wanted = expected(batch, job.assignment.block_count)
            assert [value.tobytes() for value in got] == [value.tobytes() for value in wanted]


def codec_of(job: ArrayJob, node: int = 0, variable: int = 0) -> Any:
    """The codec of a worker, after the job."""
    return job.exchanges[node]._bank.codecs[variable]


def mean_results(job: ArrayJob, batch: int, variable: int = 0) -> np.ndarray:
    """The mean over workers of what they got."""
    return np.mean([job.results[node][batch][variable] for node in job.assignment.nodes], axis=0, dtype=np.float64)

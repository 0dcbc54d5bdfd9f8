"""Seconds of the steps of a job, from the tables of its first worker."""

from __future__ import annotations

import csv
from statistics import median

from ..record.run import JobResult

__all__ = ["step_moments", "step_of", "table_of"]


def step_of(result: JobResult) -> float:
    """Return the seconds of a step: the median over pairs of steps that follow each other, since long and short ones alternate.

    Args:
        result: of a job of at least three steps.
    """
    moments = step_moments(result)
    return median((later - earlier) / 2 for earlier, later in zip(moments[:-2], moments[2:], strict=True))


def step_moments(result: JobResult) -> list[float]:
    """Return the seconds at which a worker has computed its last block of each step, from its table.

    Args:
        result: of a job.
    """
    # by step, so that of its rows, one for each block, the last one counts
    return [*{(row["Epochs"], row["Batches"]): float(row["Time"]) for row in table_of(result, "TR-")}.values()]


def table_of(result: JobResult, begin: str) -> list[dict[str, str]]:
    """Return the rows of a table of the first worker.

    Args:
        result: of a job.
        begin: of the name of its file.
    """
    path = next(path for path in result.files[0] if path.name.startswith(begin))
    with path.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))

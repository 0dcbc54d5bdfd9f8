"""`psgd-submit --post-mortem JOB`: from agents to a zip."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from network.errors import NetworkError
from network.nodes import NodeAssignment
from rpc.identity import is_job_id
from rpc.submit.diagnostics import Diagnostics, gather_diagnostics

from .archive import write_archive
from .case import Case


class UnknownJob(ValueError):
    """None of the agents that were reached knows the job; the message names those that were not."""


def collect_post_mortem(nodes: NodeAssignment, job: str, directory: str | Path = ".") -> Path:
    """Collect what the agents of `nodes` know of `job` into `directory/post-mortem-<job>.zip`; returns its path.

    Any agent may have had any node of the job, so `nodes` may be all that there are. Those that cannot be reached are named in
    the zip. `summary.txt` in it says what failed first and what else there is. It can be collected as long as the agents keep
    the job, also while that still runs.

    >>> path = parallel_sgd.collect_post_mortem(nodes, failure.job_id)  # doctest: +SKIP

    Raises: ValueError for a text that is no job id, UnknownJob (a ValueError) when no agent that was reached knows the job,
        NetworkError when none was reached, OSError when the zip cannot be written.
    """
    if not is_job_id(job):
        raise ValueError(f"'job' must be the id of a job, as in '20261120-173000-9f86d081', got {job!r}")
    target = Path(directory) / f"post-mortem-{job}.zip"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="psgd-post-mortem-") as folder:
        gathered = gather_diagnostics(nodes, job, Path(folder))
        _check(job, nodes, gathered)
        write_archive(Case.read(job, gathered), target, time.time())
    return target


def _check(job: str, nodes: NodeAssignment, gathered: Diagnostics) -> None:
    """Raises: UnknownJob, NetworkError."""
    if gathered.found:
        return
    if len(gathered.unreached) == len(nodes):
        raise NetworkError(f"No agent could be asked about job {job}: {' '.join(gathered.unreached.values())}")
    newest = max(gathered.known, default="")
    told = f"the newest that they know is {newest}" if newest else "they know no jobs at all"
    missing = f" These could not be asked: {', '.join(gathered.unreached)}." if gathered.unreached else ""
    raise UnknownJob(f"None of {len(gathered.strangers)} agents knows job {job}; {told}.{missing}")

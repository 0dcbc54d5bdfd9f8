"""How a job of ParallelSGD can end badly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class JobFailed(RuntimeError):
    """The job started and did not end well on every node that it needed.

    Attributes: `failures`, {node id: (state, detail)} in the order in which they became known, the first cause first;
    `files`, the saved files of each node; `job_id`.
    """

    def __init__(self, failures: Mapping[int, tuple[str, str]], files: Mapping[int, list[Path]], job_id: str) -> None:
        self.failures = dict(failures)
        self.files = dict(files)
        self.job_id = job_id
        lines = [f"Node({node}) {state}: {_last_line(detail)}" for node, (state, detail) in self.failures.items()]
        super().__init__(f"Job {job_id} failed. " + " ".join(lines))


def _last_line(detail: str) -> str:
    lines = detail.strip().splitlines()
    return lines[-1] if lines else "no reason given"

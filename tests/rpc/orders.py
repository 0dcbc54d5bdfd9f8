"""The question of a driver to an agent, with a job's least."""

from __future__ import annotations

from network import VERSION
from rpc.agent.checks import python_version
from rpc.messages import CanCommit


def question(job: str = "job", blas_threads: int = 1) -> CanCommit:
    return CanCommit(job, "title", 0, [], 0, python_version(), VERSION, blas_threads, 1, 10.0, 60.0)

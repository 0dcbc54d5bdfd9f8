"""Parallel stochastic gradient descent over workers of one process, one machine, or a cluster."""

from __future__ import annotations

from .errors import JobFailed
from .job import ParallelSGD
from .monitor_callback import MonitorCallback
from .node_ids import Parameter_Server
from .nodes import in_process, local_workers, parse_worker
from .result import JobResult

__all__ = [
    "JobFailed",
    "JobResult",
    "MonitorCallback",
    "ParallelSGD",
    "Parameter_Server",
    "in_process",
    "local_workers",
    "parse_worker",
]

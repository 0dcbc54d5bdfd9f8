"""Parallel-SGD: stochastic gradient descent over workers of one process, one machine, or a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import _psgd_packages

_psgd_packages.check(__name__)

from network import VERSION
from network.names import lazily

if TYPE_CHECKING:
    from .engine.callbacks import MonitorCallback
    from .engine.channel import Parameter_Server
    from .errors import JobFailed
    from .federated.clients import Clients
    from .job import ParallelSGD
    from .nodes import in_process, local_workers, nodes_from, parse_worker
    from .post_mortem import collect_post_mortem
    from .record.run import JobResult
    from .simulation.nodes import simulated
    from .sweeps.results import SweepResult
    from .sweeps.sweep import sweep

__all__ = [
    "Clients",
    "JobFailed",
    "JobResult",
    "MonitorCallback",
    "ParallelSGD",
    "Parameter_Server",
    "SweepResult",
    "collect_post_mortem",
    "in_process",
    "local_workers",
    "nodes_from",
    "parse_worker",
    "simulated",
    "sweep",
]

__version__ = VERSION
__getattr__, __dir__ = lazily(
    __name__,
    {
        "engine.callbacks": "MonitorCallback",
        "engine.channel": "Parameter_Server",
        "errors": "JobFailed",
        "federated.clients": "Clients",
        "job": "ParallelSGD",
        "nodes": "in_process local_workers nodes_from parse_worker",
        "post_mortem": "collect_post_mortem",
        "record.run": "JobResult",
        "simulation.nodes": "simulated",
        "sweeps.results": "SweepResult",
        "sweeps.sweep": "sweep",
    },
    meant={
        **dict.fromkeys(("fit", "parallel", "train"), "parallel_sgd.ParallelSGD(model, data, transform).parallel(nodes)"),
        **dict.fromkeys(("Job", "Trainer"), "parallel_sgd.ParallelSGD"),
        **dict.fromkeys(("LocalCluster", "local"), "parallel_sgd.local_workers"),
    },
)

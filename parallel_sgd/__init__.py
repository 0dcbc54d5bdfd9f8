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
    from .nodes import LocalNodes, in_process, local_workers, nodes_from, parse_worker
    from .post_mortem import collect_post_mortem
    from .record.run import JobResult
    from .simulation.nodes import simulated
    from .sweeps.results import SweepResult
    from .sweeps.sweep import sweep

__all__ = [
    "Clients",
    "JobFailed",
    "JobResult",
    "LocalNodes",
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
lazily(
    __name__,
    {
        "engine.callbacks": "MonitorCallback",
        "engine.channel": "Parameter_Server",
        "errors": "JobFailed",
        "federated.clients": "Clients",
        "job": "ParallelSGD",
        "nodes": "LocalNodes in_process local_workers nodes_from parse_worker",
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
        # Of Horovod and torch.distributed.
        **dict.fromkeys(("rank", "get_rank", "local_rank"), "parallel_sgd.elastic.rank()"),
        **dict.fromkeys(("size", "world_size", "get_world_size", "local_size"), "parallel_sgd.elastic.size()"),
        **dict.fromkeys(("allreduce", "all_reduce"), "parallel_sgd.elastic.allreduce(array)"),
        **dict.fromkeys(
            ("broadcast", "broadcast_object", "broadcast_parameters", "broadcast_variables", "broadcast_optimizer_state"),
            "parallel_sgd.elastic.broadcast(value)",
        ),
        "barrier": "parallel_sgd.elastic.barrier()",
        **dict.fromkeys(("launch", "spawn"), "parallel_sgd.elastic.launch(function, nodes)"),
        **dict.fromkeys(
            ("init", "init_process_group", "destroy_process_group"),
            "nothing: workers of parallel_sgd.elastic.launch(function, nodes) are in their group from the start",
        ),
        **dict.fromkeys(
            ("DistributedOptimizer", "DistributedGradientTape", "DistributedDataParallel", "DataParallel", "MirroredStrategy"),
            "parallel_sgd.ParallelSGD(model, data, transform).parallel(nodes)",
        ),
        "DistributedSampler": "parallel_sgd.elastic.ElasticSampler",
        # Of Flower.
        **dict.fromkeys(
            ("start_server", "start_client", "start_simulation", "run_simulation", "ServerApp", "ClientApp", "NumPyClient"),
            "parallel(nodes, clients=parallel_sgd.Clients(..)) of a ParallelSGD",
        ),
        **dict.fromkeys(("Strategy", "FedAvg"), "parallel_sgd.codec, and the argument codec of parallel()"),
    },
    within="codec batch_sync profiles testing writers federated codec.compose codec.pipeline elastic simulation",
)

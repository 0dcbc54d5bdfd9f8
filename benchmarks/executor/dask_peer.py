"""The executor of a Dask cluster on this machine."""

from __future__ import annotations

import atexit
from collections.abc import Callable

from benchmarks.executor.workload import WORKERS, run


def prepare(name: str) -> Callable[[], float]:
    """Start scheduler and workers; they end with this process. Results must not be those of an earlier round."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=WORKERS, threads_per_worker=1, scheduler_kwargs={"dashboard_address": ":0"})
    client = Client(cluster)
    atexit.register(cluster.close)
    atexit.register(client.close)
    executor = client.get_executor(pure=False)
    return lambda: run(executor, name, lists=True)

"""A Dask cluster on this machine, for one test: nothing of it may be left."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def dask(folder: Path, workers: int, **options: Any) -> Iterator[tuple[Any, Any]]:
    """The cluster and a client; its workers keep their files below `folder`. Skips where Dask is not installed."""
    distributed = pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    quiet: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    quiet["scheduler_kwargs"] = {"dashboard_address": ":0"}  # without a dashboard it serves HTTP all the same, on port 8787
    cluster = distributed.LocalCluster(workers, local_directory=str(folder), **quiet, **options)
    with cluster, distributed.Client(cluster) as client:
        yield cluster, client

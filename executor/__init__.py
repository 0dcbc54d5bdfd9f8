"""Parallel compute on the agents of Parallel-SGD: the interface of `concurrent.futures`, lazy collections, a joblib backend.
It knows no learning.
"""

from typing import TYPE_CHECKING

import _psgd_packages

_psgd_packages.check(__name__)

from network.names import lazily

if TYPE_CHECKING:
    from .cluster import ClusterExecutor, local_nodes
    from .errors import ConversionError, NodeLost, NotData, RemoteError, RemoteTraceback
    from .joblib_backend import register_joblib
    from .process_setup import Broadcast
    from .values import register_value

__all__ = [
    "Broadcast",
    "ClusterExecutor",
    "ConversionError",
    "NodeLost",
    "NotData",
    "RemoteError",
    "RemoteTraceback",
    "local_nodes",
    "register_joblib",
    "register_value",
]

lazily(
    __name__,
    {
        "cluster": "ClusterExecutor local_nodes",
        "errors": "ConversionError NodeLost NotData RemoteError RemoteTraceback",
        "joblib_backend": "register_joblib",
        "process_setup": "Broadcast",
        "values": "register_value",
    },
    # Names of Dask, multiprocessing and concurrent.futures.
    meant={
        **dict.fromkeys(("Client", "Pool", "ProcessPoolExecutor", "ThreadPoolExecutor"), "executor.ClusterExecutor"),
        **dict.fromkeys(("LocalCluster", "Cluster"), "executor.local_nodes"),
        **{name: f"concurrent.futures.{name}" for name in ("as_completed", "wait", "Future")},
        "delayed": "submit(fn, ..) of a ClusterExecutor",
        **dict.fromkeys(("bag", "from_sequence"), "executor.parallel.Context"),
        "Parallel": "executor.register_joblib, for that of joblib",
    },
)

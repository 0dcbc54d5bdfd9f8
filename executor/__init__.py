"""Parallel compute on agents: the interface of `concurrent.futures`, and lazy collections. Knows no learning."""

from .broadcast import Broadcast
from .cluster import ClusterExecutor
from .errors import NodeLost, RemoteError, RemoteTraceback
from .local import local_nodes

__all__ = ["Broadcast", "ClusterExecutor", "NodeLost", "RemoteError", "RemoteTraceback", "local_nodes"]

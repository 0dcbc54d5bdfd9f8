"""Training that goes on while workers come and go.

`launch` runs a function on many workers, which find each other by `rank`, `size`, `allreduce`, `broadcast` and `barrier`. A
function decorated with `run` gets a state, commits it as it goes, and is called again whenever the group has changed.
Started by itself, such a program is a group of one worker.
"""

from rpc.elastic import HostUpdateResult

from .group import Group, HostsUpdatedInterrupt, WorkerRemoved, WorkersLostError, allreduce, barrier, broadcast, rank, size
from .launch import launch
from .object_state import ModelState, ObjectState
from .sampler import ElasticSampler
from .state import State, run
from .stragglers import StallInspector

__all__ = [
    "ElasticSampler",
    "Group",
    "HostUpdateResult",
    "HostsUpdatedInterrupt",
    "ModelState",
    "ObjectState",
    "StallInspector",
    "State",
    "WorkerRemoved",
    "WorkersLostError",
    "allreduce",
    "barrier",
    "broadcast",
    "launch",
    "rank",
    "run",
    "size",
]

"""Training that goes on while workers come and go.

`launch` runs a function on many workers, which find each other by `rank`, `size`, `allreduce`, `broadcast` and `barrier`. A
function decorated with `run` gets a state, commits it as it goes, and is called again whenever the group has changed.
Started by itself, such a program is a group of one worker.
"""

from typing import TYPE_CHECKING, Final, NoReturn

from network.names import unknown
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

#: Names of Horovod and torch.distributed.
_MEANT: Final = {
    **dict.fromkeys(("get_rank", "local_rank"), "rank()"),
    **dict.fromkeys(("get_world_size", "world_size", "local_size"), "size()"),
    "all_reduce": "allreduce(array)",
    **dict.fromkeys(("broadcast_object", "broadcast_parameters", "broadcast_variables"), "broadcast(value)"),
    **dict.fromkeys(("init", "shutdown", "init_process_group"), "nothing: launch() starts and ends the group"),
    **dict.fromkeys(("DistributedOptimizer", "TensorFlowState", "KerasState", "TorchState"), "ModelState(model), and run"),
    "HorovodInternalError": "WorkersLostError",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise unknown(__name__, name, _MEANT)

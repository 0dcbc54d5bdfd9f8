"""Training that goes on while workers come and go.

A function decorated with `run` gets a state, commits it as it goes, and is called again whenever the group of workers has
changed. Started by itself, such a program is a group of one worker.
"""

from rpc.membership import HostUpdateResult

from .decorator import run
from .errors import HostsUpdatedInterrupt, WorkerRemoved, WorkersLostError
from .group import Group
from .model_state import ModelState
from .object_state import ObjectState
from .sampler import ElasticSampler
from .stall import StallInspector
from .state import State

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
    "run",
]

"""Checkpoints: the state of every node of a job on its own disk, and the way back from there.

position     how far training has come
snapshot     the state of one node, and its file
disk, store  files that appear whole or not at all; the newest valid one counts
writer       a thread that saves beside training
schedule     when: `checkpoint_every`
state        from model, optimizer and codecs to arrays, and back
commits      what a worker with a state of its own leaves: `commit_every`
keeper       who takes checkpoints: a worker, a parameter server
choice       from what all nodes hold to the position where all go on
places       where checkpoints of this and of earlier jobs lie
talk         how nodes tell each other what they hold, and send it
agents       where a node of a job on agents begins
given        what `resume=` names
"""

from __future__ import annotations

from ..progress import Position, Progress
from .keeper import Commits, Keeper, Schedule, ServerKeeper, WorkerKeeper, checked_commits, checked_every, keeps_state
from .snapshot import CheckpointError, Header, Snapshot
from .state import Resumption
from .store import Store

__all__ = [
    "CheckpointError",
    "Commits",
    "Header",
    "Keeper",
    "Position",
    "Progress",
    "Resumption",
    "Schedule",
    "ServerKeeper",
    "Snapshot",
    "Store",
    "WorkerKeeper",
    "checked_commits",
    "checked_every",
    "keeps_state",
]

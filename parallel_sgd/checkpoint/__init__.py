"""Checkpoints: the state of every node of a job on its own disk, and the way back from there.

snapshot     the state of one node, and its file; it tells how to add a field
store        files that appear whole or not at all; the newest valid one counts
state        from model, optimizer and codecs to arrays, and back; where a node resumes
schedule     the times of checkpoints: `checkpoint_every`, `commit_every`
keeper       the takers of checkpoints: a worker, a parameter server
writer       a thread that saves beside training
locate       the places of the checkpoints of this and of earlier jobs
choose       from the checkpoints that all nodes hold to the position where all resume
agree        how the nodes of a job on agents choose together, and send each other checkpoints that others lack
resume       the job or checkpoints that `resume=` names, at the submitter
"""

from __future__ import annotations

from ..engine.progress import Position, Progress
from .keeper import Commits, Keeper, ServerKeeper, WorkerKeeper, keeps_state
from .schedule import Schedule, checked_commits, checked_every
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

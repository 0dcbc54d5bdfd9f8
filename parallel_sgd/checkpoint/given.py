"""What `resume=` names: an ended job, whose checkpoints its nodes have, or checkpoints that the submitter has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nn.model import Model
from rpc.identity import is_job_id

from .choice import Choice, choose
from .places import Holdings, holdings_at
from .resumption import Resumption
from .snapshot import CheckpointError
from .state import check_values

Resume = str | Path | None


@dataclass(frozen=True)
class GivenCheckpoint:
    """Checkpoints at the submitter, and the choice that was made among them."""

    holdings: Holdings
    choice: Choice

    def resumption(self, node: int) -> Resumption | None:
        """Where `node` goes on; None: it starts afresh."""
        source = self.choice.sources.get(node)
        if source is None:
            return None
        snapshot = self.holdings.load(source.owner, self.choice.position)
        return Resumption(snapshot, self.choice.whole, self.holdings.tables(node))

    def replies(self, nodes: Iterable[int]) -> dict[str, Any]:
        """The same for all `nodes` as it travels: what several nodes need is there once, `of` says which is whose."""
        contents: dict[int, np.ndarray[Any, np.dtype[np.uint8]]] = {}
        of: dict[int, int] = {}
        for node in nodes:
            source = self.choice.sources.get(node)
            if source is not None and source.owner not in contents:
                snapshot = self.holdings.load(source.owner, self.choice.position)
                contents[source.owner] = np.frombuffer(b"".join(snapshot.pieces()), np.uint8)
            if source is not None:
                of[node] = source.owner
        return {"contents": contents, "of": of, "whole": self.choice.whole, "said": self.choice.said}


def checked_resume(resume: Resume, model: Model, workers: Sequence[int], server: int | None) -> str | GivenCheckpoint | None:
    """The argument `resume`: a job id as it is, the checkpoints that a path names, or None.

    `server` is the parameter server if its codecs remember anything. Raises: TypeError, ValueError for what can be neither;
    CheckpointError where a path leads to no checkpoint, or to one that does not fit the model.
    """
    if resume is None:
        return None
    if not isinstance(resume, (str, Path)) or not str(resume):
        raise TypeError(f"'resume' must be a job id or a path, got {resume!r}")
    path = Path(resume)
    if not path.exists():
        if isinstance(resume, str) and is_job_id(resume):
            return resume
        raise CheckpointError(f"'resume' must be a job id or the path of a checkpoint, and there is nothing at {resume}")
    return given(holdings_at(path), model, workers, server)


def given(holdings: Holdings, model: Model, workers: Sequence[int], server: int | None) -> GivenCheckpoint:
    """The choice among checkpoints at the submitter.

    Raises: CheckpointError where there is none of a worker, or it does not fit the model.
    """
    choice = choose({workers[0]: holdings.offers}, workers, server)
    if choice is None:
        raise CheckpointError("'resume' names only checkpoints of a parameter server; give one of a worker")
    check_values(model, holdings.load(choice.sources[workers[0]].owner, choice.position))
    return GivenCheckpoint(holdings, choice)

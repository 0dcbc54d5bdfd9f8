"""Resolution of `resume=`: it names an ended job, of which its nodes have checkpoints, or checkpoints that the submitter has.

A run's record says where they are: with the agents that ran it, or on this machine, if it ran in this process or on workers of
its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from nn.model import Model
from rpc import is_job_id
from rpc.submit import RUNS, Run, find_run, runs_in
from rpc.support.logs import SUBMIT_LOGGER, get_logger

from ..engine.progress import Position
from .choose import Choice, choose
from .locate import HeldCheckpoints, held_at, stores_of_run
from .snapshot import CheckpointError, Snapshot
from .state import Resumption, check_epochs, check_values

Resume = str | Path | None
_log = get_logger(SUBMIT_LOGGER)
LAST: Final = "last"
"""The newest run in the directory of a job."""
NODES: Final = "nodes"
RESUMES: Final = "resumes"
ON_AGENTS, ON_LAUNCHED_AGENTS = "agents", "launched agents"
ON_LOCAL_WORKERS, IN_PROCESS = "local workers", "in process"
"""Keys and values, in the record of a run, about its nodes and about the run or checkpoint from which it goes on. Launched
agents end with the program that started them, and their checkpoints with them.
"""


@dataclass(frozen=True)
class LocalCheckpoint:
    """Checkpoints at the submitter, and the choice that was made among them."""

    held: HeldCheckpoints
    choice: Choice

    def resumption(self, node: int) -> Resumption | None:
        """Return the snapshot from which `node` goes on; None: it starts afresh."""
        source = self.choice.sources.get(node)
        if source is None:
            return None
        snapshot = self.held.load(source.owner, self.choice.position)
        return Resumption(snapshot, self.choice.whole, self.held.tables(node), self._others(node, snapshot))

    def _others(self, node: int, snapshot: Snapshot) -> list[Path]:
        """Return the folders of the tables that no node continues; the first worker carries them on."""
        workers = [worker for worker in self.choice.sources if worker >= 0]
        return self.held.others(workers, snapshot.header.attempt) if node == min(workers) else []

    def resources(self, nodes: Iterable[int]) -> dict[str, Any]:
        """Return the same for all `nodes`, in the form in which it travels.

        A snapshot that several nodes need is there once, in `contents` by owner; `of` says which owner's each node takes.
        """
        # told once: with equal states the checkpoint of one worker serves all, and may be large
        contents: dict[int, np.ndarray[Any, np.dtype[np.uint8]]] = {}
        of: dict[int, int] = {}
        for node in nodes:
            source = self.choice.sources.get(node)
            if source is not None and source.owner not in contents:
                snapshot = self.held.load(source.owner, self.choice.position)
                contents[source.owner] = np.frombuffer(b"".join(snapshot.pieces()), np.uint8)
            if source is not None:
                of[node] = source.owner
        return {"contents": contents, "of": of, "whole": self.choice.whole, "said": self.choice.said}

    def tables(self, nodes: Iterable[int]) -> dict[int, list[str]]:
        """Return the folders of the tables of the part that is over, on this machine, by node: its own, "" where it has none,
        and those that it carries on for others.
        """
        found = {}
        first = self.choice.sources[min(worker for worker in self.choice.sources if worker >= 0)]
        snapshot = self.held.load(first.owner, self.choice.position)
        for node in nodes:
            own, others = self.held.tables(node), self._others(node, snapshot)
            if own is not None or others:
                found[node] = ["" if own is None else str(own.absolute()), *(str(other.absolute()) for other in others)]
        return found


@dataclass(frozen=True)
class ResumePoint:
    """Checkpoints from which a job goes on: those that its nodes have of the ended `jobs`, else those that the submitter has.

    `name` stands for it in the record of the run: a job id, or the path of a checkpoint; `run` is its name in `runs/`, if it is
    there.
    """

    name: str
    jobs: tuple[str, ...] = ()
    local: LocalCheckpoint | None = None
    run: str = ""

    @property
    def before(self) -> int:
        """Number of epochs that are known to be trained."""
        return 0 if self.local is None else self.local.choice.position.epoch

    def told(self, epochs: int) -> str:
        """Return the sentence on where the training of a job of so many `epochs` goes on."""
        if self.local is not None and self.before >= epochs:
            return f"The checkpoint is after {self.local.choice.position}: nothing is left to train, for 'epoch' is {epochs}."
        if self.local is not None:
            return self.local.choice.said_of(self.run)
        return f"Training goes on from the newest state of {self.run or f'job {self.name}'}; logs tell which."


def checked_resume(
    resume: Resume, model: Model, epochs: int, workers: Sequence[int], server: int | None, directory: Path
) -> ResumePoint | None:
    """Check the argument `resume` of a job of so many `epochs`; its runs are in `directory`.

    `server` is the parameter server if its codecs remember anything. Raises: TypeError, ValueError for a value that can be
    neither a job nor a path; CheckpointError where it leads to no checkpoint, or to one that does not fit the model or has
    more epochs behind it.
    """
    if resume is None:
        return None
    if not isinstance(resume, (str, Path)) or not str(resume):
        raise TypeError(f"'resume' must be '{LAST}', a job id or a path, got {resume!r}")
    name, jobs, held = _locate(resume, directory, set())
    known = find_run(directory, name)
    run = "" if known is None else known.path.name
    if held is None:
        return ResumePoint(name, tuple(jobs), run=run)
    # as if the first worker held them all: the submitter sends each node what it needs
    choice = choose({workers[0]: held.offers}, workers, server)
    if choice is None:
        # offers of workers are lacking: the values of the model are with workers alone
        raise CheckpointError("'resume' names only checkpoints of a parameter server; give one of a worker")
    # before anything is sent (SUB-46): a checkpoint of another model is refused here, with the variable
    try:
        check_epochs(choice.position, epochs)
        check_values(model, held.load(choice.sources[workers[0]].owner, choice.position))
    except CheckpointError as error:
        newest = next(iter(runs_in(directory)), None) if resume == LAST else None
        if newest is None:
            raise
        raise CheckpointError(f"{error}; '{LAST}' is the run {newest.path.name}, and a name takes another one") from error
    return ResumePoint(name, tuple(jobs), LocalCheckpoint(held, choice), run)


Located = tuple[str, list[str], HeldCheckpoints | None]


def _locate(resume: str | Path, directory: Path, seen: set[str]) -> Located:
    """Return the name for the record, the jobs of which nodes may have checkpoints, and the checkpoints on this machine."""
    if resume == LAST:
        newest = next(iter(runs_in(directory)), None)
        if newest is None:
            raise CheckpointError(f"'resume' is '{LAST}', but there is no run in {(directory / RUNS).absolute()}")
        return _of_run(newest, directory, seen)
    path, text = Path(resume), str(resume)[:200]
    if not os.path.exists(path):
        # the name of a run, as `psgd runs` lists it, may look like a job's id, too
        if isinstance(resume, str) and (named := next((run for run in runs_in(directory) if run.path.name == resume), None)):
            return _of_run(named, directory, seen)
        if not (isinstance(resume, str) and is_job_id(resume)):
            raise CheckpointError(
                f"'resume' must be '{LAST}', a job id or the path of a checkpoint, and there is nothing at {text!r}"
            )
        # a job of this directory may have run in this process or on workers of its own, whose checkpoints are in its folder
        run = find_run(directory, resume)
        return (resume, [resume], None) if run is None else _of_run(run, directory, seen)
    run = run_at(path)
    if run is not None:
        return _of_run(run, directory, seen)
    return str(path.absolute()), [], held_at(path)


def _of_run(run: Run, directory: Path, seen: set[str]) -> Located:
    """Locate the checkpoints of a run; of one that ended before its first checkpoint, those from which it went on itself."""
    # runs that went on from each other in a circle, by a name that was used again
    seen.add(run.job)
    held = HeldCheckpoints(stores_of_run(run))
    if held.offers:
        return run.job, [], held
    # a run that was fetched tells no nodes; launched agents may still be there, within the block that started them
    jobs = [run.job] if run.about.get(NODES, ON_AGENTS) in (ON_AGENTS, ON_LAUNCHED_AGENTS) else []
    before = run.about.get(RESUMES)
    if isinstance(before, str) and before not in seen:
        try:
            name, more, found = _locate(before, run.path.parent.parent, {*seen, before})
        except CheckpointError:  # it has gone meanwhile
            pass
        else:
            if not jobs:
                _log.warning("The run %s has left no checkpoint, so what it went on from is taken.", run.path)
            return run.job if jobs else name, [*jobs, *more], found
    if jobs:
        return run.job, jobs, None
    others = (other for other in runs_in(run.path.parent.parent) if HeldCheckpoints(stores_of_run(other)).offers)
    other = next(others, None)
    raise CheckpointError(
        f"'resume' names the run {run.path}, which has left no checkpoint: it has ended before the first one, or "
        f"'checkpoint_every' was None. "
        + (f"The newest run here that has one is {other.path}" if other else "No run here has any")
    )


def checkpoint_before(run: Run) -> tuple[str, Position] | None:
    """Return the origin of a run without checkpoints, a run by its name, and its newest position; None where none of its
    checkpoints is on this machine.
    """
    directory, seen = run.path.parent.parent, {run.job}
    while isinstance(before := run.about.get(RESUMES), str) and before not in seen:
        seen.add(before)
        earlier = find_run(directory, before)
        try:
            held = held_at(Path(before)) if earlier is None else HeldCheckpoints(stores_of_run(earlier))
        except (CheckpointError, OSError):  # it has gone meanwhile
            return None
        if held.offers:
            # of a path the name alone: pages hold no places of this machine
            name = Path(before).name if earlier is None else earlier.path.name
            return name, max(offer.position for offer in held.offers)
        if earlier is None:
            return None
        run = earlier
    return None


def run_at(path: Path) -> Run | None:
    """Return the run that a path stands for: the folder of the run, or of a node in it; of a directory with runs the newest."""
    if not os.path.isdir(path):
        return None
    path = path.resolve()
    # a path within a run stands for the run, as deep as its folders go
    for folder in (path, *path.parents[:3]):  # <run>/agent-<k>/<job>.<node>/checkpoints
        run = Run.read(folder)
        if run is not None:
            return run
    return next(iter(runs_in(path)), None)

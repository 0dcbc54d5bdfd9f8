"""Runs of a sweep as their folders tell them: found again by identity, with state, figures, bytes and seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from pathlib import Path
from typing import Final

from nn.model.history import VALIDATION
from rpc.submit.run_folder import RECORD, Run, runs_in

from ..record.door import Door, RecordError
from ..record.files import MANIFEST
from ..record.history import BYTES, COUNTED, EPOCH, SECONDS, JobHistory
from ..record.machine import SIMULATED as ON_PLATFORM
from ..record.outcome import OUTCOME, read_outcome

__all__ = [
    "DONE",
    "FAILED",
    "IDENTITY",
    "INTERRUPTED",
    "MEASURED",
    "NOT_RUN",
    "OF_CLIENTS",
    "PER",
    "SIMULATED",
    "Point",
    "Told",
    "found_runs",
    "told_of",
]

IDENTITY: Final = "identity"
"""Fact in the record of a run (`job.json`) that holds its identity."""
DONE: Final = "done"
FAILED: Final = "failed"
INTERRUPTED: Final = "interrupted"
NOT_RUN: Final = "not run"
MEASURED: Final = "measured"
SIMULATED: Final = "simulated"
OF_CLIENTS: Final = "of the clients' clock"
PER: Final = (EPOCH, SECONDS, BYTES)
"""Axes over which runs are drawn."""
_MOST_TEXT: Final = 500


@dataclass(frozen=True)
class Point:
    """End of an epoch of a run.

    Args:
        epoch: its number, from 1.
        seconds: since the first batch, None where no table tells them.
        bytes: that all nodes together had sent, None where no table tells them.
        figures: loss and metrics, on test data with `val_` before the name.
    """

    epoch: int
    seconds: float | None
    bytes: float | None
    figures: Mapping[str, float]

    @property
    def tested(self) -> dict[str, float]:
        """Figures on test data, by name; those of training where there are none."""
        tested = {name.removeprefix(VALIDATION): value for name, value in self.figures.items() if name.startswith(VALIDATION)}
        return tested or dict(self.figures)

    def place(self, per: str) -> float | None:
        """Return its place on an axis; None where no table tells it.

        Args:
            per: the axis, one of PER.
        """
        return {EPOCH: float(self.epoch), SECONDS: self.seconds, BYTES: self.bytes}[per]


@dataclass(frozen=True)
class Told:
    """State and figures of a run.

    Args:
        state: one of DONE, FAILED, INTERRUPTED, NOT_RUN.
        folder: name of its folder in `runs/`, "" where it has none.
        figures: loss and metrics on test data at its end.
        points: the ends of its epochs.
        clock: MEASURED, SIMULATED on a virtual clock, or OF_CLIENTS.
        message: error with which it failed.
    """

    state: str
    folder: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    points: tuple[Point, ...] = ()
    clock: str = MEASURED
    message: str = ""

    @property
    def epochs(self) -> int:
        """Number of epochs that it has trained."""
        return self.points[-1].epoch if self.points else 0

    @property
    def seconds(self) -> float | None:
        """Seconds from its first batch to its last."""
        return self.points[-1].seconds if self.points else None

    @property
    def bytes(self) -> float | None:
        """Bytes that all nodes together have sent."""
        return self.points[-1].bytes if self.points else None


def found_runs(directory: Path, identities: Iterable[str]) -> dict[str, Told]:
    """Return the runs in a directory that have one of these identities: of several, one that is done, else the newest.

    One without a manifest, or whose figures and tables are not those of its manifest, is not done.

    Args:
        directory: the directory with `runs/`.
        identities: those of the runs that are looked for.
    """
    wanted = set(identities)
    found: dict[str, Told] = {}
    for run in runs_in(directory):  # the newest first
        identity = run.about.get(IDENTITY)
        if isinstance(identity, str) and identity in wanted and (identity not in found or found[identity].state != DONE):
            told = _proven(run.path, told_of(run.path))
            if identity not in found or told.state == DONE:
                found[identity] = told
    return found


def _proven(folder: Path, told: Told) -> Told:
    """Return what the folder of a run tells, as that of an interrupted one where it does not agree with its manifest."""
    if told.state != DONE:
        return told
    door = Door(folder)
    try:
        files = door.json(MANIFEST).get("files") if door.has(MANIFEST) else None
        if not isinstance(files, dict):
            raise door.error(MANIFEST, "is missing, or names no files")
        # all that is read of it here: models, which may be large, are left to `psgd verify`
        for name in {OUTCOME, RECORD, *(name for name in files if name.endswith(".csv"))}:
            if not door.has(name) or door.sha256(name) != files.get(name):
                raise door.error(name, f"is not the one of the {MANIFEST} of its run")
    except (OSError, ValueError) as error:
        return Told(INTERRUPTED, told.folder, clock=told.clock, message=str(error)[:_MOST_TEXT])
    return told


def told_of(folder: Path, history: JobHistory | None = None) -> Told:
    """Return state and figures of the run in a folder; a file that is damaged makes it one that was interrupted.

    Args:
        folder: that of the run.
        history: its history, where that was read already.
    """
    try:
        outcome = read_outcome(Door(folder))
    except RecordError:
        outcome = {}
    state = {"done": DONE, "failed": FAILED}.get(outcome.get("state", ""), INTERRUPTED)
    clock = SIMULATED if ON_PLATFORM in outcome.get("environment", {}) else MEASURED
    if state != DONE:
        return Told(state, folder.name, clock=clock, message=str(outcome.get("message", ""))[:_MOST_TEXT])
    # one that is not finite would spoil every mean
    figures = {name: value for name, value in outcome.get("figures", {}).items() if isfinite(value)}
    history = _history(folder) if history is None else history
    return Told(DONE, folder.name, figures, _points(history), OF_CLIENTS if history.rounds else clock)


def _history(folder: Path) -> JobHistory:
    run = Run.read(folder)
    places = sorted(folder.glob("Node-*-Retrieve"))
    files = {int(place.name.removeprefix("Node-").removesuffix("-Retrieve")): sorted(place.glob("*.csv")) for place in places}
    return JobHistory() if run is None else JobHistory.read(files)


def _points(history: JobHistory) -> tuple[Point, ...]:
    ends, sent = history.seconds_until(), history.bytes_until() if history.tells_bytes else {}
    return tuple(
        Point(
            int(row[EPOCH]),
            ends.get((row[EPOCH], inf)),  # at infinity: behind all batches of the epoch
            sent.get((row[EPOCH], inf)),
            {name: value for name, value in row.items() if name != EPOCH and name not in COUNTED},
        )
        for row in history.rows
    )

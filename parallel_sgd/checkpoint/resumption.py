"""Where a node goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from parallel_sgd.report import Earlier

from .position import Position, Progress
from .snapshot import CheckpointError, Snapshot, versions


@dataclass(frozen=True)
class Resumption:
    """A snapshot to go on from; `whole`: with what codecs and optimizers remember of single workers, so that the bits are
    those of an undisturbed run. `owner` is the node whose state it is; `tables` the folder of what it has reported before.
    """

    snapshot: Snapshot
    whole: bool
    tables: Path | None = None

    @property
    def position(self) -> Position:
        """Where training goes on."""
        return self.snapshot.header.position

    @property
    def owner(self) -> int:
        """The node whose state it is."""
        return self.snapshot.header.node

    def progress(self, blocks: int, job: str = "") -> Progress:
        """What a worker of `job` with so many blocks has behind it; another worker may have had more or fewer."""
        header = self.snapshot.header
        done = header.position.epoch * header.batches + header.position.batch
        given = header.progress
        history = given.history.of_job(header.job == job)
        return Progress(given.position, done * blocks, given.seconds, given.evaluation, history)

    def earlier(self) -> Earlier | None:
        """The tables of the part that is over, if they are here."""
        return None if self.tables is None else Earlier(self.tables, self.position)

    def check(self, batch_size: int, batches: int, epochs: int) -> None:
        """Check that the job goes on from there, and that a position within an epoch means the same samples in it.

        Raises: CheckpointError.
        """
        header = self.snapshot.header
        least = header.position.epoch + bool(header.position.batch)
        if least > epochs:
            raise CheckpointError(
                f"The checkpoint is after {header.position}, so 'epoch' must be at least {least}, got {epochs}"
            )
        if header.position.batch and (header.batch_size, header.batches) != (batch_size, batches):
            raise CheckpointError(
                f"The checkpoint is from the middle of an epoch of {header.batches} batches of {header.batch_size} samples, so "
                f"the job must have these too, got {batches} of {batch_size}; take one from the end of an epoch"
            )

    def remarks(self, seed: int) -> list[str]:
        """What keeps the bits from being those of an undisturbed run, in words."""
        header, now = self.snapshot.header, versions()
        found = []
        if header.seed != seed:
            found.append(
                f"The checkpoint is of a job with seed {header.seed}, this one has {seed}: other random numbers follow."
            )
        others = [
            f"{name} {header.versions.get(name)} (here {now[name]})" for name in now if header.versions.get(name) != now[name]
        ]
        if others:
            found.append(f"The checkpoint was made with {', '.join(others)}: the last bits may differ.")
        return found

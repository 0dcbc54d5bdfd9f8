"""Where a node goes on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from parallel_sgd.batches import FIXED, Batches
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

    def progress(self, batches: Batches, blocks: Collection[int], job: str = "") -> Progress:
        """What a worker of `job` with these blocks has behind it; another worker may have had more or fewer."""
        header = self.snapshot.header
        done = header.position.epoch * header.batches + header.position.batch
        steps = done * len(blocks) - header.position.epoch * batches.idle(blocks)
        given = header.progress
        history = given.history.of_job(header.job == job)
        return Progress(given.position, steps, given.seconds, given.evaluation, history)

    def earlier(self) -> Earlier | None:
        """The tables of the part that is over, if they are here."""
        return None if self.tables is None else Earlier(self.tables, self.position)

    def check(self, batches: Batches, order: str, seed: int, epochs: int) -> None:
        """Check that the job goes on from there, and that a position within an epoch means the same samples in it.

        Raises: CheckpointError.
        """
        header = self.snapshot.header
        least = header.position.epoch + bool(header.position.batch)
        if least > epochs:
            raise CheckpointError(
                f"The checkpoint is after {header.position}, so 'epoch' must be at least {least}, got {epochs}"
            )
        if not header.position.batch:
            return
        was, now = (header.samples, header.batch_size), (batches.samples, batches.batch_size)
        if was != now:
            raise CheckpointError(
                f"The checkpoint is from the middle of an epoch of {was[0]} samples in batches of {was[1]}, so the job must "
                f"have these too, got {now[0]} in batches of {now[1]}; take one from the end of an epoch"
            )
        if header.order != order or (order != FIXED and header.seed != seed):
            raise CheckpointError(
                f"The checkpoint is from the middle of an epoch, whose samples are {_dealt(header.order, header.seed)}, so the "
                f"job must have that order too, got {_dealt(order, seed)}; take one from the end of an epoch"
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


def _dealt(order: str, seed: int) -> str:
    return order if order == FIXED else f"{order} by seed {seed}"

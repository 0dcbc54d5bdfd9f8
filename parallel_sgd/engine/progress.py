"""Progress of training, and the batches that a state is made of: they travel with it, so that a node that goes on from a
checkpoint knows them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

# below the ids of the submitter (-1) and of the parameter server (-2)
NOBODY: Final = -3
"""Stands for the node of a block of which no copy was merged."""
Row = tuple[int, int, int, int, int, int]
_NO_BLOCK: Final = -4  # fills up the row of a stretch that has fewer blocks than another one
# of the ledger; `committed` is 0 for a copy of a block that was computed and not merged
COLUMNS: Final = ("epoch", "batch", "block", "node", "attempt", "committed")


class Stretch(NamedTuple):
    """Batches `begin` to `end` of an epoch, without `end`, of which the same nodes computed the same blocks.

    All are counted from 0; `nodes` has the node of each block.
    """

    attempt: int
    epoch: int
    begin: int
    end: int
    nodes: tuple[int, ...]

    def rows(self) -> Iterator[Row]:
        """Yield a row of the ledger per block; people count epochs, batches and attempts from 1."""
        for batch in range(self.begin, self.end):
            for block, node in enumerate(self.nodes):
                if node != NOBODY:
                    yield self.epoch + 1, batch + 1, block, node, self.attempt + 1, 1


class Part(NamedTuple):
    """Part of a training that went on: the batches from a position on that one attempt trained.

    Args:
        steps: block steps of all workers in a batch.
        epoch: completed epochs where it begins.
        batch: completed batches of the next epoch where it begins.
        last: block steps of all workers in the last batch of an epoch.
        workers: number of its workers; 0 for parts of a release that did not tell it.
        owner: worker with the state that all of them began with, without the memory of single workers; NOBODY where each
            worker had its own, or all had the same.
    """

    steps: int
    epoch: int
    batch: int
    last: int
    workers: int
    owner: int = NOBODY

    @property
    def position(self) -> Position:
        return Position(self.epoch, self.batch)


@dataclass(frozen=True)
class History:
    """All batches behind a state, in order.

    Args:
        attempts: number of the attempts of the jobs that this one goes on from.
        stretches: the batches, in the order in which they were applied.
    """

    attempts: int = 0
    stretches: tuple[Stretch, ...] = ()

    def of_job(self, same: bool) -> History:
        """Return the history for an attempt that goes on from here, of the same job or of another, with attempts that count
        on.
        """
        # the same job counts its attempts itself; another one begins at 0 again, behind those of this one
        if same or not self.stretches:
            return self
        return History(1 + max(stretch.attempt for stretch in self.stretches), self.stretches)

    @property
    def sizes(self) -> dict[int, int]:
        """Blocks of a batch by attempt, which counts from 1 as in the ledger; also those that were not merged."""
        return {stretch.attempt + 1: len(stretch.nodes) for stretch in self.stretches}

    def to_array(self) -> NDArray[np.int32]:
        """Return the stretches, a row each; where blocks are redundant there may be one for every batch, as chance names
        nodes.
        """
        blocks = max((len(stretch.nodes) for stretch in self.stretches), default=0)
        # rows of an array have one length; stretches of an earlier job may have had more blocks
        rows = [(*stretch[:4], *stretch.nodes, *[_NO_BLOCK] * (blocks - len(stretch.nodes))) for stretch in self.stretches]
        return np.array(rows, np.int32).reshape(len(rows), 4 + blocks)

    @classmethod
    def of_array(cls, attempts: int, table: NDArray[Any]) -> History:
        """Make the history again.

        Args:
            attempts: number of the attempts.
            table: the table that `to_array` made.

        Raises: ValueError for anything else.
        """
        # the file is sealed, and yet a stranger's: types are looked at before numbers are used
        if type(attempts) is not int or table.ndim != 2 or table.shape[1] < 4 or table.dtype != np.int32:
            raise ValueError(f"a history must be a table of int32, got {table.dtype} {table.shape} of {attempts!r} attempts")
        stretches = []
        for attempt, epoch, begin, end, *nodes in table.tolist():
            stretches.append(Stretch(attempt, epoch, begin, end, tuple(node for node in nodes if node != _NO_BLOCK)))
        return cls(attempts, tuple(stretches))


# compares as a tuple, so that positions are ordered by time
class Position(NamedTuple):
    """Position in a training; as both numbers count from 0, it also names the batch that comes next.

    Args:
        epoch: completed epochs.
        batch: completed batches of the epoch that follows.

    >>> Position(2, 0) > Position(1, 7)
    True
    """

    epoch: int
    batch: int

    def __str__(self) -> str:
        epochs = f"{self.epoch} epoch{'s' if self.epoch != 1 else ''}"
        return f"{epochs} and {self.batch} batch{'es' if self.batch != 1 else ''}" if self.batch else epochs

    @property
    def next(self) -> str:
        """Epoch and batch that follow, for people, counted from 1."""
        return f"epoch {self.epoch + 1}, batch {self.batch + 1}" if self.batch else f"epoch {self.epoch + 1}"


START: Final = Position(0, 0)


@dataclass(frozen=True)
class Progress:
    """Progress of a worker: the batches behind it, and the steps and seconds that they took.

    Args:
        position: the batches behind it.
        steps: its block steps.
        seconds: seconds of training.
        evaluation: the evaluation that counts so far.
        history: the batches that went into its state; empty where there is no ledger.
    """

    position: Position = START
    steps: int = 0
    seconds: float = 0.0
    evaluation: Mapping[str, float] = field(default_factory=dict)
    history: History = field(default_factory=History)

"""The batches that a state is made of. They travel with it, so that whoever goes on from a checkpoint knows them all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

NOBODY: Final = -3
"""Stands for the node of a block of which no copy was merged."""
Row = tuple[int, int, int, int, int, int]
COLUMNS: Final = ("epoch", "batch", "block", "node", "attempt", "committed")


class Stretch(NamedTuple):
    """The batches `begin` to `end` of an epoch, without `end`, of which the same nodes computed the same blocks.

    All are counted from 0; `nodes` has the node of each block.
    """

    attempt: int
    epoch: int
    begin: int
    end: int
    nodes: tuple[int, ...]

    def rows(self) -> Iterator[Row]:
        """A row of the ledger per block; people count epochs and batches from 1."""
        for batch in range(self.begin, self.end):
            for block, node in enumerate(self.nodes):
                if node != NOBODY:
                    yield self.epoch + 1, batch + 1, block, node, self.attempt, 1


@dataclass(frozen=True)
class History:
    """All batches behind a state, in order. `attempts`: how many there were of the jobs that this one goes on from."""

    attempts: int = 0
    stretches: tuple[Stretch, ...] = ()

    def of_job(self, same: bool) -> History:
        """The history for an attempt that goes on from here, of the same job or of another, whose attempts count on."""
        if same or not self.stretches:
            return self
        return History(1 + max(stretch.attempt for stretch in self.stretches), self.stretches)

    @classmethod
    def parse(cls, fields: Any) -> History:
        """A history from a checkpoint's description.

        Raises: ValueError, TypeError or KeyError for anything else.
        """
        attempts, found = fields["attempts"], fields["stretches"]
        stretches = tuple(Stretch(attempt, epoch, begin, end, tuple(nodes)) for attempt, epoch, begin, end, nodes in found)
        whole = (attempts, *(number for stretch in stretches for number in (*stretch[:4], *stretch.nodes)))
        if not all(type(number) is int for number in whole):
            raise ValueError("'history' must be made of integers")
        return cls(attempts, stretches)

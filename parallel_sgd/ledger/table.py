"""The ledger of one worker, as a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..table import Table
from .history import COLUMNS, History, Row, Stretch


class LedgerTable:
    """Writes `LEDGER-<title>-N(i).csv`: a row per block of every batch that this worker has applied.

    `committed` is 1 for the copy of a block that was merged, 0 for a copy of this worker's own, of `blocks`, that was not
    needed, and for what a restart has undone. The file begins with the batches that the state is made of, `begun`, and with
    what `earlier` rows have beyond them. Rows go out with `save`, or wait until the disk takes them.
    """

    def __init__(
        self, path: Path, node: int, blocks: Iterable[int], begun: History, earlier: Iterable[Sequence[str]] = ()
    ) -> None:
        self._node = node
        self._blocks = tuple(sorted(blocks))
        self._waiting: list[Stretch] = []
        stands = [row for stretch in begun.stretches for row in stretch.rows()]
        known = {row[:5] for row in stands}
        undone = {(*row[:5], 0) for row in _numbers(earlier) if row[:5] not in known}
        self._table = Table(path, [COLUMNS, *sorted([*stands, *undone])])

    def applied(self, stretch: Stretch) -> None:
        """More batches are in the weights."""
        self._waiting.append(stretch)

    def save(self) -> None:
        """Bring the rows into the file."""
        self.table().save()

    def table(self) -> Table:
        """The file, with the rows that have come."""
        for stretch in self._waiting:
            self._table.add(self._rows(stretch))
        self._waiting.clear()
        return self._table

    def _rows(self, stretch: Stretch) -> Iterable[Row]:
        yield from stretch.rows()
        for batch in range(stretch.begin, stretch.end):
            for block in self._blocks:
                if stretch.nodes[block] != self._node:
                    yield stretch.epoch + 1, batch + 1, block, self._node, stretch.attempt + 1, 0


def _numbers(rows: Iterable[Sequence[str]]) -> Iterable[Row]:
    """Rows that were written as a whole."""
    for row in rows:
        if len(row) == len(COLUMNS) and all(text.isdecimal() for text in row):
            epoch, batch, block, node, attempt, committed = map(int, row)
            yield epoch, batch, block, node, attempt, committed

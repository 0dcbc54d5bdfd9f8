"""Part of the ledger that one worker keeps: batch by batch, the node of the copy of each block that it has merged, and the file
of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nn.extension import is_ours
from parallel_sgd.codec.interfaces import Tracking, copies_of
from parallel_sgd.engine.block_tree import Copy

from ..engine.progress import COLUMNS, NOBODY, History, Row, Stretch
from .table import Table

if TYPE_CHECKING:
    from parallel_sgd.codec.bank import CodecBank

_MOST_ORDERS = 1024


class Recorder:
    """History of one worker, from `begun` on; `attempt` is that of its job. `table` is told too.

    It believes the codecs (`Tracking.copies`). Copies of a block are equal to the bit, and variables may take different ones:
    the first variable with a codec that keeps track names the node; a block that any of them lacks has no node.
    """

    def __init__(self, bank: CodecBank, attempt: int, begun: History, table: LedgerTable | None = None) -> None:
        self._bank = bank
        # a codec of this project says nothing unless it is derived from Tracking, and need not be asked in each batch
        self._tracking = [each for each in bank.codecs if isinstance(each, Tracking) or not is_ours(type(each))]
        self._attempts = begun.attempts
        self._attempt = begun.attempts + attempt
        self._stretches = list(begun.stretches)
        self._table = table
        self._holders = bank.assignment.block_2_node
        # without redundancy there is one answer for every batch, made once
        self._only = tuple(holders[0] for holders in self._holders) if bank.assignment.redundancy == 1 else None
        self._known: dict[tuple[Copy, ...], tuple[int, ...]] = {}

    @property
    def history(self) -> History:
        return History(self._attempts, tuple(self._stretches))

    def applied(self, epoch: int, batch: int) -> None:
        """Note that the results of this batch, counted from 0, are in the weights."""
        nodes = self._nodes()
        now = Stretch(self._attempt, epoch, batch, batch + 1, nodes)
        last = self._stretches[-1] if self._stretches else now
        # consecutive batches with the same nodes are one stretch: the history of a long job stays short
        if (last.attempt, last.epoch, last.end, last.nodes) == (self._attempt, epoch, batch, nodes):
            self._stretches[-1] = Stretch(self._attempt, epoch, last.begin, batch + 1, nodes)
        else:
            self._stretches.append(now)
        if self._table is not None:
            self._table.applied(now)

    def _nodes(self) -> tuple[int, ...]:
        told: tuple[int, ...] | None = None
        for codec in self._tracking:
            copies = copies_of(codec)
            # a codec that does not keep track says nothing about the others
            if copies is not None:
                # the same orders of arrival come again and again, so each is resolved once
                nodes = self._known.get(copies) or self._resolve(copies)
                if told is None:
                    told = nodes
                # a block that any variable lacks was not merged as a whole
                elif NOBODY in nodes:
                    told = tuple(node if there != NOBODY else NOBODY for node, there in zip(told, nodes, strict=True))
        return told or self._only or self._likely()

    def _resolve(self, copies: tuple[Copy, ...]) -> tuple[int, ...]:
        nodes = [NOBODY] * len(self._holders)
        for (low, high), node in copies:
            nodes[low:high] = [node] * (high - low)
        if len(self._known) >= _MOST_ORDERS:  # of arrival there can be any number
            self._known.clear()
        return self._known.setdefault(copies, tuple(nodes))

    def _likely(self) -> tuple[int, ...]:
        """Return the nodes of the copies where the codecs do not tell: the own copy, which is there first, or that of the first
        worker which is there.
        """
        here = {self._bank.node_id, *self._bank.peers()}
        own = self._bank.node_id
        return tuple(
            own if own in holders else next((node for node in holders if node in here), holders[0]) for holders in self._holders
        )


class LedgerTable:
    """Table `LEDGER-<title>-N(i).csv`: a row per block of every batch that this worker has applied.

    `committed` is 1 for the copy of a block that was merged, 0 for a copy of this worker's own, of `blocks`, that was not
    needed, and for rows that a restart has undone. The file begins with the batches that the state is made of, `begun`, and
    with the rows that `earlier` has beyond them. Rows go out with `save`, or wait until the disk takes them.
    """

    def __init__(
        self, path: Path, node: int, blocks: Iterable[int], begun: History, earlier: Iterable[Sequence[str]] = ()
    ) -> None:
        self._node = node
        self._blocks = tuple(sorted(blocks))
        self._waiting: list[Stretch] = []
        stands = [row for stretch in begun.stretches for row in stretch.rows()]
        # without `committed`: a row that stands now must not be there as undone as well
        known = {row[:5] for row in stands}
        undone = {(*row[:5], 0) for row in _numbers(earlier) if row[:5] not in known}
        rows = sorted([*stands, *undone])
        self._table = Table(path, [COLUMNS, *rows], lasting=bool(rows))

    def applied(self, stretch: Stretch) -> None:
        self._waiting.append(stretch)

    def save(self) -> None:
        self.table().save()

    def table(self) -> Table:
        for stretch in self._waiting:
            self._table.add(self._rows(stretch))
        self._waiting.clear()
        return self._table

    def _rows(self, stretch: Stretch) -> Iterable[Row]:
        yield from stretch.rows()
        # copies of this worker's own that lost against another one (INV-3)
        for batch in range(stretch.begin, stretch.end):
            for block in self._blocks:
                if stretch.nodes[block] != self._node:
                    yield stretch.epoch + 1, batch + 1, block, self._node, stretch.attempt + 1, 0


def _numbers(rows: Iterable[Sequence[str]]) -> Iterable[Row]:
    """Yield the rows that were written as a whole, as numbers."""
    for row in rows:
        # a worker that was killed may have left half a row
        if len(row) == len(COLUMNS) and all(text.isdecimal() for text in row):
            epoch, batch, block, node, attempt, committed = map(int, row)
            yield epoch, batch, block, node, attempt, committed

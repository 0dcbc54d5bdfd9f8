"""Ledger of a job, from the files that its workers have left: the node that computed each block that went into the weights.

Its committed rows are every block of every batch exactly once, through all failures on the way; `problems` tells where not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpc.support.files import publish
from rpc.support.logs import SUBMIT_LOGGER, get_logger

from ..engine.progress import COLUMNS
from .bounds import MOST_BLOCKS, MOST_EPOCHS
from .door import MOST_TABLE, Door, RecordError
from .tables import read_table, warn

__all__ = ["Extent", "Grid", "Ledger", "collect"]

Table = NDArray[np.int64]
EPOCH, BATCH, BLOCK, NODE, ATTEMPT, COMMITTED = range(len(COLUMNS))
_MOST_TOLD = 5
_MOST_COUNT = 1 << 53
_LOWEST = np.array([1, 1, 0, -MOST_BLOCKS, 1, 0])
# bounds of what may stand in a row: sums and indices below rely on them
_HIGHEST = np.array([MOST_EPOCHS, 1 << 53, MOST_BLOCKS, MOST_BLOCKS, 1 << 53, 1])
#: Blocks that may be looked for beyond those that there are four times over: a table may claim any number of batches.
_MOST_LACKING = 1 << 12


@dataclass(frozen=True)
class Grid:
    """Batches and blocks that a job is to apply: in every epoch so many batches of so many blocks.

    Args:
        epochs: number of epochs.
        batches: batches of an epoch.
        blocks: blocks of a batch.
        redundancy: how many workers compute each block.
        resumed: it began with another job, in which epochs may have had another size; then an epoch need only be complete in
            itself, but for the last.
        before: epochs that the other job is known to have trained, of which the last may be one.
        sizes: blocks of a batch of the attempts of which the state to go on from was made, by number; all others have
            `blocks`. Empty where workers told none: then an attempt has as many as any batch of it has applied.
    """

    epochs: int
    batches: int
    blocks: int
    redundancy: int = 1
    resumed: bool = False
    before: int = 0
    sizes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Extent:
    """Extent of a job, as its workers tell it with their results.

    Args:
        batches: batches of an epoch.
        epochs: number of epochs, where callbacks have ended the job; None for that of the options.
        sizes: as in `Grid`.
        before: as in `Grid`.
    """

    batches: int
    epochs: int | None
    sizes: Mapping[int, int]
    before: int

    @classmethod
    def told(cls, results: Mapping[int, Mapping[str, Any]]) -> Extent:
        """Read the extent in the results of the nodes, which may be anything.

        Raises: ValueError where no worker tells its batches.
        """
        workers = [content for node, content in sorted(results.items()) if node >= 0]
        batches = max(content["batches"] for content in workers if _is_count(content.get("batches")))
        epochs = next((content["epochs"] for content in workers if _is_count(content.get("epochs"))), None)
        before = next((content["before"] for content in workers if _is_count(content.get("before"))), 0)
        return cls(batches, epochs, next(filter(None, map(_sizes_told, workers)), {}), before)


def _sizes_told(content: Mapping[str, Any]) -> dict[int, int]:
    """Return the blocks of a batch of each attempt before, by number, as a worker tells them."""
    rows = content.get("sizes")
    if rows and isinstance(rows, list) and all(isinstance(row, list) and len(row) == 2 for row in rows):
        sizes = {attempt: blocks for attempt, blocks in rows if _is_count(attempt) and _is_count(blocks)}
        if len(sizes) == len(rows) and max(sizes.values()) <= MOST_BLOCKS:
            return sizes
    return {}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and 0 < value <= _MOST_COUNT


@dataclass(frozen=True)
class Ledger:
    """Table of the node of the copy of each block that went into the weights.

    Args:
        path: the file of the ledger.
        rows: the columns epoch, batch, block, node, attempt, committed, sorted, as in the file: epochs, batches and attempts
            count from 1, blocks and nodes from 0. `committed` is 1 for the copy that was merged into the state that training
            ended with; 0 for a copy that was not needed, because another one of the same block had come first, and for one that
            was applied but undone by a restart. Under `on_failure="shrink"` nodes are those of the row's attempt.
        problems: says in words which blocks were not applied exactly once; it is empty where all were.

    >>> table = np.array([[1, 1, 0, 0, 1, 1], [1, 1, 1, 1, 1, 1]])
    >>> Ledger.of([table], Grid(epochs=1, batches=1, blocks=2)).problems
    ()
    >>> Ledger.of([table[:1]], Grid(epochs=1, batches=1, blocks=2)).problems
    ('block 1 of epoch 1, batch 1 was not applied',)
    """

    path: Path
    rows: Table
    problems: tuple[str, ...] = ()

    @property
    def committed(self) -> Table:
        found: Table = self.rows[self.rows[:, COMMITTED] == 1]
        return found

    def save(self) -> None:
        text = [",".join(COLUMNS), *(",".join(map(str, row)) for row in self.rows.tolist())]
        publish(self.path, "\n".join(text) + "\n", 0o644)

    @classmethod
    def of(cls, tables: Sequence[Table], grid: Grid, path: Path = Path()) -> Ledger:
        """Make the ledger of a job, out of those of its workers.

        All workers apply the same batches, and each notes the copies that it has merged. The copy of a redundant block that
        counts is that of the first of `tables` that has the batch; those that others took have `committed` 0.

        Args:
            tables: the rows of each worker.
            grid: the batches and blocks that were to be applied.
            path: the file of the ledger.
        """
        # from which table each row comes: the same row in two tables is one claim of two workers
        source = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
        every = np.concatenate([np.empty((0, len(COLUMNS)), np.int64), *tables])
        stands = every[:, COMMITTED] == 1
        claims, source = every[stands], source[stands]
        # of each block the claim of the first table counts
        keys, first, place = _by_block(claims, source)
        twice = _twice(claims, source, first[place], place, grid.redundancy)
        problems = [*_holes(keys, claims[first, ATTEMPT], grid), *_doubles(claims, place, twice)]
        counted = np.zeros(len(claims), bool)
        counted[first] = True
        every[stands, COMMITTED] = counted | twice
        return cls(path, _unique(every), tuple(problems))


def _by_block(claims: Table, source: NDArray[np.int64]) -> tuple[Table, NDArray[np.int64], NDArray[np.int64]]:
    """Return the (epoch, batch, block) there are; for each the first claim, by source; and for each claim the place of its
    block.
    """
    # by source first, so that `first` is the first table's
    order = np.lexsort((claims[:, NODE], claims[:, ATTEMPT], source))
    # rows of keys, each with its first claim and the place of every claim
    keys, first, place = np.unique(claims[order, : BLOCK + 1], axis=0, return_index=True, return_inverse=True)
    back = np.empty(len(claims), np.int64)
    back[order] = place.reshape(-1)
    return keys, order[first], back


def _twice(
    claims: Table, source: NDArray[np.int64], first: NDArray[np.int64], place: NDArray[np.int64], redundancy: int
) -> NDArray[np.bool_]:
    """Mark the claims that are not those of their block's first one, and are no other copy of the same computation either.

    Within one worker's table there may be no other; between two, one of the same attempt where blocks are redundant.
    """
    own = claims[first]
    # another node or attempt than the first claim has
    other = (claims[:, NODE : ATTEMPT + 1] != own[:, NODE : ATTEMPT + 1]).any(axis=1)
    # with redundancy each worker merges the copy that came first to it: of the same attempt that is right
    copy = (source != source[first]) & (claims[:, ATTEMPT] == own[:, ATTEMPT]) & (redundancy > 1)
    _, inverse, times = np.unique(np.stack([place, source]), axis=1, return_inverse=True, return_counts=True)
    # the same block twice in one worker's table was applied twice
    again: NDArray[np.bool_] = times[inverse.reshape(-1)] > 1
    doubled: NDArray[np.bool_] = (other & ~copy) | again
    return doubled


def _holes(keys: Table, attempts: NDArray[np.int64], grid: Grid) -> list[str]:
    """List the blocks that were not applied, and those that there are not.

    Args:
        keys: epoch, batch and block of each block that was applied.
        attempts: the attempt of each.
        grid: the blocks that were to be applied.
    """
    there = {tuple(key) for key in keys.tolist()}
    wanted: set[tuple[Any, ...]] = set()
    room = 4 * len(keys) + _MOST_LACKING
    # a job before may have dealt its batches to other workers; within an attempt all batches have as many blocks
    sizes_of = {
        each: grid.sizes.get(each, grid.blocks) if grid.sizes else int(keys[attempts == each, BLOCK].max()) + 1
        for each in set(attempts.tolist())
        if grid.resumed
    }
    for epoch in range(1, grid.epochs + 1):
        place = keys[:, EPOCH] == epoch
        own, batches = keys[place], grid.batches
        # a job before may have had another size of epoch: it must be complete in itself
        of_before = grid.resumed and (epoch < grid.epochs or epoch <= grid.before) and len(own) > 0
        if of_before:
            batches = int(own[:, BATCH].max())
        known = sizes_of if of_before or grid.sizes else {**sizes_of, max(sizes_of, default=0): grid.blocks}
        sizes = _sizes(own, attempts[place], known) if grid.resumed else {}
        if (room := room - batches * max([grid.blocks, *sizes.values()])) < 0:
            every = batches * grid.blocks
            return [f"of epoch {epoch} {len(own)} of {every} blocks were applied, and others of other epochs were not"]
        blocks = grid.blocks
        for batch in range(1, batches + 1):
            # one that was not applied at all has as many as the one before
            blocks = sizes.get(batch, blocks)
            wanted.update((epoch, batch, block) for block in range(blocks))
    lacking = [f"{_place(key)} was not applied" for key in sorted(wanted - there)]
    return _shortened(lacking) + _shortened(
        [f"{_place(key)} does not exist, but was applied" for key in sorted(there - wanted)]
    )


def _sizes(own: Table, attempts: NDArray[np.int64], sizes_of: Mapping[int, int]) -> dict[int, int]:
    """Return how many blocks each batch of an epoch has, where any of them was applied.

    Args:
        own: the blocks of the epoch that were applied.
        attempts: the attempt of each.
        sizes_of: by attempt, the blocks of its batches.
    """
    found: dict[int, int] = {}
    for batch, attempt in sorted({*zip(own[:, BATCH].tolist(), attempts.tolist(), strict=True)}):
        found[batch] = max(found.get(batch, 0), sizes_of[attempt])
    return found


def _doubles(claims: Table, place: NDArray[np.int64], twice: NDArray[np.bool_]) -> list[str]:
    """List the blocks that were applied more than once, and the nodes of the copies."""
    said, blocks = [], sorted(set(place[twice].tolist()))  # `np.unique` would load numpy.ma
    for block in blocks:
        rows = claims[place == block].tolist()
        copies = sorted({(attempt, node) for *_, node, attempt, _ in rows})
        copies = copies if len(copies) > 1 else copies * 2  # or even more often
        whose = " and ".join(f"of node {node} in attempt {attempt}" for attempt, node in copies)
        said.append(f"{_place(rows[0])} was applied {len(copies)} times, {whose}")
        if len(said) > _MOST_TOLD:
            break
    return _shortened(said, len(blocks))


def _place(key: Iterable[int]) -> str:
    epoch, batch, block, *_ = key
    return f"block {block} of epoch {epoch}, batch {batch}"


def _shortened(said: list[str], count: int | None = None) -> list[str]:
    count = len(said) if count is None else count
    return said if count <= _MOST_TOLD else [*said[:_MOST_TOLD], f"and {count - _MOST_TOLD} more"]


def _unique(rows: Table) -> Table:
    """Return the rows sorted, every one once; of one that some call committed and others not, the committed one."""
    # committed first among equal rows, so that it is the one that stays
    ordered: Table = rows[np.lexsort((-rows[:, COMMITTED], *(rows[:, column] for column in range(ATTEMPT, -1, -1))))]
    same = np.zeros(len(ordered), bool)
    same[1:] = (ordered[1:, :COMMITTED] == ordered[:-1, :COMMITTED]).all(axis=1)
    found: Table = ordered[~same]
    return found


_log = get_logger(SUBMIT_LOGGER)


def collect(title: str, files: Mapping[int, list[Path]], grid: Grid) -> Ledger | None:
    """Write `LEDGER-<title>.csv` beside the first worker's own, add it to that one's `files`, and warn of its problems.

    Args:
        title: title of the job.
        files: by node, the files that it has left.
        grid: the batches and blocks that were to be applied.

    Returns: None where the workers keep no ledger, because each trains a model of its own.
    """
    found: dict[int, Path] = {}
    for node, paths in sorted(files.items()):
        for folder in {path.parent for path in paths}:
            (folder / f"LEDGER-{title}.csv").unlink(missing_ok=True)  # of the last run of this title
        found.update((node, path) for path in paths if path.name == f"LEDGER-{title}-N({node}).csv")
    if not found:
        return None
    # equal contents are parsed once: under synchronous types all tables are the same
    contents: dict[bytes, int] = {}
    for node, path in found.items():
        try:
            contents.setdefault(Door(path.parent).read(path, MOST_TABLE), node)
        except (OSError, RecordError) as error:
            _log.warning("The ledger of node(%s) cannot be read: %s", node, error)
    tables = []
    for content, node in contents.items():
        try:
            tables.append(_table(content))
        except ValueError:  # one row of it may be the reason
            # row by row, and slower: what can be read counts
            columns, remark = read_table(Door(found[node].parent), found[node])
            warn([remark])
            tables.append(np.array([columns.get(name, []) for name in COLUMNS], np.float64).T.astype(np.int64))
    # beside the first worker's files, where people look
    home = min(found)
    ledger = Ledger.of(tables, grid, found[home].parent / f"LEDGER-{title}.csv")
    ledger.save()
    files[home].append(ledger.path)
    if ledger.problems:
        _log.warning("Not every block was applied exactly once (%s): %s.", ledger.path, "; ".join(ledger.problems))
    return ledger


def _table(content: bytes) -> Table:
    """Return the rows of a file, without one that was not written to its end.

    Raises: ValueError for a file that is no ledger, or has a row that cannot be one.
    """
    # behind the last whole line there is half a row
    end = content.rfind(b"\n") + 1
    file = BytesIO(content[:end])
    head = file.readline(200).decode("utf-8").rstrip("\r\n")
    if tuple(head.split(",")) != COLUMNS:
        raise ValueError(f"it begins with {head[:80]!r}, not with {','.join(COLUMNS)!r}")
    # `loadtxt` warns of a file without rows
    if file.tell() == end:
        return np.empty((0, len(COLUMNS)), np.int64)
    table = np.loadtxt(file, np.int64, delimiter=",", ndmin=2)  # line by line: a list of all takes 30 times the file
    if table.shape[1] != len(COLUMNS):
        raise ValueError(f"its rows have {table.shape[1]} columns, not {len(COLUMNS)}")
    low, high = table.min(axis=0), table.max(axis=0)
    if (low < _LOWEST).any() or (high > _HIGHEST).any():
        raise ValueError("it has a number that is out of its bounds")
    return table

"""Samples of block steps: by how many each row of a table `TR` counts in a mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..engine.batches import BLOCK_COLUMNS, Batches

Place = tuple[int, int]  # epoch and batch, from 1


class BlockSamples:
    """Samples of the block steps of a training with a shorter last batch in each epoch, as its tables `BL` tell them.

    Each table has the blocks of all workers, from the first batch of each part of the training on. Rows of batches before the
    first part that is told, as of a run that an earlier release has begun, count as whole blocks.

    Args:
        tables: the tables, of which one is enough; none where all block steps count alike.
    """

    def __init__(self, tables: Iterable[Mapping[str, Sequence[float | str]]] = ()) -> None:
        self._blocks: dict[Place, dict[int, dict[int, None]]] = {}
        self._batches: dict[Place, Batches] = {}
        for table in tables:
            for row in zip(*(table.get(name, ()) for name in BLOCK_COLUMNS), strict=False):
                worker, epoch, batch, block, samples, size, count = map(int, row)
                begin = epoch, batch
                # rows of a node may hold anything (RUN-8)
                if not 0 <= block < count or size < 1 or samples < size * count:
                    continue
                self._batches.setdefault(begin, Batches(samples, size, count))
                # in the order of the rows, which is that of the steps; as keys, since all workers tell the same
                self._blocks.setdefault(begin, {}).setdefault(worker, {})[block] = None
        self._begins = sorted(self._batches)

    def __bool__(self) -> bool:
        return bool(self._begins)

    def _begin(self, place: Place) -> Place:
        return next((begin for begin in reversed(self._begins) if begin <= place), self._begins[0])

    def of_batch(self, place: Place) -> int:
        """Return the samples of a batch.

        Args:
            place: number of its epoch and its own, from 1.
        """
        batches = self._batches[self._begin(place)]
        return batches.tail if place[1] > batches.whole else batches.batch_size

    def of_steps(self, worker: int, places: Iterable[Place]) -> list[int]:
        """Return the samples of each block step of a worker, in the order of its rows.

        Args:
            worker: number of the worker.
            places: epoch and batch of each row, from 1.
        """
        found = []
        before: Counter[Place] = Counter()
        known: dict[Place, list[int]] = {}
        for place in places:
            begin = self._begin(place)
            batches = self._batches[begin]
            size = batches.block_size
            if place[1] > batches.whole:
                if begin not in known:
                    blocks = self._blocks[begin].get(worker, {})
                    sizes = (batches.rows(batches.whole, block) for block in blocks if block < batches.block_count)
                    # a block without samples is no step
                    known[begin] = [rows.stop - rows.start for rows in sizes if rows.stop > rows.start]
                if before[place] < len(known[begin]):
                    size = known[begin][before[place]]
                before[place] += 1
            found.append(size)
        return found

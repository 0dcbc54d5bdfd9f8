"""Order of the training set in an epoch, its batches, and the blocks of each."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from nn.arrays import Array, MaybeNone, empty
from nn.model.batches import select_rows
from nn.random import keyed

if TYPE_CHECKING:
    from nn.dataset.transforms.buckets import Cuts

__all__ = ["FIXED", "ORDERS", "SHUFFLED", "SHUFFLED_IN_BLOCKS", "Batches", "Rounds"]

FIXED: Final = "fixed"
SHUFFLED: Final = "shuffled"
SHUFFLED_IN_BLOCKS: Final = "shuffled in blocks"
ORDERS: Final = (FIXED, SHUFFLED, SHUFFLED_IN_BLOCKS)
"""Orders of the samples in epochs: all as the training set does; each in its own way; each in its own way, every sample left in
its block, for a training set that by its order says which block gets which samples."""
BLOCK_COLUMNS: Final = ("Worker", "Epochs", "Batches", "Block", "Samples", "Block size", "Blocks")
"""Columns of the table `BL`: a row per block of each worker, from an epoch and batch on, with the arguments of `Batches`."""


class Batches:
    """Batches of an epoch. A batch is `block_size` times `block_count` consecutive samples of the epoch's order; block b of it
    is its b-th slice.

    `count` batches make an epoch, of which the first `whole` are full. The `tail`, t samples that do not fill one, make the
    last: of B blocks, block b holds its samples floor(b t / B) to floor((b + 1) t / B), so some hold none where t < B.

    Args:
        samples: number of samples of the training set.
        block_size: samples of one block.
        block_count: blocks of one batch.

    Raises: ValueError when there is not a single full batch.
    """

    def __init__(self, samples: int, block_size: int, block_count: int) -> None:
        self.samples = samples
        self.block_size = block_size
        self.block_count = block_count
        self.batch_size = block_size * block_count
        if samples < self.batch_size:
            raise ValueError(
                f"The training set must hold at least one batch of {self.batch_size} samples "
                f"(block_size {block_size} x {block_count} blocks), got {samples}; a smaller 'block_size' takes fewer"
            )
        self.whole, self.tail = divmod(samples, self.batch_size)
        self.count = self.whole + bool(self.tail)

    def rows(self, batch: int, block: int) -> slice:
        """Return the places of one block's samples in the order of the epoch.

        Args:
            batch: number of the batch, from 0.
            block: id of the block.
        """
        start = batch * self.batch_size
        if batch < self.whole:
            return slice(start + block * self.block_size, start + (block + 1) * self.block_size)
        # integer division of running products: sizes differ by one at most, and the slices cover the tail without a gap
        blocks, tail = self.block_count, self.tail
        return slice(start + block * tail // blocks, start + (block + 1) * tail // blocks)

    def steps(self, dealt: Collection[Collection[int]]) -> tuple[int, int]:
        """Count the block steps of all workers in a batch, and in the last one of an epoch.

        Args:
            dealt: the blocks of each worker.
        """
        every = sum(map(len, dealt))
        return every, every - sum(map(self.idle, dealt))

    def idle(self, blocks: Collection[int]) -> int:
        """Count those of `blocks` that have no samples in the tail."""
        return sum(not factor for factor in self.tail_factors(blocks).values())

    def tail_factors(self, blocks: Collection[int]) -> dict[int, float]:
        """Return the factor of the mean over each block's samples in the tail, with which the mean of these blocks is the mean
        over their samples: samples of the block * number of blocks / samples of all these; 0 for a block without samples.
        """
        if not self.tail:
            return {}
        sizes = {block: (rows := self.rows(self.whole, block)).stop - rows.start for block in blocks}
        # the sum over these blocks only: a worker may ask for its own
        total = sum(sizes.values())
        return {block: size * len(sizes) / total if size else 0.0 for block, size in sizes.items()}

    def order(self, kind: str, seed: int, epoch: int) -> NDArray[np.int64] | MaybeNone:
        """Return the samples in the order of an epoch; None stands for the order that they have.

        It is a function of (seed, epoch): the same on every worker, however many there are, and after a restart. SHUFFLED is
        the order in which `Model.fit` deals that epoch.

        Args:
            kind: one of ORDERS.
            seed: seed of the job.
            epoch: number of the epoch, from 0.

        Returns: numbers of samples, of shape (samples,).
        """
        if kind == FIXED:
            return None
        # keyed by the epoch, not drawn on: a restart in any epoch needs no state of a generator
        random = keyed(seed, "order", epoch)
        if kind == SHUFFLED:
            return random.permutation(self.samples)
        full = np.arange(self.whole * self.batch_size).reshape(self.whole, self.block_count, self.block_size)
        # a row per block, with its samples of all whole batches: shuffled within the row, each stays in its block
        parts = random.permuted(full.transpose(1, 0, 2).reshape(self.block_count, -1), axis=1)
        dealt = parts.reshape(self.block_count, self.whole, self.block_size).transpose(1, 0, 2)
        # the samples of the tail belong to no block, so they are shuffled together
        return np.concatenate([dealt.reshape(-1), full.size + random.permutation(self.tail)])


class Rounds(Batches):
    """Rounds of an epoch of a job with clients, which are its batches; there is no tail.

    Args:
        samples: number of samples of the training set.
        block_size: samples of one step of a client.
        block_count: slots of a round.
        rounds: number of rounds of an epoch.
    """

    def __init__(self, samples: int, block_size: int, block_count: int, rounds: int) -> None:
        # not that of the base: a round of clients with few samples may take more blocks than the training set fills
        self.samples, self.block_size, self.block_count = samples, block_size, block_count
        self.batch_size = block_size * block_count
        self.whole = self.count = rounds
        self.tail = 0


class BlockFeeder:
    """Source of samples, labels and weights of samples, where there are any, block by block, in the order of each epoch.

    All are tuples of arrays: samples one for each input of the model, labels and weights one for each output with a loss.
    A block is valid until the next one is dealt: an order costs a number per sample and the memory of one block, no copy of the
    training set.
    """

    def __init__(
        self,
        batches: Batches,
        samples: tuple[Array, ...],
        labels: tuple[Array, ...],
        order: str,
        seed: int,
        weights: tuple[Array | None, ...] | None = None,
        cuts: Cuts | None = None,
    ) -> None:
        self._batches, self._weights, self._cuts = batches, weights, cuts
        self._kind, self._seed = order, seed
        self._order: NDArray[np.int64] | None = None
        self._epoch = -1
        # in the order of the training set a block is a view, which needs no memory
        size = 0 if order == FIXED else batches.block_size
        # a shuffled block is gathered into memory of its own, which all blocks share
        self._samples = [(each, empty((size, *each.shape[1:]), each.dtype)) for each in samples]
        self._labels = [(each, np.empty((size, *each.shape[1:]), each.dtype)) for each in labels]

    @property
    def types(self) -> set[np.dtype[Any]]:
        """The types of the samples that it deals."""
        return {each.dtype for each, _ in self._samples}

    def begin(self, epoch: int) -> None:
        """Begin an epoch, from 0; again is no effort, for workers that share a feeder."""
        if epoch != self._epoch:
            self._order, self._epoch = self._batches.order(self._kind, self._seed, epoch), epoch
            if self._cuts is not None and self._order is not None and self._kind == SHUFFLED:
                self._order = self._cuts.dealt(self._order, self._batches.batch_size)

    def deal(self, batch: int, block: int) -> tuple[tuple[Array, ...], tuple[Array, ...], tuple[Array | None, ...] | None]:
        """Return samples, labels and weights of a block of the epoch; empty arrays where the tail has no samples for it."""
        places = self.places(batch, block)
        rows = slice(places.start, places.stop) if isinstance(places, range) else places
        samples: list[Array] = []
        for array, memory in self._samples:
            samples.append(select_rows(array, rows, memory))
        labels: list[Array] = []
        for array, memory in self._labels:
            labels.append(select_rows(array, rows, memory))
        weights = None if self._weights is None else tuple([None if w is None else w[rows] for w in self._weights])
        if self._cuts is not None:
            samples, labels = self._cuts.samples(rows, samples), self._cuts.labels(rows, labels)
            weights = None if weights is None else tuple(self._cuts.labels(rows, weights))
        return tuple(samples), tuple(labels), weights

    def places(self, batch: int, block: int) -> range | Array:
        """Return the numbers of a block's samples in the training set as the transform has made it."""
        rows = self._batches.rows(batch, block)
        # numbers are those of the whole training set, so that an error can name the sample
        return range(rows.start, rows.stop) if self._order is None else self._order[rows]

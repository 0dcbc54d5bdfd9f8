"""Sampler that says which samples a worker takes next, when the number of workers changes in the middle of an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.random import keyed

from .group import current

Rows = NDArray[np.intp]


class ElasticSampler:
    """Sampler that deals each sample of an epoch exactly once, in batches that all workers of the group share.

    The order of an epoch is a permutation keyed by (seed, epoch), the same on every worker; batch after batch is cut from it,
    and of each batch worker `rank` takes its part. The processed samples are therefore a prefix of that order, no matter which
    workers took part in it: one number, which every worker knows of all others, also of those that are lost. It is neither
    padded nor rounded; at the end of an epoch a worker's part may be smaller, or empty, but all workers get the same number of
    batches.

    As a value of a state it is committed, restored and synchronised with the rest:

    >>> state = ObjectState(sampler=ElasticSampler(10, batch_size=4, shuffle=False))
    >>> for rows in state.sampler:
    ...     state.sampler.record_batch()
    ...     state.commit()
    ...     print(rows)
    [0 1 2 3]
    [4 5 6 7]
    [8 9]

    Args:
        samples: number of samples in an epoch.
        batch_size: samples in a batch of all workers together.
        shuffle: whether each epoch has an order of its own.
        seed: of these orders.
    """

    def __init__(self, samples: int, batch_size: int, *, shuffle: bool = True, seed: int = 0) -> None:
        self.samples = arguments.integer(self, "samples", samples, minimum=0)
        self.batch_size = arguments.integer(self, "batch_size", batch_size, minimum=1)
        self.seed = arguments.integer(self, "seed", seed, minimum=0)
        self.shuffle = arguments.flag(self, "shuffle", shuffle)
        self.epoch = 0
        self.processed = 0
        self._dealt = 0
        self._deal = 0

    def __len__(self) -> int:
        """Return the number of batches that are left of this epoch."""
        # rounded up: the last batch is shorter, and is dealt (EL-26)
        return -(-(self.samples - self.processed) // self.batch_size)

    def __iter__(self) -> Iterator[Rows]:
        """Deal the samples that are not processed: for each batch, the numbers of those that this worker takes.

        Raises: RuntimeError when the sampler was set to another place meanwhile, or a second dealing has begun.
        """
        # a new dealing makes loops over an older one raise
        self._deal += 1
        self._dealt = self.processed
        return self._batches(self._deal, current().rank, current().size)

    def record_batch(self) -> None:
        """Take note that the next batch is processed, by all workers; once for each batch, in the order of dealing.

        Raises: RuntimeError where that batch was not dealt.
        """
        if self.processed >= self._dealt:
            raise RuntimeError(f"record_batch() is for batches that were dealt, but all {self.processed} samples are recorded")
        # a prefix of the order: one number tells what is done, by whichever workers
        self.processed = min(self.processed + self.batch_size, self._dealt)

    def set_epoch(self, epoch: int) -> None:
        """Begin epoch `epoch`; the present one goes on, so that a function that is called again may call this again."""
        # the same epoch again is no new one: `func` is called again after each reset
        if arguments.integer(self, "epoch", epoch, minimum=0) != self.epoch:
            self._place(epoch, 0)

    def state_dict(self) -> dict[str, int]:
        """Return the epoch and how many samples of its order are processed."""
        return {"epoch": self.epoch, "processed": self.processed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to the place `state`, as `state_dict` returned it.

        Raises: ValueError where this is no place in an epoch of so many samples.
        """
        if set(state) != {"epoch", "processed"}:
            raise ValueError(f"ElasticSampler state must hold epoch, processed; got {', '.join(sorted(state)) or 'nothing'}")
        epoch = arguments.integer(self, "epoch", state["epoch"], minimum=0)
        processed = arguments.integer(self, "processed", state["processed"], minimum=0)
        if processed > self.samples:
            raise ValueError(
                f"ElasticSampler 'processed' must be at most {self.samples}, the number of samples, got {processed}"
            )
        self._place(epoch, processed)

    def _place(self, epoch: int, processed: int) -> None:
        self.epoch, self.processed = epoch, processed
        self._dealt = processed
        self._deal += 1  # a loop that still runs was dealt from another place

    def _batches(self, deal: int, rank: int, size: int) -> Iterator[Rows]:
        order: Rows = np.arange(self.samples)
        if self.shuffle:
            # by (seed, epoch), as jobs deal theirs
            order = keyed(self.seed, "order", self.epoch).permutation(self.samples)
        for start in range(self.processed, self.samples, self.batch_size):
            if deal != self._deal:
                raise RuntimeError("the sampler was set to another place, or is dealt a second time; begin a new loop over it")
            batch = order[start : start + self.batch_size]
            self._dealt = start + len(batch)
            # parts of a batch are disjoint and cover it, for any number of workers
            yield batch[len(batch) * rank // size : len(batch) * (rank + 1) // size]

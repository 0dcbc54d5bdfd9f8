"""What a data feeder is: samples that are not one array in memory, dealt batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, TypeAlias

from nn.arrays import Array

FedBatch: TypeAlias = tuple[Any, Any] | tuple[Any, Any, Array | None]
"""Samples and labels of a batch, and, where samples weigh differently, their weights (batch,)."""


class DataFeeder(ABC):
    """Deals the batches of an epoch, for `fit` and `evaluate`: from files, from a generator, from anything.

    Batches may differ in length; every sample weighs the same. What is drawn at random should be keyed by (seed, epoch),
    see `nn.random.keyed`, so that a run can be repeated and continued bit for bit. `len(feeder)`, where a subclass
    defines it, is the number of batches of an epoch.

    >>> class Rows(DataFeeder):
    ...     def deal(self, epoch, seed):
    ...         for rows in np.array_split(keyed(seed, "rows", epoch).permutation(len(x)), 10):
    ...             yield x[rows], y[rows]
    """

    @property
    def samples(self) -> int | None:
        """The number of samples of an epoch, which progress shows; None where it is not known before."""
        return None

    @abstractmethod
    def deal(self, epoch: int, seed: int) -> Iterator[FedBatch]:
        """Yield (x, label) or (x, label, weight) for each batch of an epoch; epochs count from 0 over the model's life.

        The arrays of a batch are read before the next one is asked for.
        """

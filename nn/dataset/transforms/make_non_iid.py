"""Samples sorted by label within each batch."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn.dataset.transforms.dealing import Order, disorder
from nn.dataset.transforms.sorted_batches import SortedBatches
from nn.random import keyed

__all__ = ["Make_Non_IID"]


class Make_Non_IID(SortedBatches):
    """Sort the training samples by label within each batch, so that the blocks of a batch hold different labels.

    A batch is `batch_size` consecutive samples: the job's ``block_size`` times its number of blocks. It keeps its samples, so
    with ``parallel(..., shuffle=False)`` training by exact synchronous SGD computes what it would without this transform (in
    another order of addition); else every epoch moves samples among the batches, each within its block. What changes is what
    each worker sees: block 0 of every batch holds its smallest labels, the last block its largest. How far a label reaches into
    a block varies from batch to batch; `True_Non_IID` gives every block a fixed range.

    `disorder` is the share of each batch, 0 to 1, that is dealt at random in place of sorted: ``round(disorder * batch_size)``
    places exchange their samples. With 1 the blocks are IID again. Samples behind the last whole batch stay where they are,
    as does the test set. Equal labels keep their order, so put `Shuffle` before this transform.

    Labels are class numbers ``(n,)`` or ``(n, 1)``, one-hot rows ``(n, classes)``, or values to predict ``(n,)`` or ``(n, 1)``.

    Raises ValueError when there are not as many labels as samples, or less than one batch.

    >>> transform = Shuffle().add(Make_Non_IID(batch_size=4 * 64, disorder=0.1))  # for 4 workers with block_size 64
    """

    def order(self, keys: NDArray[Any], batches: int, seed: int) -> Order:
        """Return the order; `seed` decides which places of a batch exchange their samples."""
        order = keys.reshape(batches, self.batch_size).argsort(axis=1, kind="stable")
        order = disorder(order, self.disorder, keyed(seed, "make-non-iid"))
        order += self.batch_size * np.arange(batches)[:, None]
        return order.reshape(-1)

"""Samples sorted by label over the whole training set, and dealt to the blocks of all batches."""

from typing import Any

from numpy.typing import NDArray

from nn.dataset.transforms.dealing import Order, deal, disorder
from nn.dataset.transforms.sorted_batches import SortedBatches
from nn.random import keyed

__all__ = ["True_Non_IID"]


class True_Non_IID(SortedBatches):
    """Give every block its own contiguous range of the training samples sorted by label, the same in all batches.

    A batch is `batch_size` samples: the job's ``block_size`` times its number of blocks. The samples are sorted by label and
    cut into `batch_size` equal ranges; place p of every batch takes the next sample of range p. So block b of B blocks, over
    an epoch, sees the b-th of B equal parts of the sorted training set and nothing else, for every B that divides the batch:
    with 10 balanced classes and 5 workers each worker has two classes. Every batch as a whole has nearly the labels of the
    whole set, in equal shares.

    `disorder` is the share of the sorted samples, 0 to 1, that change places at random among themselves beforehand. With 1
    the blocks are IID. Samples behind the last whole batch (in the order given) stay at the end, for the last, shorter batch;
    the test set stays as it is. The order that a job gives every epoch leaves each sample in its block. Equal labels keep their
    order, so put `Shuffle` before this transform.

    Labels are class numbers ``(n,)`` or ``(n, 1)``, one-hot rows ``(n, classes)``, or values to predict ``(n,)`` or ``(n, 1)``.

    Raises ValueError when there are not as many labels as samples, or less than one batch.

    >>> transform = Shuffle().add(True_Non_IID(batch_size=4 * 64))  # for 4 workers with block_size 64
    """

    def order(self, keys: NDArray[Any], batches: int, seed: int) -> Order:
        """Return the order; `seed` decides which samples change places."""
        order = disorder(keys.argsort(kind="stable")[None], self.disorder, keyed(seed, "true-non-iid"))
        return deal(order.reshape(self.batch_size, batches, 1))

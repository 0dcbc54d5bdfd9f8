"""Samples sorted by label over the whole training set, and dealt to the blocks of all batches."""

from typing import Any

from nn import arguments
from nn.arrays import Array
from nn.dataset.checksum import Arrays
from nn.dataset.transforms.abstract import AbsTransformer
from nn.dataset.transforms.dealing import check_pairs, check_share, deal, disorder, reordered, whole_batches
from nn.dataset.transforms.labels import sort_keys
from nn.random import keyed

__all__ = ["True_Non_IID"]


class True_Non_IID(AbsTransformer):
    """Give every block its own contiguous range of the training samples sorted by label, the same in all batches.

    A batch is `batch_size` samples: the job's ``block_size`` times its number of blocks. The samples are sorted by label and
    cut into `batch_size` equal ranges; place p of every batch takes the next sample of range p. So block b of B blocks, over
    an epoch, sees the b-th of B equal parts of the sorted training set and nothing else, for every B that divides the batch:
    with 10 balanced classes and 5 workers each worker has two classes. Every batch as a whole has nearly the labels of the
    whole set, in equal shares.

    `disorder` is the share of the sorted samples, 0 to 1, that change places at random among themselves beforehand. With 1
    the blocks are IID. Samples behind the last whole batch (in the order given) stay at the end, where P-SGD does not use
    them; the test set stays as it is. Equal labels keep their order, so put `Shuffle` before this transform.

    Labels are class numbers ``(n,)`` or ``(n, 1)``, one-hot rows ``(n, classes)``, or values to predict ``(n,)`` or ``(n, 1)``.

    Raises ValueError when there are not as many labels as samples, or less than one batch.

    >>> transform = Shuffle().add(True_Non_IID(batch_size=4 * 64))  # for 4 workers with block_size 64
    """

    def __init__(self, batch_size: int, disorder: float = 0.0) -> None:
        self.batch_size = arguments.integer(self, "batch_size", batch_size, minimum=1)
        self.disorder = check_share(self, "disorder", disorder)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's keywords."""
        return {"batch_size": self.batch_size, "disorder": self.disorder}

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return the training part in the new order; `seed` decides which samples change places."""
        check_pairs(self, train_x, train_y)
        batches = whole_batches(self, len(train_x), self.batch_size)
        keys = sort_keys(self, train_y)[: batches * self.batch_size]
        order = disorder(keys.argsort(kind="stable")[None], self.disorder, keyed(seed, "true-non-iid"))
        return *reordered(train_x, train_y, deal(order.reshape(self.batch_size, batches, 1))), test_x, test_y

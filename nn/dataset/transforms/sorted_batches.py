"""What the transforms that sort samples by label for batches of a given size have in common."""

from abc import abstractmethod
from typing import Any

from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array
from nn.dataset.checksum import Arrays
from nn.dataset.transforms.abstract import AbsTransformer
from nn.dataset.transforms.dealing import Order, check_pairs, check_share, reordered, whole_batches
from nn.dataset.transforms.labels import sort_keys

__all__ = ["SortedBatches"]


class SortedBatches(AbsTransformer):
    """A new order of the training samples that make up whole batches, by their labels; what is behind them stays.

    A subclass gives the order in `order`.
    """

    def __init__(self, batch_size: int, disorder: float = 0.0) -> None:
        self.batch_size = arguments.integer(self, "batch_size", batch_size, minimum=1)
        self.disorder = check_share(self, "disorder", disorder)

    @property
    def deals_blocks(self) -> bool:
        """True: block b of every batch has samples of its own kind."""
        return True

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's keywords."""
        return {"batch_size": self.batch_size, "disorder": self.disorder}

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return the training part in the new order; `seed` decides which samples change places."""
        check_pairs(self, train_x, train_y)
        batches = whole_batches(self, len(train_x), self.batch_size)
        keys = sort_keys(self, train_y)[: batches * self.batch_size]
        return *reordered(train_x, train_y, self.order(keys, batches, seed)), test_x, test_y

    @abstractmethod
    def order(self, keys: NDArray[Any], batches: int, seed: int) -> Order:
        """Return the order ``(batches * batch_size,)`` of the samples with these labels."""

"""A random order of the training samples."""

from nn.arrays import Array
from nn.dataset.checksum import Arrays
from nn.dataset.transforms.abstract import AbsTransformer
from nn.dataset.transforms.dealing import check_pairs
from nn.random import keyed

__all__ = ["Shuffle"]


class Shuffle(AbsTransformer):
    """Put the training samples and their labels into one random order; the test set stays as it is.

    The permutation depends on the seed and the number of samples only, so it is the same on every node. Two shuffles in
    one chain use the same permutation twice.

    Raises ValueError when there are not as many labels as samples.

    >>> x, y = np.arange(5.0)[:, None], np.arange(5)
    >>> shuffled_x, shuffled_y, _, _ = nn.dataset.transforms.Shuffle()(x, y, x, y, seed=1)
    >>> sorted(shuffled_y.tolist()), bool((shuffled_x[:, 0] == shuffled_y).all())
    ([0, 1, 2, 3, 4], True)
    """

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return the training part in an order drawn from `seed`."""
        check_pairs(self, train_x, train_y)
        order = keyed(seed, "shuffle").permutation(len(train_x))
        return train_x[order], train_y[order], test_x, test_y

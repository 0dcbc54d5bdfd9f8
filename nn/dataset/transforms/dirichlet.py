"""Blocks whose class shares are drawn from a Dirichlet distribution."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array
from nn.dataset.checksum import Arrays
from nn.dataset.transforms.abstract import AbsTransformer
from nn.dataset.transforms.dealing import Order, check_pairs, deal, reordered, whole_batches
from nn.dataset.transforms.labels import class_numbers
from nn.random import keyed

__all__ = ["Dirichlet"]

_MIN_ALPHA, _MAX_ALPHA = 1e-9, 1e9
_NEGLIGIBLE = 1e-9  # a sum of shares that has lost its digits


class Dirichlet(AbsTransformer):
    """Give every block its own mixture of classes, q ~ Dirichlet(alpha * p), as federated-learning experiments do.

    p are the shares of the classes in the training set. With ``alpha`` towards 0 each block sees a single class, with a large
    one all blocks see p. Each block gets as many samples as any other, drawn without replacement with the shares q; where a
    class is used up, the shares of the others grow in proportion (the last blocks get what is left). See T.-M. H. Hsu,
    H. Qi, M. Brown, *Measuring the effects of non-identical data distribution for federated visual classification*, 2019,
    arXiv:1909.06335, section 3. Here alpha counts all classes together: where a paper draws from Dirichlet(a, ..., a) over C
    equal classes, alpha is ``C * a``.

    `blocks` is the number of blocks of a batch (with redundancy 1: of workers), `block_size` the job's. Block b of every batch
    holds samples of part b only. Within a part the order is random, in every epoch of a job anew. Samples behind the last whole
    batch stay at the end, the test set stays as it is.

    Labels are class numbers ``(n,)`` or ``(n, 1)``, or one-hot rows ``(n, classes)``.

    Raises ValueError when there are not as many labels as samples, less than one batch, or labels that are no classes.

    >>> transform = Dirichlet(alpha=0.5, blocks=4, block_size=64)
    """

    def __init__(self, alpha: float, blocks: int, block_size: int = 64) -> None:
        self.alpha = arguments.number(self, "alpha", alpha, _MIN_ALPHA, _MAX_ALPHA)
        self.blocks = arguments.integer(self, "blocks", blocks, minimum=1)
        self.block_size = arguments.integer(self, "block_size", block_size, minimum=1)

    @property
    def deals_blocks(self) -> bool:
        """True: block b of every batch has samples of its own kind."""
        return True

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's keywords."""
        return {"alpha": self.alpha, "blocks": self.blocks, "block_size": self.block_size}

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return the training part in the new order; `seed` decides mixtures, samples and their order."""
        check_pairs(self, train_x, train_y)
        batch_size = self.blocks * self.block_size
        batches = whole_batches(self, len(train_x), batch_size)
        numbers = class_numbers(self, train_y)[: batches * batch_size]
        _, classes = np.unique(numbers, return_inverse=True)
        parts = self._parts(classes.reshape(-1), batches * self.block_size, keyed(seed, "dirichlet"))
        order = deal(parts.reshape(self.blocks, batches, self.block_size))
        return *reordered(train_x, train_y, order), test_x, test_y

    def _parts(self, classes: NDArray[np.intp], size: int, random: np.random.Generator) -> Order:
        """Return the sample numbers ``(blocks, size)`` of every part."""
        left = np.bincount(classes)
        weights = self.alpha * left / left.sum()
        shuffled = random.permutation(len(classes))
        by_class = [shuffled[classes[shuffled] == number] for number in range(len(left))]
        parts = np.empty((self.blocks, size), np.intp)
        for part in parts:
            counts = _draw(weights, left, size, random)
            pieces = [by_class[number][left[number] - count : left[number]] for number, count in enumerate(counts)]
            part[:] = random.permutation(np.concatenate(pieces))
            left -= counts
        return parts


def _draw(weights: NDArray[np.float64], left: NDArray[np.intp], size: int, random: np.random.Generator) -> NDArray[np.intp]:
    """Return how many samples of each class a part gets: `size` draws by one mixture, again where a class is used up."""
    counts = np.zeros_like(left)
    share = _mixture(weights, left > 0, random)
    while missing := size - int(counts.sum()):
        free = left > counts
        if not share[free].sum() > _NEGLIGIBLE:
            share = _mixture(weights, free, random)
        odds = np.where(free, share, 0.0)
        counts += np.minimum(random.multinomial(missing, odds / odds.sum()), left - counts)
    return counts


def _mixture(weights: NDArray[np.float64], free: NDArray[np.bool_], random: np.random.Generator) -> NDArray[np.float64]:
    """Return class shares from Dirichlet(`weights`), given that only the classes in `free` have any.

    The shares of some classes, scaled to 1, follow the Dirichlet distribution of their own weights whatever the others are;
    so they may be drawn only when they are needed, which spares the digits that tiny shares would have lost.
    """
    share = np.zeros_like(weights)
    drawn = random.dirichlet(weights[free])
    if not np.isfinite(drawn).all() or not drawn.sum() > 0:  # the limit for weights towards 0: a single class
        drawn = random.multinomial(1, weights[free] / weights[free].sum()).astype(np.float64)
    share[free] = drawn
    return share

"""Orders of samples: at random, or such that the blocks of a batch hold different classes, as in federated learning."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array
from nn.dataset.interface import Arrays
from nn.dataset.transforms.abstract import AbsTransformer, as_parts
from nn.dataset.transforms.labels import class_numbers, sort_keys
from nn.random import keyed

__all__ = [
    "Dirichlet", "Make_Non_IID", "Order", "Shuffle", "SortedBatches", "True_Non_IID",
    "check_pairs", "deal", "disorder", "draw_classes", "reordered", "whole_batches",
]  # fmt: skip

Order = NDArray[np.intp]


def deal(parts: Order) -> Order:
    """Return the order ``(parts * batches * size,)`` in which every batch has a piece of each part, always in the same place.

    `parts` ``(parts, batches, size)`` holds the sample numbers: part p holds the samples for place p of all batches.
    """
    return parts.swapaxes(0, 1).reshape(-1)


def disorder(order: Order, share: float, random: np.random.Generator) -> Order:
    """Return rows with some places of each permuted at random.

    Args:
        order: the rows ``(rows, n)``.
        share: the share of the places: ``round(share * n)`` of each row.
        random: draws them.
    """
    rows, length = order.shape
    count = round(share * length)
    if count < 2:
        return order
    # Random numbers sorted: the first places of each row are a draw without repetition.
    chosen = random.random((rows, length)).argsort(axis=1)[:, :count]
    mixed = order.copy()
    # The chosen places in order take the samples of the chosen places in random order.
    np.put_along_axis(mixed, np.sort(chosen, axis=1), np.take_along_axis(order, chosen, axis=1), axis=1)
    return mixed


def check_pairs(owner: object, x: Array, y: Array) -> None:
    """Check that there are as many labels as samples.

    Args:
        owner: transform named by its class in errors.
        x: samples ``(n, ...)``.
        y: labels ``(n, ...)``.

    Raises ValueError for another number of labels.
    """
    if len(x) != len(y):
        raise ValueError(f"{type(owner).__name__} needs one label per sample, got {len(x)} samples and {len(y)} labels")


def whole_batches(owner: object, samples: int, batch_size: int) -> int:
    """Return the number of whole batches.

    Args:
        owner: transform named by its class in errors.
        samples: number of samples.
        batch_size: samples of a batch.

    Raises ValueError where there is no whole batch.
    """
    if samples < batch_size:
        raise ValueError(f"{type(owner).__name__} needs at least one batch of {batch_size} samples, got {samples}")
    return samples // batch_size


def reordered(x: Array, y: Array, order: Order) -> tuple[Array, Array]:
    """Return samples and labels in a new order.

    Args:
        x: samples ``(n, ...)``.
        y: labels ``(n, ...)``.
        order: numbers of samples ``(m,)``; the n - m samples behind its end stay where they are.
    """
    full = np.concatenate([order, np.arange(len(order), len(x))])
    return x[full], y[full]


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

    for_training_only = True

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        train_x, train_y, test_x, test_y = as_parts(self, train_x, train_y, test_x, test_y)
        check_pairs(self, train_x, train_y)
        order = keyed(seed, "shuffle").permutation(len(train_x))
        return train_x[order], train_y[order], test_x, test_y


class SortedBatches(AbsTransformer, configured=True):
    """A new order of the training samples that make up whole batches, by their labels; samples behind them stay.

    A subclass gives the order in `order`.

    Args:
        batch_size: number of samples of a batch.
        disorder: share of the samples, 0 to 1, that is dealt at random in place of sorted; 0 by default.
    """

    for_training_only = True

    def __init__(self, batch_size: int, disorder: float = 0.0) -> None:
        self.batch_size = arguments.integer(self, "batch_size", batch_size, minimum=1)
        self.disorder = arguments.share(self, "disorder", disorder)

    @property
    def deals_blocks(self) -> bool:
        return True

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return the training part in the new order; `seed` decides which samples change places."""
        train_x, train_y, test_x, test_y = as_parts(self, train_x, train_y, test_x, test_y)
        check_pairs(self, train_x, train_y)
        batches = whole_batches(self, len(train_x), self.batch_size)
        # Samples behind the last whole batch are not sorted.
        keys = sort_keys(self, train_y)[: batches * self.batch_size]
        return *reordered(train_x, train_y, self.order(keys, batches, seed)), test_x, test_y

    @abstractmethod
    def order(self, keys: NDArray[Any], batches: int, seed: int) -> Order:
        """Return the order ``(batches * batch_size,)`` of the samples.

        Args:
            keys: labels of the samples ``(batches * batch_size,)``, as numbers to sort by.
            batches: number of whole batches.
            seed: seed of the draws.
        """


class Make_Non_IID(SortedBatches):
    """Sort the training samples by label within each batch, so that the blocks of a batch hold different labels.

    A batch is `batch_size` consecutive samples: the job's ``block_size`` times its number of blocks. It keeps its samples, so
    with ``parallel(..., shuffle=False)`` training by exact synchronous SGD computes the same as without this transform (in
    another order of addition); else every epoch moves samples among the batches, each within its block. The samples that each
    worker sees change: block 0 of every batch holds its smallest labels, the last block its largest. How far a label reaches
    into a block varies from batch to batch; `True_Non_IID` gives every block a fixed range.

    `disorder` is the share of each batch, 0 to 1, that is dealt at random in place of sorted: ``round(disorder * batch_size)``
    places exchange their samples. With 1 the blocks are IID again. Samples behind the last whole batch stay where they are,
    as does the test set. Equal labels keep their order, so put `Shuffle` before this transform.

    Labels are class numbers ``(n,)`` or ``(n, 1)``, one-hot rows ``(n, classes)``, or values to predict ``(n,)`` or ``(n, 1)``.

    Raises ValueError when there are not as many labels as samples, or less than one batch.

    >>> transform = Shuffle().add(Make_Non_IID(batch_size=4 * 64, disorder=0.1))  # for 4 workers with block_size 64
    """

    takes_parts: ClassVar[bool] = False

    def order(self, keys: NDArray[Any], batches: int, seed: int) -> Order:
        """Return the order; `seed` decides which places of a batch exchange their samples."""
        # Equal labels keep their order, on every NumPy.
        order = keys.reshape(batches, self.batch_size).argsort(axis=1, kind="stable")
        order = disorder(order, self.disorder, keyed(seed, "make-non-iid"))
        # From places in a batch to numbers of samples.
        order += self.batch_size * np.arange(batches)[:, None]
        return order.reshape(-1)


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

    takes_parts: ClassVar[bool] = False

    def order(self, keys: NDArray[Any], batches: int, seed: int) -> Order:
        """Return the order; `seed` decides which samples change places."""
        order = disorder(keys.argsort(kind="stable")[None], self.disorder, keyed(seed, "true-non-iid"))
        return deal(order.reshape(self.batch_size, batches, 1))


_MIN_ALPHA, _MAX_ALPHA = 1e-9, 1e9
_NEGLIGIBLE = 1e-9  # a sum of shares that has lost its digits


class Dirichlet(AbsTransformer, configured=True):
    """Give every block its own mixture of classes, q ~ Dirichlet(alpha * p), as federated-learning experiments do.

    p are the shares of the classes in the training set. With ``alpha`` towards 0 each block sees a single class, with a large
    one all blocks see p. Each block gets as many samples as any other, drawn without replacement with the shares q; where a
    class is used up, the shares of the others grow in proportion (the last blocks get the rest). See T.-M. H. Hsu, H. Qi, M.
    Brown, *Measuring the effects of non-identical data distribution for federated visual classification*, 2019,
    arXiv:1909.06335, section 3. Here alpha counts all classes together: where a paper draws from Dirichlet(a, ..., a) over C
    equal classes, alpha is ``C * a``.

    `blocks` is the number of blocks of a batch (with redundancy 1: of workers), `block_size` the job's. Block b of every batch
    holds samples of part b only. Within a part the order is random, in every epoch of a job anew. Samples behind the last whole
    batch stay at the end, the test set stays as it is.

    Labels are class numbers ``(n,)`` or ``(n, 1)``, or one-hot rows ``(n, classes)``.

    Args:
        alpha: concentration of the mixtures, above 0.
        blocks: blocks of a batch.
        block_size: samples of a block.

    Raises ValueError when there are not as many labels as samples, less than one batch, or labels that are no classes.

    >>> transform = Dirichlet(alpha=0.5, blocks=4, block_size=64)
    """

    takes_parts: ClassVar[bool] = False

    for_training_only = True

    def __init__(self, alpha: float, blocks: int, block_size: int = 64) -> None:
        self.alpha = arguments.number(self, "alpha", alpha, _MIN_ALPHA, _MAX_ALPHA)
        self.blocks = arguments.integer(self, "blocks", blocks, minimum=1)
        self.block_size = arguments.integer(self, "block_size", block_size, minimum=1)

    @property
    def deals_blocks(self) -> bool:
        return True

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return the training part in the new order; `seed` decides mixtures, samples and their order."""
        train_x, train_y, test_x, test_y = as_parts(self, train_x, train_y, test_x, test_y)
        check_pairs(self, train_x, train_y)
        batch_size = self.blocks * self.block_size
        batches = whole_batches(self, len(train_x), batch_size)
        numbers = class_numbers(self, train_y)[: batches * batch_size]
        _, classes = np.unique(numbers, return_inverse=True)
        parts = self._parts(classes.reshape(-1), batches * self.block_size, keyed(seed, "dirichlet"))
        order = deal(parts.reshape(self.blocks, batches, self.block_size))
        return *reordered(train_x, train_y, order), test_x, test_y

    def _parts(self, classes: NDArray[np.intp], size: int, random: np.random.Generator) -> Order:
        left = np.bincount(classes)
        # p times alpha.
        weights = self.alpha * left / left.sum()
        shuffled = random.permutation(len(classes))
        by_class = [shuffled[classes[shuffled] == number] for number in range(len(left))]
        parts = np.empty((self.blocks, size), np.intp)
        for part in parts:
            counts = draw_classes(weights, left, size, random)
            # From the end, so that what is left of a class is its beginning.
            pieces = [by_class[number][left[number] - count : left[number]] for number, count in enumerate(counts)]
            # Or the samples of a class would follow one another.
            part[:] = random.permutation(np.concatenate(pieces))
            left -= counts
        return parts


def draw_classes(
    weights: NDArray[np.float64], left: NDArray[np.intp], size: int, random: np.random.Generator
) -> NDArray[np.intp]:
    """Return how many samples of each class a part gets: `size` draws by one mixture, again where a class is used up.

    Args:
        weights: of the Dirichlet distribution of the mixture, one for each class.
        left: samples of each class that are left.
        size: number of samples of the part, at most those that are left.
        random: source of every draw.
    """
    counts = np.zeros_like(left)
    share = _mixture(weights, left > 0, random)
    # Again for those that a class used up could not give.
    while missing := size - int(counts.sum()):
        free = left > counts
        if not share[free].sum() > _NEGLIGIBLE:
            share = _mixture(weights, free, random)
        odds = np.where(free, share, 0.0)
        # No more than there are.
        counts += np.minimum(random.multinomial(missing, odds / odds.sum()), left - counts)
    return counts


def _mixture(weights: NDArray[np.float64], free: NDArray[np.bool_], random: np.random.Generator) -> NDArray[np.float64]:
    """Return class shares from Dirichlet(`weights`), given that only the classes in `free` have any.

    The shares of some classes, scaled to 1, follow the Dirichlet distribution of their own weights for any weights of the
    others; so they may be drawn only when they are needed, which spares the digits that tiny shares would have lost.
    """
    share = np.zeros_like(weights)
    drawn = random.dirichlet(weights[free])
    if not np.isfinite(drawn).all() or not drawn.sum() > 0:  # the limit for weights towards 0: a single class
        drawn = random.multinomial(1, weights[free] / weights[free].sum()).astype(np.float64)
    share[free] = drawn
    return share

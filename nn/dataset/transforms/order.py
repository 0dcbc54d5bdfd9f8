"""Orders of samples: at random, or such that each block of a batch gets samples of its own kind."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array
from nn.dataset.interface import Arrays
from nn.dataset.transforms.abstract import AbsTransformer
from nn.random import keyed

__all__ = ["Order", "Shuffle", "check_pairs", "check_share", "deal", "disorder", "reordered", "whole_batches"]

Order = NDArray[np.intp]


def deal(parts: Order) -> Order:
    """Return the order ``(parts * batches * size,)`` in which every batch has a piece of each part, always in the same place.

    `parts` ``(parts, batches, size)`` holds the sample numbers: part p is what place p of a batch gets over all batches.
    """
    return parts.swapaxes(0, 1).reshape(-1)


def disorder(order: Order, share: float, random: np.random.Generator) -> Order:
    """Return the rows of `order` ``(rows, n)`` with ``round(share * n)`` random places of each row permuted at random."""
    rows, length = order.shape
    count = round(share * length)
    if count < 2:
        return order
    chosen = random.random((rows, length)).argsort(axis=1)[:, :count]
    mixed = order.copy()
    np.put_along_axis(mixed, np.sort(chosen, axis=1), np.take_along_axis(order, chosen, axis=1), axis=1)
    return mixed


def check_share(owner: object, name: str, value: float) -> float:
    """Return `value` if it is a number from 0 to 1; see `nn.arguments.number`."""
    share = arguments.number(owner, name, value, 0.0)
    if share > 1:
        raise ValueError(f"{type(owner).__name__} '{name}' must be a number from 0 to 1, got {value}")
    return share


def check_pairs(owner: object, x: Array, y: Array) -> None:
    """Raise ValueError naming the class of `owner` when there are not as many labels as samples."""
    if len(x) != len(y):
        raise ValueError(f"{type(owner).__name__} needs one label per sample, got {len(x)} samples and {len(y)} labels")


def whole_batches(owner: object, samples: int, batch_size: int) -> int:
    """Return the number of whole batches; raise ValueError naming the class of `owner` where there is none."""
    if samples < batch_size:
        raise ValueError(f"{type(owner).__name__} needs at least one batch of {batch_size} samples, got {samples}")
    return samples // batch_size


def reordered(x: Array, y: Array, order: Order) -> tuple[Array, Array]:
    """Return samples and labels in a new order; those behind the end of `order` stay where they are."""
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

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        check_pairs(self, train_x, train_y)
        order = keyed(seed, "shuffle").permutation(len(train_x))
        return train_x[order], train_y[order], test_x, test_y

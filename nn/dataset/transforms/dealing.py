"""Orders of samples in which each block of a batch gets samples of its own kind.

`parallel_sgd` cuts the training set into batches of consecutive samples and each batch into blocks of consecutive samples;
with redundancy 1 worker i computes block i of every batch. So what a worker sees is decided by the places in a batch, and
sorting the training set as a whole would not do: whole batches, for all workers alike, would then be of one label.
"""

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array

__all__ = ["Order", "check_pairs", "check_share", "deal", "disorder", "reordered", "whole_batches"]

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

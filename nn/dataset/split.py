"""Setting samples aside to evaluate on."""

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array
from nn.dataset.checksum import Arrays
from nn.random import keyed

__all__ = ["Rows", "check_fraction", "drawn_rows", "split"]

Rows = NDArray[np.int64]
"""Numbers of samples, from 0."""


def check_fraction(owner: object, value: float) -> float:
    """Return `value` if it is a share of samples to set aside, more than 0 and less than 1; see `nn.arguments.number`."""
    return arguments.number(owner, "test_fraction", value, 0.0, 1.0, open_low=True)


def split(x: Array, y: Array, fraction: float, seed: int) -> Arrays:
    """Return ``(train_x, train_y, test_x, test_y)`` where the test part is the share `fraction` of the samples.

    The test part has ``round(fraction * n)`` samples, but at least one, and leaves at least one. Which ones depends on
    `seed` and the number of samples alone; both parts keep the order of the samples.

    Raises ValueError where there are fewer than two samples.
    """
    if len(x) < 2:
        raise ValueError(f"a data set must hold at least 2 samples to set some aside, got {len(x)}")
    train, test = _draw(len(x), fraction, seed)
    return x[train], y[train], x[test], y[test]


def drawn_rows(data: object, train: int, test: int) -> tuple[Rows, Rows] | None:
    """Return which samples of the whole the `train` samples to train on and the `test` others are that `data` loads.

    None where `data` was given both parts, or leaves rows out: its `draws_rows` tells.
    """
    if not getattr(data, "draws_rows", False):
        return None
    drawn = _draw(train + test, data.test_fraction, data.seed)  # type: ignore[attr-defined]
    return drawn if len(drawn[0]) == train else None


def _draw(samples: int, fraction: float, seed: int) -> tuple[Rows, Rows]:
    count = min(max(round(fraction * samples), 1), samples - 1)
    order = keyed(seed, "test-split").permutation(samples)
    test, train = order[:count], order[count:]
    test.sort()
    train.sort()
    return train, test

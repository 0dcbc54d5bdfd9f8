"""Setting samples aside to evaluate on."""

from nn import arguments
from nn.arrays import Array
from nn.dataset.checksum import Arrays
from nn.random import keyed

__all__ = ["check_fraction", "split"]


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
    count = min(max(round(fraction * len(x)), 1), len(x) - 1)
    order = keyed(seed, "test-split").permutation(len(x))
    test, train = order[:count], order[count:]
    test.sort()
    train.sort()
    return x[train], y[train], x[test], y[test]

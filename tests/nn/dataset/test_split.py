"""Samples set aside: how many, which, and in what order."""

import numpy as np
import pytest

from nn.dataset.interface import split

X = np.arange(40).reshape(20, 2)
Y = X[:, 0]


@pytest.mark.parametrize(("fraction", "count"), [(0.25, 5), (0.2, 4), (0.001, 1), (0.999, 19)])
def test_size_and_order(fraction, count):
    train_x, train_y, test_x, test_y = split(X, Y, fraction, seed=3)
    assert len(test_x) == count
    assert sorted([*train_y, *test_y]) == Y.tolist()
    for x, y in ((train_x, train_y), (test_x, test_y)):
        assert np.array_equal(x[:, 0], y)
        assert np.all(np.diff(y) > 0)


def test_the_seed_decides():
    parts = [tuple(split(X, Y, 0.25, seed)[3]) for seed in (0, 0, 1, 2)]
    assert parts[0] == parts[1]
    assert len(set(parts)) == 3


def test_one_sample_cannot_be_split():
    with pytest.raises(ValueError, match="must hold at least 2 samples to set some aside, got 1"):
        split(X[:1], Y[:1], 0.5, 0)

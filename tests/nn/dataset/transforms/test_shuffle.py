"""One permutation of the training set from the job's seed; the test set untouched."""

import numpy as np
import pytest

from nn.dataset.transforms import Shuffle
from nn.random import keyed

X = np.arange(40).reshape(20, 2)
Y = X[:, 0] // 2


def test_samples_move_with_their_labels_in_the_keyed_order():
    """Conventions: Shuffle draws one permutation from the job's seed, the same on every node."""
    train_x, train_y, test_x, test_y = Shuffle()(X, Y, X, Y, seed=7)
    order = keyed(7, "shuffle").permutation(20)
    assert np.array_equal(train_y, order)
    assert np.array_equal(train_x, X[order])
    assert test_x is X
    assert test_y is Y


def test_seeds_differ():
    orders = [tuple(Shuffle()(X, Y, X, Y, seed=seed)[1]) for seed in range(5)]
    assert len({*orders, tuple(Y)}) == 6


def test_missing_labels_are_an_error():
    with pytest.raises(ValueError, match="Shuffle needs one label per sample, got 20 samples and 19 labels"):
        Shuffle()(X, Y[:-1], X, Y)

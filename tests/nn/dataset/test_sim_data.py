"""Synthetic data keeps its promise: the bound is right, and the true weights reach it."""

import numpy as np
import pytest

from nn.dataset import SimData


def test_regression_without_noise_is_exact():
    data = SimData("regression", samples=50, features=3, noise=0.0, seed=4)
    train_x, train_y, test_x, test_y = data.load()
    assert train_x.shape == (50, 3)
    assert train_y.shape == (50, 1)
    assert test_x.shape == (200, 3)
    assert {array.dtype for array in (train_x, train_y, test_x, test_y)} == {np.dtype(np.float32)}
    for x, y in ((train_x, train_y), (test_x, test_y)):
        np.testing.assert_allclose(x @ data.weights + data.bias, y, rtol=0, atol=1e-5)
    assert data.best == 0.0


def test_the_best_mean_square_error_of_a_regression():
    data = SimData("regression", samples=40_000, features=5, noise=0.5, seed=1)
    x, y, _, _ = data.load()
    assert data.best == 0.25
    residual = y - (x @ data.weights + data.bias)
    assert np.mean(residual**2) == pytest.approx(data.best, rel=0.03)
    fitted, *_ = np.linalg.lstsq(np.c_[x, np.ones(len(x))], y, rcond=None)
    np.testing.assert_allclose(fitted, np.r_[data.weights, data.bias[None]], rtol=0, atol=0.02)


@pytest.mark.parametrize(("classes", "noise"), [(2, 0.1), (5, 0.3), (3, 0.0)])
def test_the_best_accuracy_of_a_classification(classes, noise):
    data = SimData("classification", samples=40_000, features=8, noise=noise, classes=classes, seed=2)
    x, y, _, test_y = data.load()
    assert y.dtype == test_y.dtype == np.int64
    assert set(y) == set(range(classes))
    guess = (x @ data.weights + data.bias).argmax(axis=1)
    assert data.best == 1 - noise
    assert np.mean(guess == y) == pytest.approx(data.best, abs=0.01)
    shift = (y - guess)[guess != y] % classes
    counts = np.bincount(shift, minlength=classes)[1:]
    assert np.all(np.abs(counts - counts.mean()) <= 5 * np.sqrt(counts.mean() + 1))


def test_seeds_parts_and_sizes():
    first = SimData(seed=1)
    assert first.checksum() == SimData(seed=1).checksum() != SimData(seed=2).checksum()
    train_x, _, test_x, _ = first.load()
    assert not np.isin(test_x[:, 0], train_x[:, 0]).any()
    assert np.array_equal(SimData(samples=7, seed=1).weights, first.weights)
    with pytest.raises(ValueError, match="read-only"):
        first.weights[0] = 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"kind": "ranking"}, "SimData 'kind' must be one of regression, classification, got 'ranking'"),
        ({"samples": 0}, "'samples' must be a positive integer, got 0"),
        ({"features": 0}, "'features' must be a positive integer, got 0"),
        ({"classes": 1}, "'classes' must be an integer of at least 2, got 1"),
        ({"noise": -0.1}, "'noise' must be a number >= 0, got -0.1"),
        ({"kind": "classification", "noise": 0.5}, "'noise' must be a number >= 0 and < 0.5, got 0.5"),
        ({"test_samples": 0}, "'test_samples' must be a positive integer, got 0"),
    ],
)
def test_errors(arguments, text):
    with pytest.raises(ValueError, match=text):
        SimData(**arguments)

"""Mean 0 and deviation 1 over features, channels or everything, by the training part alone."""

import re
import tracemalloc

import numpy as np
import pytest

from nn.dataset import ArrayDataset
from nn.dataset.transforms import Normalize, NormalizeLabels
from nn.dataset.transforms import normalize as module
from tests.nn.golden import optional

Y = np.zeros(1)


def images(dtype=np.uint8, count=50, shape=(4, 3, 2)):
    pixels = np.random.default_rng(1).integers(0, 256, (count, *shape))
    return pixels > 127 if dtype == "?" else pixels.astype(dtype)


def apply(transform, train, test=None):
    return transform(train, Y, train[:1] if test is None else test, Y)[::2]


AXES = {"feature": 0, "channel": (0, 1, 2), "all": None}


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("per", AXES)
def test_against_plain_numpy(per, dtype, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 100)
    x, test = images(dtype), images(dtype, 60)[-7:]
    mean, std = x.mean(AXES[per], np.float64), x.std(AXES[per], np.float64)
    train, held = apply(Normalize(per=per), x, test)
    result = np.dtype(dtype) if dtype.startswith("f") else np.dtype(np.float32)
    assert train.dtype == held.dtype == result
    tolerance = {2: 2e-3, 4: 1e-6, 8: 1e-12}[result.itemsize]
    np.testing.assert_allclose(train, (x - mean) / std, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(held, (test - mean) / std, rtol=tolerance, atol=tolerance)


def test_equal_to_scikit_learn(golden):
    preprocessing = optional("sklearn.preprocessing")
    rows = images(np.float64, shape=(5,))
    rows[:, 2] = 0.1
    [expected] = golden(lambda: [preprocessing.StandardScaler().fit_transform(rows)], rows, needs=preprocessing)
    expected.close(apply(Normalize(), rows)[0], rtol=1e-7, atol=1e-12)


def test_rows_constants_and_large_integers():
    rows = images(np.float64, shape=(5,))
    train, _ = apply(Normalize(), rows)
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(train.std(axis=0), 1, atol=1e-12)
    assert np.array_equal(train, apply(Normalize(per="feature"), rows)[0])
    assert apply(Normalize(), rows[:, 0])[0].std() == pytest.approx(1)
    large = np.arange(10)[:, None] + (1 << 40)
    np.testing.assert_allclose(apply(Normalize(), large)[0][:, 0], (np.arange(10) - 4.5) / np.std(np.arange(10)), rtol=1e-6)
    for value in (
        0.0,
        0.1,
        1e-300,
        1e300,
        123456.789,
    ):  # the mean of equal numbers may differ: a rounding error is no deviation
        rows = np.column_stack([np.full(997, value), np.arange(997)])
        train, test = apply(Normalize(), rows, np.array([[value, 0.0]]))
        assert np.abs(train[:, 0]).max() <= 1e-12 * max(value, 1)
        assert abs(test[0, 0]) <= 1e-12 * max(value, 1)
        assert train[:, 1].std() == pytest.approx(1)


def test_given_statistics():
    x = images()
    train, test = apply(Normalize(mean=[10, 20], std=4), x, x[3:5])
    np.testing.assert_allclose(train, (x - np.array([10.0, 20.0])) / 4, rtol=1e-6)
    assert np.array_equal(test, train[3:5])
    only_mean, _ = apply(Normalize(mean=0, per="all"), x)
    np.testing.assert_allclose(only_mean, x / x.std(), rtol=1e-6)
    nested = Normalize(mean=np.ones((4, 3, 2)).tolist(), std=np.full((3, 1), 2.0))
    np.testing.assert_allclose(apply(nested, x)[0], (x - 1.0) / 2, rtol=1e-6)
    assert Normalize(**nested.get_config()).get_config() == nested.get_config()
    assert nested.get_config()["std"] == [[2.0], [2.0], [2.0]]
    assert apply(Normalize(), x, x[:0])[1].shape == (0, 4, 3, 2)


def test_memory_is_that_of_the_result():
    x = np.zeros((4000, 1000), np.uint8)
    x[0] = 1
    tracemalloc.start()
    Normalize(per="feature")(x, Y, x[:1], Y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * x.size + (40 << 20)


@pytest.mark.parametrize("per", ["feature", "channel", "all"])
def test_the_statistics_of_a_data_set_may_be_taken_beforehand(per):
    x = np.random.default_rng(1).normal(3, 2, (20, 4, 3)).astype(np.float32)
    data = ArrayDataset(x[:15], np.arange(15), x[15:], np.arange(5))
    before = Normalize.of(data, per)
    for one, other in zip(before(*data.load()), Normalize(per=per)(*data.load()), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(before.apply(x[15:]), before(*data.load())[2])


@pytest.mark.parametrize("shape", [(20,), (20, 1), (20, 3)])
def test_labels_and_back(shape):
    y = np.random.default_rng(1).normal(3e5, 2e4, shape)
    data = ArrayDataset(np.ones((15, 1)), y[:15], np.ones((5, 1)), y[15:])
    labels = NormalizeLabels.of(data)
    _, train_y, _, test_y = labels(*data.load())
    assert np.abs(train_y.mean(axis=0)).max() < 1e-9
    assert np.allclose(train_y.std(axis=0), 1)
    assert np.allclose(labels.restore(test_y), y[15:])
    assert np.array_equal(NormalizeLabels()(*data.load())[1], train_y)
    assert labels.restore(test_y.astype(np.float32).reshape(5, -1)).shape == (5, y[0].size)
    whole = ArrayDataset(np.ones((4, 1)), [1, 2, 3, 4], np.ones((1, 1)), [5])
    assert NormalizeLabels()(*whole.load())[1].dtype == np.float32


def labels(*given):
    return NormalizeLabels()(np.ones((2, 1)), np.array(given), np.ones((2, 1)), np.ones(2))


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda: Normalize(per="pixel"), "ValueError: .*'per' must be one of feature, channel, all, got 'pixel'"),
        (lambda: Normalize(std=[1, 0]), r"ValueError: .*'std' must be positive, got \[1.0, 0.0\]"),
        (lambda: Normalize(mean=np.nan), "ValueError: .*'mean' must be finite numbers, got nan"),
        (lambda: Normalize(mean=[]), r"ValueError: .*'mean' must be finite numbers, got \[\]"),
        (lambda: Normalize(mean="x"), "TypeError: .*'mean' must be a number or a list of numbers, got 'x'"),
        (lambda: Normalize(std=[[1], [1, 2]]), "TypeError: .*'std' must be a number or a list of numbers"),
        (lambda: apply(Normalize(mean=[1, 2, 3]), images()),
         r"ValueError: .*'mean' must fit samples of shape \(4, 3, 2\), got shape \(3,\)"),
        (lambda: apply(Normalize(std=np.ones((1, 4, 3, 2))), images()),
         r"ValueError: .*'std' must fit samples of shape \(4, 3, 2\), got shape \(1, 4, 3, 2\)"),
        (lambda: apply(Normalize(), np.array(["a"])), "TypeError: .*needs samples that are numbers, got dtype <U1"),
        (lambda: apply(Normalize(), np.ones((0, 2))), r"needs training samples to take mean .* got shape \(0, 2\)"),
        (lambda: apply(Normalize(), np.array([[1.0], [np.nan]])), "ValueError: .*that are finite, got NaN or infinity"),
        (lambda: apply(Normalize(), np.array([[1e200], [-1e200]])), "ValueError: .*whose squares are finite, got larger ones"),
        (lambda: apply(Normalize(), np.array([[np.inf], [-np.inf]])), "ValueError: .*that are finite, got NaN or infinity"),
        (lambda: Normalize().apply(images()), r"have 'mean' and 'std' to apply them: make it by Normalize.of\(data\)"),
        (lambda: labels(1, np.nan), "ValueError: NormalizeLabels needs training labels that are finite, got NaN"),
        (lambda: labels("a", "b"), "TypeError: .*needs labels that are numbers, got dtype <U1"),
        (lambda: NormalizeLabels(mean=1.0).restore(Y), r"ValueError: .*make it by NormalizeLabels.of\(data\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(use, text):
    with pytest.raises((TypeError, ValueError)) as caught:
        use()
    assert re.search(text if "Error: " in text else f"ValueError: .*{text}", f"{caught.type.__name__}: {caught.value}")

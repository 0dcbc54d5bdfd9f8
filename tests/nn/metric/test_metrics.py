import numpy as np
import pytest

from nn.metric import CategoricalAccuracy, MeanSquareError


def test_names_in_results() -> None:
    assert (CategoricalAccuracy().name, MeanSquareError().name) == ("accuracy", "mse")


def test_accuracy_takes_class_numbers_and_rows() -> None:
    metric = CategoricalAccuracy()
    prediction = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    metric.update(np.array([1, 1, 1]), prediction)
    metric.update(np.array([[0, 1.0], [1, 0], [1, 0]]), prediction)
    assert metric.result() == pytest.approx(4 / 6)


def test_accuracy_needs_classes() -> None:
    with pytest.raises(ValueError, match=r"CategoricalAccuracy takes predictions \(batch, classes\), got shape \(2, 1\)"):
        CategoricalAccuracy().update(np.zeros(2, int), np.zeros((2, 1)))


def test_square_error_takes_class_numbers_as_one_hot() -> None:
    metric = MeanSquareError()
    metric.update(np.array([1, 0]), np.array([[0.0, 1.0], [0.5, 0.5]], np.float32))
    assert metric.result() == 0.125


def test_square_error_adds_up_in_double_precision() -> None:
    metric = MeanSquareError()
    for _ in range(1000):
        metric.update(np.zeros((100, 1), np.float32), np.full((100, 1), 0.1, np.float32))
    assert metric.result() == pytest.approx(float(np.float32(0.1)) ** 2, rel=1e-12)


def test_square_error_needs_equal_sizes() -> None:
    with pytest.raises(ValueError, match=r"MeanSquareError takes labels of the shape \(2, 3\).*, got \(2,\)"):
        MeanSquareError().update(np.zeros(2), np.zeros((2, 3)))

import math
from typing import Any

import numpy as np
import pytest

import nn
from nn.loss import Cross_Entropy_With_Softmax, Loss, MSELoss


def evaluated(loss: Loss, label: Any, output: Any, dtype: str = "float32") -> tuple[float, np.ndarray]:
    output = np.array(output, dtype)
    label = loss.prepare(np.asarray(label), output.shape, output.dtype)
    loss.allocate(output.shape, output.dtype)
    value, gradient = loss.value(label, output), np.empty_like(output)
    loss.gradient(label, output, gradient)
    return value, gradient


def test_class_numbers_and_one_hot_rows_are_the_same() -> None:
    score = nn.random.keyed(0, "test").standard_normal((6, 4))
    numbers = np.array([0, 3, 1, 2, 2, 0])
    value, gradient = evaluated(Cross_Entropy_With_Softmax(), numbers, score, "float64")
    again, other = evaluated(Cross_Entropy_With_Softmax(), np.eye(4)[numbers], score, "float64")
    column, _ = evaluated(Cross_Entropy_With_Softmax(), numbers.reshape(-1, 1), score, "float64")
    assert value == pytest.approx(again, rel=1e-14)
    assert column == value
    np.testing.assert_allclose(gradient, other, rtol=1e-12)


def test_huge_scores_neither_overflow_nor_lose_the_loss() -> None:
    value, gradient = evaluated(Cross_Entropy_With_Softmax(), [0, 1], [[1000.0, 0.0], [1000.0, 0.0]])
    assert value == 500
    assert gradient.tolist() == [[0, 0], [0.5, -0.5]]
    value, _ = evaluated(Cross_Entropy_With_Softmax(), [1], [[-1e30, 1e30]])
    assert value == 0


def test_equal_scores_give_the_logarithm_of_the_number_of_classes() -> None:
    value, _ = evaluated(Cross_Entropy_With_Softmax(), [3], np.zeros((1, 10)), "float64")
    assert value == pytest.approx(math.log(10))


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ([0, 4], r"labels must lie in 0..3 for 4 outputs, got 0..4"),
        ([-1, 2], r"labels must lie in 0..3 for 4 outputs, got -1..2"),
        ([0.0, 1.0], r"labels must be integers of shape \(2,\) or rows of shape \(2, 4\), got float64 of shape \(2,\)"),
        (np.eye(3)[:2], r"rows of shape \(2, 4\), got float64 of shape \(2, 3\)"),
        (np.full((2, 4), 0.5), r"label rows must hold probabilities that sum to 1, got row 0 sums to 2"),
        (np.full((2, 4), np.nan), r"got row 0 sums to nan"),
        ([[2.0, -1.0, 0, 0], [1, 0, 0, 0]], "sum to 1, got a negative one"),
        ([1], "'label' must hold one label for each of the 2 samples, got 1"),
        (1, "'label' must hold one label for each of the 2 samples, got a single number"),
    ],
)
def test_wrong_labels_are_named(label: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluated(Cross_Entropy_With_Softmax(), label, np.zeros((2, 4)))


def test_cross_entropy_takes_rows_of_classes() -> None:
    with pytest.raises(ValueError, match=r"takes outputs of shape \(batch, classes\), got \(2, 3, 4\)"):
        evaluated(Cross_Entropy_With_Softmax(), [0, 1], np.zeros((2, 3, 4)))


def test_mean_square_error() -> None:
    value, gradient = evaluated(MSELoss(), [[1, 2], [3, 4]], [[1, 4], [3, 3]])
    assert value == 5 / 4
    assert gradient.tolist() == [[0, 1], [0, -0.5]]


def test_mean_square_error_takes_a_vector_for_one_output() -> None:
    assert evaluated(MSELoss(), [1, 2], [[1], [4]])[0] == 2


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (np.zeros((2, 3)), r"MSELoss labels must have the shape \(2, 2\) of the output, got \(2, 3\)"),
        (np.zeros(2), r"of the output, got \(2,\)"),
        (np.zeros((3, 2)), "one label for each of the 2 samples, got 3"),
        (np.array([["a", "b"], ["c", "d"]]), "MSELoss labels must be numbers, got <U1"),
    ],
)
def test_wrong_targets_are_named(label: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluated(MSELoss(), label, np.zeros((2, 2)))

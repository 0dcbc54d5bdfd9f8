"""Class numbers to one-hot rows; samples untouched."""

import numpy as np
import pytest

from nn.dataset.transforms import OneHot

X = np.arange(6).reshape(3, 2)


def rows(train, test, **arguments):
    return OneHot(**arguments)(X, np.array(train), X, np.array(test))[1::2]


def test_rows_are_as_wide_as_the_labels_of_both_parts_need():
    train, test = rows([0, 1, 1], [3, 0, 1])
    assert train.dtype == test.dtype == np.float32
    assert train.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]]
    assert test.tolist() == [[0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]


def test_or_as_wide_as_asked_for():
    assert rows([0, 1, 1], [0], classes=5)[0].shape == (3, 5)


@pytest.mark.parametrize("labels", [[[0], [1], [1]], [0.0, 1.0, 1.0], [False, True, True], np.array([0, 1, 1], np.uint8)])
def test_every_form_of_class_numbers(labels):
    assert rows(labels, labels)[0].tolist() == [[1, 0], [0, 1], [0, 1]]


def test_samples_are_the_same_objects():
    train_x, _, test_x, _ = OneHot()(X, np.array([0, 1, 2]), X, np.array([0, 1, 2]))
    assert train_x is X
    assert test_x is X


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: OneHot(0), ValueError, "OneHot 'classes' must be a positive integer, got 0"),
        (lambda: OneHot(True), TypeError, "OneHot 'classes' must be a positive integer, got True"),
        (lambda: rows([0, -1, 1], [0]), ValueError, "OneHot needs labels that number the classes from 0, got -1"),
        (lambda: rows([0, 1, 1], [7], classes=5), ValueError, "'classes' must exceed every label, got 5 and the label 7"),
        (lambda: rows([0, 0.5, 1], [0.0]), ValueError, "OneHot needs labels that are class numbers, got 0.5"),
        (lambda: rows([0, np.nan, 1], [0.0]), ValueError, "OneHot needs labels that are numbers, got NaN"),
        (lambda: rows([0, np.inf, 1], [0.0]), ValueError, "OneHot needs labels that are class numbers, got inf"),
        (lambda: rows(np.eye(3), np.eye(3)), ValueError, r"OneHot needs labels of shape \(n,\) or \(n, 1\), got \(3, 3\)"),
        (lambda: rows([], []), ValueError, r"OneHot needs labels of shape \(n,\) or \(n, 1\), got \(0,\)"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()

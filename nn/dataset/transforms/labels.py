"""Readings of labels: class numbers, one-hot rows, and values to sort by; and the transform to one-hot rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arrays import Array, refuse_masked
from nn.dataset.interface import Arrays
from nn.dataset.transforms.abstract import AbsTransformer, as_parts

__all__ = ["OneHot", "class_numbers", "one_hot", "sort_keys"]


def one_hot(
    owner: object, train: Array, test: Array, classes: int | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return rows ``(n, classes)`` with a one in the column that each of the class numbers ``(n,)`` or ``(n, 1)`` names.

    Args:
        owner: transform named by its class in errors.
        train: class numbers of the training part.
        test: class numbers of the test part.
        classes: number of columns; default: the largest number of both parts plus one.

    Raises ValueError naming the class of `owner` for a number that is negative or not below `classes`.
    """
    # Of both parts, so that they have equally many columns.
    name, lowest, highest = type(owner).__name__, min(int(train.min()), int(test.min())), max(int(train.max()), int(test.max()))
    if lowest < 0:
        raise ValueError(f"{name} needs labels that number the classes from 0, got {lowest}")
    if classes is not None and highest >= classes:
        raise ValueError(f"{name} 'classes' must exceed every label, got {classes} and the label {highest}")
    parts = []
    for labels in (train, test):
        rows = np.zeros((len(labels), highest + 1 if classes is None else classes), np.float32)
        rows[np.arange(len(labels)), labels.reshape(-1).astype(np.intp)] = 1
        parts.append(rows)
    return parts[0], parts[1]


def class_numbers(owner: object, labels: Array) -> NDArray[np.int64]:
    """Return the class number of every sample, ``(n,)``.

    Args:
        owner: the object; the error names its class.
        labels: integers, booleans or whole floats of shape ``(n,)`` or ``(n, 1)``, or rows ``(n, classes)`` with the class as
            place of the largest entry.

    Raises ValueError for labels of another rank, and for a float label that is no class number.
    """
    keys = sort_keys(owner, labels)
    if keys.dtype.kind == "f":
        # Half precision does not hold the bound.
        keys = keys.astype(np.promote_types(keys.dtype, np.float64), copy=False)
        whole = np.isfinite(keys) & (keys == np.rint(keys)) & (np.abs(keys) < 2**53)
        if not whole.all():
            raise ValueError(f"{type(owner).__name__} needs labels that are class numbers, got {keys[~whole][0]}")
    return keys.astype(np.int64)


def sort_keys(owner: object, labels: Array) -> NDArray[Any]:
    """Return one number per sample, ``(n,)``: its class, or its value where the labels are values.

    Args:
        owner: the object; the error names its class.
        labels: ``(n,)`` or ``(n, 1)``, taken as they are, or rows, of which the place of the largest entry counts.

    Raises ValueError for labels of another rank, and for NaN.
    """
    if labels.ndim not in (1, 2) or labels.dtype.kind not in "biuf":
        raise ValueError(
            f"{type(owner).__name__} needs labels of shape (n,), (n, 1) or (n, classes), got {labels.dtype} {labels.shape}"
        )
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"{type(owner).__name__} needs labels that are numbers, got NaN")
    # A single column holds class numbers or values, not rows of one class.
    return labels.argmax(axis=1) if labels.ndim == 2 and labels.shape[1] > 1 else labels.reshape(-1)


class OneHot(AbsTransformer, configured=True):
    """Labels to one-hot rows: class numbers ``(n,)`` or ``(n, 1)`` become float32 ``(n, classes)``; samples stay.

    ``rows[i, j] = 1 if labels[i] == j else 0``. Class numbers are integers, booleans or whole floats. Without `classes` there
    are as many as the largest label of training and test set says, plus one.

    Raises ValueError for labels that are no class numbers, or are negative or not below `classes`.

    >>> x, y = np.zeros((2, 1)), np.array([2, 0])
    >>> nn.dataset.transforms.OneHot(classes=3)(x, y, x, y)[1].tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """

    takes_parts: ClassVar[bool] = False

    for_training_only = True  # a prediction has no labels

    def __init__(self, classes: int | None = None) -> None:
        self.classes = None if classes is None else arguments.integer(self, "classes", classes, minimum=1)

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        refuse_masked("OneHot labels", train_y, test_y)
        train_x, train_y, test_x, test_y = as_parts(self, train_x, train_y, test_x, test_y)
        for labels in (train_y, test_y):
            if labels.size != len(labels) or not labels.size:
                raise ValueError(f"OneHot needs labels of shape (n,) or (n, 1), got {labels.shape}")
        train_y, test_y = one_hot(self, class_numbers(self, train_y), class_numbers(self, test_y), self.classes)
        return train_x, train_y, test_x, test_y

"""Classes that labels name, checked against predictions."""

import numpy as np

from nn.arrays import Array
from nn.metric.not_a_number import has_nan


def class_numbers(owner: object, label: Array, prediction: Array) -> Array:
    """Return the class of every row of predictions (batch, ..., classes), in the shape (batch, ...).

    Labels are class numbers (batch, ...) or (batch, ..., 1), or rows (batch, ..., classes), of which the first largest
    element counts. Raises ValueError for predictions that are no rows of at least two classes, for labels of any other
    shape, and for class numbers that are not whole or not in 0..classes - 1.
    """
    shape = prediction.shape
    if len(shape) < 2 or shape[-1] < 2 or prediction.dtype.kind not in "fiub":
        raise ValueError(
            f"{type(owner).__name__} takes predictions (batch, ..., classes), got {prediction.dtype} of shape {shape}"
        )
    rows = shape[:-1]
    if label.shape == rows:
        return check_range(owner, label, shape[-1])
    if label.shape == (*rows, 1):
        return check_range(owner, label.reshape(rows), shape[-1])
    if label.shape != shape or label.dtype.kind not in "iufb":
        raise ValueError(
            f"{type(owner).__name__} takes labels of shape {rows} or rows of shape {shape} for predictions of shape {shape}, "
            f"got {label.dtype} of shape {label.shape}"
        )
    if has_nan(label):
        raise ValueError(f"{type(owner).__name__} label rows must not hold NaN")
    return np.asarray(label.argmax(axis=-1))


def check_range(owner: object, label: Array, classes: int) -> Array:
    """Return class numbers as integers; raise ValueError unless all are whole and in 0..classes - 1."""
    kind = label.dtype.kind
    if kind in "iu":
        # of all searches of NumPy this is the fastest
        if label.size and (label.item(label.argmax()) >= classes or label.item(label.argmin()) < 0):
            raise ValueError(f"{_classes(owner, classes)}, got {label.min()}..{label.max()}")
        return label
    if kind == "b":
        return label.view(np.uint8)
    if kind != "f":
        raise ValueError(f"{_classes(owner, classes)}, got {label.dtype}")
    whole = np.rint(label)
    wrong = label[~((whole == label) & (label >= 0) & (label < classes))]
    if wrong.size:
        raise ValueError(f"{_classes(owner, classes)}, got {wrong[0]:g}")
    return whole.astype(np.intp)


def _classes(owner: object, classes: int) -> str:
    return f"{type(owner).__name__} labels must be classes in 0..{classes - 1}"

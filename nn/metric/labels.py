"""What labels say about classes, of two or several, checked against predictions."""

from __future__ import annotations

import numpy as np

from nn.arrays import Array
from nn.metric.metric import has_nan


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


_ROUNDING = 1e-3


def truth_and_scores(owner: object, label: Array, prediction: Array) -> tuple[Array, Array]:
    """Return which samples are positive, bool (batch,), and the score of each, (batch,): the larger, the more positive.

    Predictions (batch,) or (batch, 1) are scores, such as probabilities of being positive; labels of either shape hold 1 for
    positive and 0 for negative, or -1 as `Hinge` takes it. Predictions (batch, 2) are the probabilities of class 0 and 1, as
    `Softmax` gives them, of which the second is the score; labels are class numbers as above, or one-hot rows (batch, 2).
    Raises ValueError for anything else.
    """
    name, shape = type(owner).__name__, prediction.shape
    samples = shape[0] if shape else 0
    if shape not in ((samples,), (samples, 1), (samples, 2)) or prediction.dtype.kind not in "iufb":
        raise ValueError(
            f"{name} takes numbers (batch,) or (batch, 1), or probabilities (batch, 2), as predictions, "
            f"got {prediction.dtype} of shape {shape}"
        )
    two_classes = shape == (samples, 2)
    one_hot_rows = two_classes and label.shape == shape
    if not one_hot_rows and label.shape not in ((samples,), (samples, 1)):
        one_hot = f" or {shape}" if two_classes else ""
        raise ValueError(f"{name} takes labels of shape ({samples},), ({samples}, 1){one_hot}, got {label.shape}")
    if label.dtype.kind not in "iufb":
        raise ValueError(f"{name} labels must be numbers, got {label.dtype}")
    truth = _one_hot(name, label) if one_hot_rows else _positive(name, label.reshape(samples))
    return truth, _second(name, prediction) if two_classes else prediction.reshape(samples)


def _positive(name: str, label: Array) -> Array:
    truth = label == 1
    wrong = ~(truth | (label == 0) | (label == -1))
    if wrong.any():
        raise ValueError(f"{name} labels must be 0 or 1 (or -1 and 1), got {label[wrong][0]}")
    return np.asarray(truth)


def _one_hot(name: str, label: Array) -> Array:
    truth = label[:, 1] == 1
    wrong = (label[:, 0] != ~truth) | (label[:, 1] != truth)
    if wrong.any():
        raise ValueError(f"{name} label rows must be one-hot, [1, 0] or [0, 1], got {label[wrong][0].tolist()}")
    return np.asarray(truth)


def _second(name: str, prediction: Array) -> Array:
    sums = prediction.sum(axis=1)
    wrong = np.abs(sums - 1) > _ROUNDING
    if wrong.any():
        raise ValueError(
            f"{name} takes rows of two probabilities that sum to 1, got {prediction[wrong][0].tolist()}; "
            "a model that ends in scores needs a Softmax"
        )
    score = prediction[:, 1]
    # a row with NaN is NaN as a whole
    return np.where(np.isnan(sums), np.nan, score) if has_nan(prediction) else score

"""What labels say: class numbers, one-hot rows, and values to sort by."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn.arrays import Array

__all__ = ["class_numbers", "one_hot", "sort_keys"]


def one_hot(labels: Array, classes: int) -> NDArray[np.float32]:
    """Return rows ``(n, classes)`` with a one in the column that each of the class numbers ``(n,)`` or ``(n, 1)`` names."""
    rows = np.zeros((len(labels), classes), np.float32)
    rows[np.arange(len(labels)), labels.reshape(-1).astype(np.intp)] = 1
    return rows


def class_numbers(owner: object, labels: Array) -> NDArray[np.int64]:
    """Return the class number of every sample, ``(n,)``.

    Labels are integers, booleans or whole floats of shape ``(n,)`` or ``(n, 1)``, or rows ``(n, classes)`` whose largest
    entry says the class. Raises ValueError naming the class of `owner` for labels of another rank, and for a float label
    that is no class number.
    """
    keys = sort_keys(owner, labels)
    if keys.dtype.kind == "f":
        whole = np.isfinite(keys) & (keys == np.rint(keys)) & (np.abs(keys) < 2**53)
        if not whole.all():
            raise ValueError(f"{type(owner).__name__} needs labels that are class numbers, got {keys[~whole][0]}")
    return keys.astype(np.int64)


def sort_keys(owner: object, labels: Array) -> NDArray[Any]:
    """Return one number per sample, ``(n,)``: its class, or its value where the labels are values.

    Labels ``(n,)`` or ``(n, 1)`` are taken as they are; of rows the place of the largest entry. Raises ValueError naming the
    class of `owner` for labels of another rank, and for NaN.
    """
    if labels.ndim not in (1, 2) or labels.dtype.kind not in "biuf":
        raise ValueError(
            f"{type(owner).__name__} needs labels of shape (n,), (n, 1) or (n, classes), got {labels.dtype} {labels.shape}"
        )
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"{type(owner).__name__} needs labels that are numbers, got NaN")
    return labels.argmax(axis=1) if labels.ndim == 2 and labels.shape[1] > 1 else labels.reshape(-1)

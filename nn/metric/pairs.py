"""Numbers to be predicted beside predictions."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from nn.arrays import Array, as_array

_BLOCK = 4096


def as_arrays(owner: object, label: ArrayLike, prediction: ArrayLike) -> tuple[Array, Array]:
    """Return both as arrays; raise ValueError where one of them masks numbers."""
    name = type(owner).__name__
    return as_array(f"{name} 'label'", label), as_array(f"{name} 'prediction'", prediction)


def number_pairs(owner: object, label: Array, prediction: Array) -> Iterator[tuple[Array, Array]]:
    """Return an iterator over blocks of label and prediction, new float64 arrays (rows, outputs) that stay in the cache.

    Both have one shape, or one is (batch,) and the other (batch, 1). Raises ValueError otherwise.
    """
    name = type(owner).__name__
    equal = label.shape == prediction.shape
    if not equal and not (label.shape == (*prediction.shape, 1) or prediction.shape == (*label.shape, 1)):
        raise ValueError(f"{name} takes labels of the shape {prediction.shape} of the predictions, got {label.shape}")
    if not prediction.ndim:
        raise ValueError(f"{name} takes predictions (batch, ...), got a single number")
    for what, array in (("labels", label), ("predictions", prediction)):
        if array.dtype.kind not in "iufb":
            raise ValueError(f"{name} {what} must be numbers, got {array.dtype}")
    outputs = max(label.size, 1) // max(len(label), 1)
    return _blocks(label.reshape(-1, outputs), prediction.reshape(-1, outputs), max(_BLOCK // outputs, 1))


def _blocks(label: Array, prediction: Array, rows: int) -> Iterator[tuple[Array, Array]]:
    for start in range(0, len(label), rows):
        stop = start + rows
        yield label[start:stop].astype(np.float64), prediction[start:stop].astype(np.float64)

"""Checks of labels, so that every error names the loss, what it expects and what came."""

from typing import Any

import numpy as np

from nn.arrays import Array, Shape


def check_length(owner: object, label: Array, samples: int) -> None:
    """Raise ValueError unless there is one label for each sample."""
    name = type(owner).__name__
    if not samples:
        raise ValueError(f"{name} takes at least one sample, got none")
    if label.ndim == 0 or len(label) != samples:
        count = len(label) if label.ndim else "a single number"
        raise ValueError(f"{name} 'label' must hold one label for each of the {samples} samples, got {count}")


def targets(owner: object, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Return finite numbers of the shape of the output; the last axis may be missing where it has length 1."""
    name = type(owner).__name__
    check_length(owner, label, shape[0])
    if label.shape != shape and shape != (*label.shape, 1):
        raise ValueError(f"{name} labels must have the shape {shape} of the output, got {label.shape}")
    return _finite(name, label, dtype).reshape(shape)


def classes(owner: object, label: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Return class numbers (batch, ...) or rows of probabilities (batch, ..., classes) for outputs (batch, ..., classes).

    Class numbers are integers, booleans or whole floats.
    """
    name = type(owner).__name__
    if len(shape) < 2:
        raise ValueError(f"{name} takes outputs of shape (batch, ..., classes), got {shape}")
    check_length(owner, label, shape[0])
    if label.shape == shape:
        return _rows(name, label, dtype)
    places, count = shape[:-1], shape[-1]
    if label.shape not in (places, (*places, 1)) or label.dtype.kind not in "iufb":
        raise ValueError(
            f"{name} labels must be integers of shape {places} or rows of shape {shape}, "
            f"got {label.dtype} of shape {label.shape}"
        )
    if label.dtype.kind in "fb":
        label = _whole(name, label)
    low, high = int(label.min()), int(label.max())
    if low < 0 or high >= count:
        raise ValueError(f"{name} labels must lie in 0..{count - 1} for {count} outputs, got {low}..{high}")
    numbers = label.reshape(places)
    # the one integer type that does not add up to a place in memory
    return numbers.astype(np.intp) if numbers.dtype == np.uint64 else numbers


def _whole(name: str, label: Array) -> Array:
    """Return booleans and whole floats as integers."""
    numbers = label.astype(np.float64)
    # infinity is whole, but no integer
    wrong = ~((np.rint(numbers) == numbers) & (np.abs(numbers) < 2**53))
    if wrong.any():
        raise ValueError(f"{name} labels that number classes must be whole, got {numbers[wrong][0]:g}")
    return numbers.astype(np.int64)


def _rows(name: str, label: Array, dtype: np.dtype[Any]) -> Array:
    rows = _finite(name, label, dtype)
    sums = rows.sum(axis=-1).reshape(-1)
    wrong = np.flatnonzero(np.abs(sums - 1) > 1e-3)
    if wrong.size or rows.min() < 0:
        found = f"row {wrong[0]} sums to {sums[wrong[0]]:g}" if wrong.size else "a negative one"
        raise ValueError(f"{name} label rows must hold probabilities that sum to 1, got {found}")
    return rows


def _finite(name: str, label: Array, dtype: np.dtype[Any]) -> Array:
    if label.dtype.kind not in "iufb":
        raise ValueError(f"{name} labels must be numbers, got {label.dtype}")
    with np.errstate(over="ignore"):
        numbers = np.asarray(label, dtype)
    # both are NaN where one label is
    for bound in (numbers.min(), numbers.max()):
        if not np.isfinite(bound):
            raise ValueError(f"{name} labels must be finite, got {bound:g} in {dtype}")
    return numbers

"""A batch of samples and labels; whether samples fit a model, and whether they are finite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nn.arrays import Array, Shape, as_array


class Batch(NamedTuple):
    """Samples in the model's type, labels as its loss takes them, and the weights of the samples (None: all 1).

    `given` are the samples as they came, and `places` their numbers in the array that they came from, where there is one.
    """

    x: Array
    label: Array
    weight: Array | None
    given: Array
    places: Sequence[int] | Array | None = None


def as_type(samples: Array, dtype: np.dtype[Any]) -> Array:
    """Return samples in the type that a model computes in. What is too large for it becomes infinite."""
    if samples.dtype == dtype:
        return samples
    with np.errstate(over="ignore"):
        return samples.astype(dtype)


def check_samples(owner: str, x: Any, input_shape: Shape) -> Array:
    """Return `x` as an array of samples; raise ValueError unless it has at least one and they have the model's shape."""
    samples = as_array(f"{owner} 'x'", x)
    if samples.dtype.kind not in "iufb":
        hint = "; nn.dataset.ArrayDataset makes numbers of its texts, categories and dates" if hasattr(x, "iloc") else ""
        raise ValueError(f"{owner} 'x' must hold numbers, got {samples.dtype}{hint}")
    if samples.ndim != len(input_shape) or samples.shape[1:] != input_shape[1:]:
        raise ValueError(
            f"{owner} 'x' must have the model's input shape {input_shape}, got {samples.shape}: "
            f"{_difference(samples.shape, input_shape)}"
        )
    if not len(samples):
        raise ValueError(f"{owner} 'x' must hold at least one sample, got shape {samples.shape}")
    return samples


def _difference(shape: Shape, wanted: Shape) -> str:
    if len(shape) == len(wanted):
        axis = next(axis for axis in range(1, len(wanted)) if shape[axis] != wanted[axis])
        return f"axis {axis} must have length {wanted[axis]}, got {shape[axis]}"
    if shape == wanted[1:]:
        return "a single sample needs an axis in front, x[None]"
    if (*shape[1:], 1) == wanted[1:]:
        return f"an axis of length 1 is missing at the end, {'x[:, None]' if len(shape) == 1 else 'x[..., None]'}"
    return f"expected {len(wanted)} axes, got {len(shape)}"


def select_rows(array: Array, rows: slice | Array, memory: Array) -> Array:
    """Return these rows: a view of consecutive ones, others in `memory`, which has room for at least as many."""
    if isinstance(rows, slice):
        return array[rows]
    # mode: 'raise' would go through a buffer
    return array.take(rows, axis=0, out=memory[: len(rows)], mode="clip")


SMALL_ARRAY = 8192
"""Elements of which a mask is made at once; more would be memory that grows with the model."""


def all_finite(array: Array) -> bool:
    """Whether every element is finite."""
    if array.size <= SMALL_ARRAY:
        return int(np.count_nonzero(np.isfinite(array))) == array.size
    flat = array.reshape(-1)
    with np.errstate(over="ignore"):
        squares = np.dot(flat, flat)
    # one pass without memory, which may overflow although all elements are finite
    return math.isfinite(squares) or bool(np.isfinite(flat).all())


def first_bad_sample(x: Array, given: Array | None, places: Sequence[int] | Array | None) -> str | None:
    """Say which sample is not finite, and where in it; None if all are.

    `x` (batch, ...) is what the model computes with, `given` the samples before they were converted to its type, and
    `places` their numbers in the caller's array, where there is one.
    """
    bad = np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))
    if not bad.size:
        return None
    row = int(bad[0])
    inner = tuple(np.argwhere(~np.isfinite(x[row]))[0].tolist())
    value = x[row][inner] if given is None else given[row][inner]
    sample = row if places is None else int(places[row])
    where = "" if places is not None else " of the batch"
    index = ", ".join(str(place) for place in (sample, *inner))
    # what is finite before the conversion was too large for it
    reason = f", which overflows in {x.dtype}" if np.isfinite(value) else ""
    return f"sample {sample}{where} has {value:g} at x[{index}]{reason}"


def not_finite(owner: str, x: Array, given: Array, places: Sequence[int] | Array | None) -> ValueError:
    """Return the error for samples that are not all finite; see `first_bad_sample`."""
    return ValueError(f"{owner} must hold finite numbers: {first_bad_sample(x, given, places)}")

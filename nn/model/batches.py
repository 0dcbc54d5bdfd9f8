"""Samples and labels, checked and dealt in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from nn.arrays import Array, Shape, as_array, empty


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


class Batches:
    """Deals samples, labels and weights in batches of `size`, the last one as long as what is left.

    Memory for shuffled or converted batches is allocated once. A batch is valid until the next. `first` is the number of the
    first sample in the caller's array.
    """

    def __init__(
        self, x: Array, label: Array, weight: Array | None, size: int, dtype: np.dtype[Any], *, first: int = 0
    ) -> None:
        self.samples = len(x)
        self._first = first
        self._size = min(size, len(x))
        self._x, self._label, self._weight = x, label, weight
        self._rows = empty((self._size, *x.shape[1:]), x.dtype)
        self._label_rows = np.empty((self._size, *label.shape[1:]), label.dtype)
        self._weight_rows = None if weight is None else np.empty(self._size, weight.dtype)
        self._converted = None if x.dtype == dtype else empty(self._rows.shape, dtype)

    def __len__(self) -> int:
        return -(-self.samples // self._size)

    def deal(self, order: Array | None = None) -> Iterator[Batch]:
        """Yield each batch, in the given order of samples or as they are."""
        for start in range(0, self.samples, self._size):
            stop = min(start + self._size, self.samples)
            rows = slice(start, stop) if order is None else order[start:stop]
            x = given = select_rows(self._x, rows, self._rows)
            if self._converted is not None:
                x = self._converted[: stop - start]
                # what is too large for the type becomes infinite
                with np.errstate(over="ignore"):
                    np.copyto(x, given, casting="unsafe")
            label = select_rows(self._label, rows, self._label_rows)
            weight = None
            if self._weight is not None and self._weight_rows is not None:
                weight = select_rows(self._weight, rows, self._weight_rows)
            places = range(self._first + start, self._first + stop) if order is None else order[start:stop]
            yield Batch(x, label, weight, given, places)


def select_rows(array: Array, rows: slice | Array, memory: Array) -> Array:
    """Return these rows: a view of consecutive ones, others in `memory`, which has room for at least as many."""
    if isinstance(rows, slice):
        return array[rows]
    # mode: 'raise' would go through a buffer
    return array.take(rows, axis=0, out=memory[: len(rows)], mode="clip")

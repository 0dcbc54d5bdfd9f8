"""Samples and labels, checked and dealt in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from nn.arrays import Array, Shape, empty


class Batch(NamedTuple):
    """Samples in the model's type, labels as its loss takes them, and the weights of the samples (None: all 1)."""

    x: Array
    label: Array
    weight: Array | None = None


def check_samples(x: Any, input_shape: Shape) -> Array:
    """Return `x` as an array of samples; raise ValueError unless it has at least one and they have the model's shape."""
    samples = np.asarray(x)
    if samples.dtype.kind not in "iufb":
        raise ValueError(f"'x' must hold numbers, got {samples.dtype}")
    if samples.ndim != len(input_shape) or samples.shape[1:] != input_shape[1:]:
        raise ValueError(f"'x' must have the model's input shape {input_shape}, got {samples.shape}")
    if not len(samples):
        raise ValueError(f"'x' must hold at least one sample, got shape {samples.shape}")
    return samples


class Batches:
    """Deals samples, labels and weights in batches of `size`, the last one as long as what is left.

    Memory for shuffled or converted batches is allocated once. A batch is valid until the next.
    """

    def __init__(self, x: Array, label: Array, weight: Array | None, size: int, dtype: np.dtype[Any]) -> None:
        self.samples = len(x)
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
            x = _select(self._x, rows, self._rows)
            if self._converted is not None:
                converted = self._converted[: stop - start]
                np.copyto(converted, x, casting="unsafe")
                x = converted
            label = _select(self._label, rows, self._label_rows)
            if self._weight is None or self._weight_rows is None:
                yield Batch(x, label)
            else:
                yield Batch(x, label, _select(self._weight, rows, self._weight_rows))


def _select(array: Array, rows: slice | Array, memory: Array) -> Array:
    """Return these rows: a view of consecutive ones, others in `memory`."""
    if isinstance(rows, slice):
        return array[rows]
    # mode: 'raise' would go through a buffer
    return array.take(rows, axis=0, out=memory[: len(rows)], mode="clip")

"""Samples and labels, checked and dealt in batches."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from nn.arrays import Array, Shape, empty


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
    """Deals samples and labels in batches of `size`, the last one as long as what is left.

    Memory for shuffled or converted batches is allocated once. A batch is valid until the next.
    """

    def __init__(self, x: Array, label: Array, size: int, dtype: np.dtype[Any]) -> None:
        self.samples = len(x)
        self._x, self._label, self._size = x, label, min(size, len(x))
        self._rows = empty((self._size, *x.shape[1:]), x.dtype)
        self._label_rows = np.empty((self._size, *label.shape[1:]), label.dtype)
        self._converted = None if x.dtype == dtype else empty(self._rows.shape, dtype)

    def __len__(self) -> int:
        return -(-len(self._x) // self._size)

    def deal(self, order: Array | None = None) -> Iterator[tuple[Array, Array]]:
        """Yield (x, label) for each batch, in the given order of samples or as they are."""
        for start in range(0, len(self._x), self._size):
            stop = min(start + self._size, len(self._x))
            if order is None:
                x, label = self._x[start:stop], self._label[start:stop]
            else:
                rows, count = order[start:stop], stop - start
                # mode: 'raise' would go through a buffer
                x = self._x.take(rows, axis=0, out=self._rows[:count], mode="clip")
                label = self._label.take(rows, axis=0, out=self._label_rows[:count], mode="clip")
            if self._converted is not None:
                converted = self._converted[: stop - start]
                np.copyto(converted, x, casting="unsafe")
                x = converted
            yield x, label

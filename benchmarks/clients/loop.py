"""Steps of a client in plain NumPy, for this process and for a peer's, which has none of our packages."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]
Views = list[tuple[Array, Array]]


def views(vector: Array, units: tuple[int, ...]) -> Views:
    """Return kernel and bias of each layer, as views of a flat vector."""
    found, at = [], 0
    for inputs, outputs in pairwise(units):
        kernel, end = vector[at : at + inputs * outputs].reshape(inputs, outputs), at + inputs * outputs
        found.append((kernel, vector[end : end + outputs]))
        at = end + outputs
    return found


def gradient(layers: Views, out: Views, x: Array, y: Array) -> None:
    """Write the gradient of the mean cross entropy of a batch into `out`."""
    values = [x]
    for place, (kernel, bias) in enumerate(layers):
        z = values[-1] @ kernel
        z += bias
        if place + 1 < len(layers):
            np.maximum(z, 0, out=z)
        else:
            z -= z.max(axis=1, keepdims=True)
            np.exp(z, out=z)
        values.append(z)
    error = values[-1]
    error /= error.sum(axis=1, keepdims=True)
    error -= y
    error /= len(x)
    for place in range(len(layers) - 1, -1, -1):
        np.matmul(values[place].T, error, out=out[place][0])
        np.sum(error, axis=0, out=out[place][1])
        if place:
            error = error @ layers[place][0].T
            error *= values[place] > 0


class Learner:
    """Network with the memory that the steps of a client take.

    Args:
        units: units of its layers, the input first.
        parameters: number of its parameters.
    """

    def __init__(self, units: tuple[int, ...], parameters: int) -> None:
        self._own, self._step = np.empty(parameters, np.float32), np.empty(parameters, np.float32)
        self._layers, self._out = views(self._own, units), views(self._step, units)

    def change(self, common: Array, x: Array, y: Array, size: int, rate: float, order: np.ndarray[Any, Any]) -> Array:
        """Take a step of SGD for each `size` samples of the order; return how the common parameters have changed."""
        np.copyto(self._own, common)
        for at in range(0, len(order), size):
            part = order[at : at + size]
            gradient(self._layers, self._out, x[part], y[part])
            np.multiply(self._step, rate, out=self._step)
            self._own -= self._step
        return np.subtract(self._own, common, out=self._step)

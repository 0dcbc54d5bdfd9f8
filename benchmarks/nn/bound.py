"""The bound of a network: the products of its layers with nothing between them, and one pass over memory for the rule.

The argument is `<task>:<workload>`, as for `benchmarks.nn.ours`. Forward there is one product a layer, backward one for the
variables and, behind the first layer, one for the input. A convolution counts as one product over its patches; methods that
multiply less may pass it. The rule reads parameters, gradients and Adam's two moments, and writes all but the gradients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.nn.workload import WORKLOADS, Workload, repetitions

BOUND = "bare products"


class Layer(NamedTuple):
    """`times` products, one after the other, of `rows` rows per sample with the same variables (inner, columns)."""

    rows: int
    inner: int
    columns: int
    times: int = 1


def layers(workload: Workload) -> Iterator[Layer]:
    """The layers that multiply; the first has an input of which nobody wants the gradient."""
    *space, features = workload.sample
    for kind, size in workload.layers:
        if kind == "dense":
            yield Layer(1, features, size)
        elif kind == "conv":
            yield Layer(space[0] * space[1], 9 * features, size)
        elif kind == "lstm":
            yield Layer(space[0], features, 4 * size)
            yield Layer(1, size, 4 * size, times=space[0])
            space = []
        elif kind == "pool":
            space = [axis // size for axis in space]
        else:
            size = features * space[0] * space[1]
        features = features if kind == "pool" else size


class Products:
    """The products of one layer, with memory of their own but for the gradient of the input."""

    def __init__(self, layer: Layer, batch: int) -> None:
        rows = layer.rows * batch
        generator = np.random.default_rng(0)
        self._x = generator.standard_normal((layer.times, rows, layer.inner), dtype=np.float32)
        self._variables = generator.standard_normal((layer.inner, layer.columns), dtype=np.float32)
        self._output = np.empty((layer.times, rows, layer.columns), np.float32)
        self._gradient = np.empty_like(self._variables)
        self._all = self._x.reshape(-1, layer.inner).T, self._output.reshape(-1, layer.columns)

    @property
    def inputs(self) -> int:
        """The numbers in the input."""
        return self._x.size

    @property
    def parameters(self) -> int:
        """The numbers in the variables."""
        return self._variables.size

    def forward(self) -> None:
        for x, output in zip(self._x, self._output, strict=True):
            np.matmul(x, self._variables, out=output)

    def backward(self, scratch: np.ndarray[tuple[int], np.dtype[np.float32]] | None) -> None:
        """Multiply for the variables and, into `scratch`, for the input."""
        np.matmul(*self._all, out=self._gradient)
        if scratch is not None:
            targets = scratch[: self._x.size].reshape(self._x.shape)
            for output, target in zip(self._output, targets, strict=True):
                np.matmul(output, self._variables.T, out=target)


def prepare(argument: str) -> Callable[[], float]:
    """Return one round: as many steps, or predictions, as the other contenders make."""
    task, name = argument.split(":")
    workload = WORKLOADS[name]
    training = task == "train"
    batch = workload.batch if training else int(task.removeprefix("predict"))
    steps = workload.steps if training else repetitions(batch)
    products = [Products(layer, batch) for layer in layers(workload)]
    scratch = np.empty(max(each.inputs for each in products[1:]), np.float32)
    vectors = [np.ones(sum(each.parameters for each in products), np.float32) for _ in range(4)]

    def rule() -> None:
        value, gradient, momentum, square = vectors
        np.add(value, gradient, out=value)
        np.multiply(momentum, square, out=momentum)
        square.fill(1)

    def run() -> float:
        start = time.perf_counter()
        for _ in range(steps):
            for each in products:
                each.forward()
            if training:
                for place, each in reversed(list(enumerate(products))):
                    each.backward(scratch if place else None)
                rule()
        return time.perf_counter() - start

    return run

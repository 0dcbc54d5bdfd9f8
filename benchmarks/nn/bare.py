"""The step of a perceptron in NumPy with nothing around it, in as many threads of its own as a contender has.

The argument is `train:<workload>`, as for `benchmarks.nn.ours`; the layers are dense ones with ReLU between them. A thread
takes its share of the samples forward and back, then its rows of the gradient of each kernel, then its part of the vector under
Adam.
What `nn` does besides is left out: the order of an epoch, the loss, metrics, the search for numbers that are not finite.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from benchmarks.nn.workload import WORKLOADS
from nn.arrays import Array, zeros
from nn.threads import limited_to_one_thread

BARE = "bare step"

CHUNK = 256 * 1024
"""Numbers that the rule works on at a time, as many as those of `nn` in several threads."""

RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
FLOAT = np.dtype(np.float32)


class Meeting:
    """Meeting of threads, as often as they come: the last one lets the others go on."""

    def __init__(self, count: int) -> None:
        self._count = self._missing = count
        self._mutex = threading.Lock()
        # Each thread waits at one of its own, which is held but while it goes on.
        self._gates = [threading.Lock() for _ in range(count)]
        for gate in self._gates:
            gate.acquire()

    def wait(self, place: int) -> None:
        """Return when all have come.

        Args:
            place: number of this thread, from 0.
        """
        with self._mutex:
            self._missing -= 1
            last = not self._missing
            if last:
                self._missing = self._count
        if not last:
            self._gates[place].acquire()
            return
        for other, gate in enumerate(self._gates):
            if other != place:
                gate.release()


class BareNetwork:
    """Perceptron with ReLU, cross-entropy of softmax, and Adam. Its threads end with `close`, or with the process.

    Args:
        sizes: numbers of a sample, of each hidden layer, and classes.
        batch: samples of a step.
        threads: threads that share out each step.
    """

    def __init__(self, sizes: Sequence[int], batch: int, threads: int) -> None:
        self._shapes, self._batch, self._threads = list(pairwise(sizes)), batch, threads
        length = sum((inner + 1) * columns for inner, columns in self._shapes)
        self.values, self._gradients, self._momentum, self._square = (zeros((length,), FLOAT) for _ in range(4))
        self.kernels, self.biases = self._views(self.values)
        self._of_kernels, self._of_biases = self._views(self._gradients)
        generator = np.random.default_rng(0)
        for kernel in self.kernels:
            limit = math.sqrt(6 / sum(kernel.shape))
            kernel[:] = generator.uniform(-limit, limit, kernel.shape)
        # The samples, then the result of each layer; and the gradients of these but the first.
        self._results = [zeros((batch, size), FLOAT) for size in sizes]
        self._back = [zeros((batch, size), FLOAT) for size in sizes[1:]]
        self._active = [np.empty((batch, size), bool) for size in sizes[1:-1]]
        self._scratch = [zeros((CHUNK,), FLOAT) for _ in range(threads)]
        self._steps = 0
        self._numbers: tuple[Array, ...] = ()
        self._given: tuple[Array, Array] = (self._results[0], np.zeros(batch, np.intp))
        self._meeting, self._closed = Meeting(threads), False
        self._others = [threading.Thread(target=self._serve, args=(place,), daemon=True) for place in range(1, threads)]
        for other in self._others:
            other.start()

    def step(self, x: Array, label: Array) -> None:
        """Change the values by one step.

        Args:
            x: samples (batch, numbers) in float32.
            label: class of each, (batch,).
        """
        self._given = x, label
        self._steps += 1
        scale = math.sqrt((1 - BETA2**self._steps) / (1 - BETA2))
        share = -RATE * scale * (1 - BETA1) / (1 - BETA1**self._steps)
        self._numbers = tuple(np.array(number, FLOAT) for number in (BETA1, BETA2, share, EPSILON * scale))
        self._meeting.wait(0)
        self._lane(0)

    def close(self) -> None:
        """End its threads."""
        self._closed = True
        self._meeting.wait(0)
        for other in self._others:
            other.join()

    def _views(self, vector: Array) -> tuple[list[Array], list[Array]]:
        """Return kernels and biases as they lie in a vector, layer by layer."""
        kernels, biases, start = list[Array](), list[Array](), 0
        for inner, columns in self._shapes:
            end = start + inner * columns
            kernels.append(vector[start:end].reshape(inner, columns))
            start = end + columns
            biases.append(vector[end:start])
        return kernels, biases

    def _serve(self, place: int) -> None:
        self._meeting.wait(place)
        while not self._closed:
            self._lane(place)
            self._meeting.wait(place)

    def _share(self, count: int, place: int) -> slice:
        return slice(count * place // self._threads, count * (place + 1) // self._threads)

    def _lane(self, place: int) -> None:
        """Do the share of one thread in a step; the threads meet at the end."""
        rows = self._share(self._batch, place)
        self._forward(rows)
        self._backward(rows)
        self._meeting.wait(place)
        for layer in reversed(range(len(self._shapes))):
            part = self._share(self._shapes[layer][0], place)
            np.matmul(self._results[layer][:, part].T, self._back[layer], out=self._of_kernels[layer][part])
            if not place:
                np.add.reduce(self._back[layer], axis=0, out=self._of_biases[layer])
        self._meeting.wait(place)
        self._rule(self._share(len(self.values), place), self._scratch[place])
        self._meeting.wait(place)

    def _forward(self, rows: slice) -> None:
        samples, _ = self._given
        np.copyto(self._results[0][rows], samples[rows])
        last = len(self._shapes) - 1
        for layer, (kernel, bias) in enumerate(zip(self.kernels, self.biases, strict=True)):
            result = self._results[layer + 1][rows]
            np.matmul(self._results[layer][rows], kernel, out=result)
            np.add(result, bias, out=result)
            if layer < last:
                np.maximum(result, FLOAT.type(0), out=result)

    def _backward(self, rows: slice) -> None:
        _, label = self._given
        scores, gradient = self._results[-1][rows], self._back[-1][rows]
        np.subtract(scores, scores.max(axis=1, keepdims=True), out=scores)
        np.exp(scores, out=gradient)
        np.divide(gradient, gradient.sum(axis=1, keepdims=True), out=gradient)
        gradient[np.arange(len(gradient)), label[rows]] -= 1
        np.multiply(gradient, FLOAT.type(1 / self._batch), out=gradient)
        for layer in reversed(range(len(self._active))):
            behind, active = self._back[layer][rows], self._active[layer][rows]
            np.matmul(self._back[layer + 1][rows], self.kernels[layer + 1].T, out=behind)
            np.greater(self._results[layer + 1][rows], FLOAT.type(0), out=active)
            np.multiply(behind, active, out=behind)

    def _rule(self, part: slice, scratch: Array) -> None:
        beta1, beta2, share, epsilon = self._numbers
        for start in range(part.start, part.stop, CHUNK):
            chunk = slice(start, min(start + CHUNK, part.stop))
            value, gradient, momentum, square = (
                vector[chunk] for vector in (self.values, self._gradients, self._momentum, self._square)
            )
            change = scratch[: len(value)]
            np.multiply(momentum, beta1, out=momentum)
            np.add(momentum, gradient, out=momentum)
            np.multiply(gradient, gradient, out=change)
            np.multiply(square, beta2, out=square)
            np.add(square, change, out=square)
            np.sqrt(square, out=change)
            np.add(change, epsilon, out=change)
            np.divide(momentum, change, out=change)
            np.multiply(change, share, out=change)
            np.add(value, change, out=value)


def prepare(argument: str) -> Callable[[], float]:
    """Return one round of training."""
    workload = WORKLOADS[argument.removeprefix("train:")]
    if workload.hidden is None or workload.activation != "relu":
        raise ValueError(f"the bare step is that of dense layers with ReLU, got {workload.title}")
    x, label = workload.data()
    sizes = [*workload.sample, *workload.hidden, workload.classes]
    network = BareNetwork(sizes, workload.batch, int(os.environ["OMP_NUM_THREADS"]))

    def run() -> float:
        # Its own threads call the BLAS, whose threads would take the cores from them.
        with limited_to_one_thread():
            start = time.perf_counter()
            for first in range(0, len(x), workload.batch):
                network.step(x[first : first + workload.batch], label[first : first + workload.batch])
            return time.perf_counter() - start

    return run

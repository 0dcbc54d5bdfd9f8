"""Data-parallel training as a bare loop: two processes, one network, Adam, and nothing else. What the product takes beyond it
is its own: codecs, accounts, reports, checks, recovery.

The argument is `<network>:<socket or memory>:<plain or sharded>`. `socket` swaps gradients over a Unix socket, `memory` writes
them where the other process reads them, and wakes it by a byte. With `plain` both apply the rule to the mean of all gradients,
with `sharded` each to one half, of whose parameters it tells the other.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import select
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.exchange.workload import NETWORKS
from benchmarks.network.workload import held, other_end

Floats = NDArray[np.float32]
LOOKS = 40  # at a counter, before a process sleeps until the other one wakes it


class Perceptron:
    """Dense layers with tanh or relu between them and softmax at the end; variables are views of one vector."""

    def __init__(self, layers: Sequence[int], batch: int, relu: bool) -> None:
        self.shapes = [shape for pair in itertools.pairwise(layers) for shape in (pair, pair[1:])]
        self.size = sum(int(np.prod(shape)) for shape in self.shapes)
        generator = np.random.default_rng(1)
        self.parameters = np.zeros(self.size, np.float32)
        for variable in self.views(self.parameters)[::2]:
            variable[:] = generator.standard_normal(variable.shape) / np.sqrt(variable.shape[0])
        self._relu = relu
        self._batch = batch
        self._outputs = [np.empty((batch, units), np.float32) for units in layers]
        self._errors = [np.empty((batch, units), np.float32) for units in layers]
        self._slopes = [np.empty((batch, units), np.float32) for units in layers]

    def views(self, vector: Floats) -> list[Floats]:
        """The variables in a vector."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        parts = zip(ends, self.shapes, strict=True)
        return [vector[end - int(np.prod(shape)) : end].reshape(shape) for end, shape in parts]

    def backward(self, variables: list[Floats], gradients: list[Floats], x: Floats, y: Floats) -> None:
        """Write the gradients of the mean cross-entropy of a batch."""
        outputs, errors = self._outputs, self._errors
        last = len(outputs) - 1
        inputs = x
        for layer in range(last):
            out = np.matmul(inputs, variables[2 * layer], out=outputs[layer + 1])
            out += variables[2 * layer + 1]
            if layer < last - 1 and self._relu:
                np.maximum(out, 0, out=out)
            elif layer < last - 1:
                np.tanh(out, out=out)
            inputs = out
        np.subtract(outputs[last], outputs[last].max(1, keepdims=True), out=errors[last])
        error = np.exp(errors[last], out=errors[last])
        error /= error.sum(1, keepdims=True)
        error -= y
        error *= np.float32(1 / self._batch)
        for layer in range(last - 1, -1, -1):
            inputs = outputs[layer] if layer else x
            np.matmul(inputs.T, errors[layer + 1], out=gradients[2 * layer])
            np.sum(errors[layer + 1], 0, out=gradients[2 * layer + 1])
            if layer:
                error = np.matmul(errors[layer + 1], variables[2 * layer].T, out=errors[layer])
                slope = self._slopes[layer]
                if self._relu:
                    np.greater(inputs, 0, out=slope)
                else:
                    np.multiply(inputs, inputs, out=slope)
                    np.subtract(1, slope, out=slope)
                error *= slope


class Adam:
    """Adam (Kingma and Ba) with the usual constants, on vectors."""

    def __init__(self, size: int) -> None:
        self._mean, self._square, self._scaled, self._other = (np.zeros(size, np.float32) for _ in range(4))
        self._step = 0

    def apply(self, parameters: Floats, gradient: Floats) -> None:
        """Move the parameters against a gradient that is the sum of two."""
        self._step += 1
        mean, square, scaled, other = self._mean, self._square, self._scaled, self._other
        np.multiply(gradient, np.float32(0.5), out=scaled)
        mean *= np.float32(0.9)
        mean += np.multiply(scaled, np.float32(0.1), out=other)
        square *= np.float32(0.999)
        scaled *= scaled
        square += np.multiply(scaled, np.float32(0.001), out=other)
        np.sqrt(square, out=other)
        other += np.float32(1e-8)
        np.divide(mean, other, out=other)
        other *= np.float32(1e-3 * np.sqrt(1 - 0.999**self._step) / (1 - 0.9**self._step))
        parameters -= other


class Loop(Protocol):
    """How one of the two processes exchanges what it has computed."""

    def step(self, x: Floats, y: Floats) -> None:
        """Train on one batch."""


class SocketLoop:
    """Gradients and parameters go through a Unix socket, both ways at once."""

    def __init__(self, network: Perceptron, rank: int, sharded: bool, sock: socket.socket) -> None:
        sock.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
        self._network, self._sharded, self._socket = network, sharded, sock
        self._own, self._theirs = (np.empty(network.size, np.float32) for _ in range(2))
        self._variables, self._gradients = network.views(network.parameters), network.views(self._own)
        halves = [slice(None, (network.size + 1) // 2), slice((network.size + 1) // 2, None)]
        self._mine, self._other = (halves[rank], halves[1 - rank]) if sharded else (slice(None), slice(None))
        self._rule = Adam(len(self._own[self._mine]))

    def step(self, x: Floats, y: Floats) -> None:
        self._network.backward(self._variables, self._gradients, x, y)
        parameters = self._network.parameters
        self._swap(self._own[self._other], self._theirs[self._mine])
        total = np.add(self._own[self._mine], self._theirs[self._mine], out=self._theirs[self._mine])
        self._rule.apply(parameters[self._mine], total)
        if self._sharded:
            self._swap(parameters[self._mine], parameters[self._other])

    def _swap(self, sent: Floats, received: Floats) -> None:
        """Send one vector while the other one comes."""
        out, into = memoryview(sent).cast("B"), memoryview(received).cast("B")
        while out or into:
            moved = 0
            try:
                if out:
                    moved = self._socket.send(out)
                    out = out[moved:]
            except BlockingIOError:
                pass
            try:
                if into:
                    count = self._socket.recv_into(into)
                    if not count:
                        raise EOFError
                    moved += count
                    into = into[count:]
            except BlockingIOError:
                pass
            if not moved:
                poll = select.poll()
                poll.register(self._socket, (select.POLLIN if into else 0) | (select.POLLOUT if out else 0))
                poll.poll(5000)


class MemoryLoop:
    """Each process writes its gradients, and the parameters of its half, where the other one reads them.

    Everything is there twice, for steps of even and of odd number, so that nobody writes what the other may still read. It
    relies on stores that become visible in their order, as on x86.
    """

    def __init__(self, network: Perceptron, rank: int, sharded: bool, sock: socket.socket, file: Path) -> None:
        sock.setblocking(False)
        self._network, self._rank, self._sharded, self._bell = network, rank, sharded, sock
        vectors = 6
        size = -(-4 * network.size // mmap.PAGESIZE) * mmap.PAGESIZE
        with file.open("r+b") as shared:
            shared.truncate(mmap.PAGESIZE + vectors * size)
            area = mmap.mmap(shared.fileno(), mmap.PAGESIZE + vectors * size)
        self._counters = np.frombuffer(area, np.uint64, 64).reshape(8, 8)  # a line of the cache each
        self._step = 0

        def vector(number: int) -> Floats:
            return np.frombuffer(area, np.float32, network.size, mmap.PAGESIZE + number * size)

        self._gradients = [[vector(2 * owner + parity) for parity in (0, 1)] for owner in (0, 1)]
        self._parameters = [vector(4), vector(5)]
        halves = [slice(None, (network.size + 1) // 2), slice((network.size + 1) // 2, None)]
        self._mine = halves[rank] if sharded else slice(None)
        self._total = np.empty(network.size, np.float32)[self._mine]
        self._rule = Adam(len(self._total))
        for parameters in self._parameters:
            parameters[:] = network.parameters
        self._written = [network.views(own) for own in self._gradients[rank]]
        self._variables = [network.views(each) for each in (self._parameters if sharded else [network.parameters] * 2)]

    def step(self, x: Floats, y: Floats) -> None:
        parity = self._step % 2
        self._step += 1
        self._network.backward(self._variables[parity], self._written[parity], x, y)
        self._ring(self._rank)
        self._wait(1 - self._rank)
        first, second = (each[parity][self._mine] for each in self._gradients)
        total = np.add(first, second, out=self._total)
        if not self._sharded:
            self._rule.apply(self._network.parameters, total)
            return
        old, new = (self._parameters[number][self._mine] for number in (parity, 1 - parity))
        np.copyto(new, old)
        self._rule.apply(new, total)
        self._ring(2 + self._rank)
        self._wait(3 - self._rank)

    def _ring(self, counter: int) -> None:
        self._counters[counter, 0] = self._step
        with contextlib.suppress(BlockingIOError):
            self._bell.send(b"!")

    def _wait(self, counter: int) -> None:
        value = self._counters[counter]
        for _ in range(LOOKS):
            if value[0] >= self._step:
                return
        while value[0] < self._step:
            select.select([self._bell], [], [], 1.0)
            try:
                if not self._bell.recv(4096):
                    raise EOFError
            except BlockingIOError:
                pass


def trainer(name: str, kind: str, rule: str, rank: int, sock: socket.socket, file: Path) -> Callable[[], float]:
    """One round of training, which begins in both processes at the same time."""
    network = NETWORKS[name]
    own = network.batch // 2
    made = Perceptron(network.layers, own, network.activation == "relu")
    sharded = rule == "sharded"
    loop: Loop = SocketLoop(made, rank, sharded, sock) if kind == "socket" else MemoryLoop(made, rank, sharded, sock, file)
    batches = network.per_epoch
    x, y = network.samples()
    slices = [slice(n * network.batch + rank * own, n * network.batch + (rank + 1) * own) for n in range(batches)]

    def run() -> float:
        loop.step(x[slices[0]], y[slices[0]])  # nobody goes on before both have come here
        start = time.perf_counter()
        for step in range(network.steps):
            part = slices[step % batches]
            loop.step(x[part], y[part])
        return time.perf_counter() - start

    return run


def prepare(argument: str) -> Callable[[], float]:
    return held(lambda: rounds(*argument.split(":")))


def rounds(name: str, kind: str, rule: str) -> Iterator[Callable[[], float]]:
    with tempfile.TemporaryDirectory() as folder:
        path, file = Path(folder, "socket"), Path(folder, "memory")
        file.touch()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            with other_end("benchmarks.exchange.bare", f"{name}:{kind}:{rule}:{folder}"):
                sock, _ = listener.accept()
                with sock:
                    yield trainer(name, kind, rule, 0, sock, file)


def serve(name: str, kind: str, rule: str, folder: str) -> None:
    print("started", flush=True)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(Path(folder, "socket")))
        run: Callable[[], Any] = trainer(name, kind, rule, 1, sock, Path(folder, "memory"))
        try:
            while True:
                run()
        except (EOFError, OSError):
            return


if __name__ == "__main__":
    serve(*sys.argv[1].split(":"))

"""A job of arrays whose workers take virtual time to compute, and whose gradients depend on what they have got."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from parallel_sgd.engine.channel import Wait
from parallel_sgd.engine.exchange import BlockExchange
from parallel_sgd.testing.array_job import SHAPES, ArrayJob, gradient, start

#: (parameters, batch, block, variable) -> gradient
GradientOf = Callable[[np.ndarray, int, int, int], np.ndarray]


def pulled(parameters: np.ndarray, batch: int, block: int, variable: int) -> np.ndarray:
    """A gradient that would differ in every bit if it were computed with other parameters."""
    noise = np.random.default_rng((batch, block, variable)).standard_normal(parameters.shape).astype(np.float32)
    return parameters * np.float32(0.3) + noise


def given(parameters: np.ndarray, batch: int, block: int, variable: int) -> np.ndarray:
    """The gradients of every array job."""
    return gradient(batch, block, variable)


@dataclass
class PacedJob(ArrayJob):
    """Afterwards `ended[node]` holds the moment at which each batch ended, `leads` by how many batches the worker was ahead
    of the slowest at each of them, in batches computed and sent.
    """

    seconds: Callable[[int, int], float] = lambda node, batch: 1.0  # that a worker takes to compute a batch
    gradient_of: GradientOf = pulled

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ended: dict[int, list[float]] = {node: [] for node in self.assignment.nodes}
        self.computed = dict.fromkeys(self.assignment.nodes, 0)
        self.leads: list[int] = []

    def _train(self, node: int, exchange: BlockExchange) -> Iterator[Wait]:
        values = [start(variable) for variable in range(len(SHAPES))]
        buffers = [np.empty(shape, np.float32) for shape in SHAPES]
        for batch in range(min(self.batches, self.ends_after.get(node, self.batches))):
            exchange.begin(0, batch)
            done = self.clock.monotonic() + self.seconds(node, batch)
            while self.clock.monotonic() < done:
                yield Wait(lambda: False, done, lambda: "its own computing")
            for block in self.assignment.node_2_block[node]:
                for variable in (1, 0):
                    buffers[variable][...] = self.gradient_of(values[variable], batch, block, variable)
                    exchange.put(variable, block, buffers[variable])
            self.computed[node] += 1
            for variable in (1, 0):
                yield from exchange.wait(variable)
            values = [exchange.get(variable).copy() for variable in range(len(SHAPES))]
            self.results[node].append(values)
            self.ended[node].append(self.clock.monotonic())
            here = [count for other, count in self.computed.items() if count < self.ends_after.get(other, self.batches)]
            self.leads.append(self.computed[node] - min([*here, self.computed[node]]))
            self.on_batch(node, batch)
        return {}

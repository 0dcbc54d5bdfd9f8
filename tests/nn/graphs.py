"""Runs what is built from one input: for tests of operations and layers."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from nn.arrays import Array
from nn.operation import Mode
from nn.plan import Plan
from nn.value import Graph, Node, Placeholder, Value, VariableStore


class Compiled:
    """A graph with variables and plans: its value, and gradients for a gradient of the output."""

    def __init__(
        self, build: Callable[[Value], Value], sample: tuple[int, ...], dtype: Any = np.float64, seed: int = 0
    ) -> None:
        self.placeholder = Placeholder((-1, *sample))
        output = build(self.placeholder)
        assert isinstance(output, Node)
        self.graph, self.dtype = Graph(self.placeholder, output), np.dtype(dtype)
        self.variables = [variable for variable in self.graph.variables if variable.trainable]
        others = [variable for variable in self.graph.variables if not variable.trainable]
        self.store = VariableStore(self.variables, others, self.dtype, seed)

    def plan(self, batch: int, training: bool = True) -> Plan:
        shape = (batch, *self.placeholder.shape[1:])
        return Plan(self.graph, [shape], self.dtype, training=training, input_gradient=training)

    # As in a training step, NumPy does not warn: what is not finite shows in the values, and BLAS may set the flag of an
    # invalid number for lanes of a register that no result uses.

    @np.errstate(all="ignore")
    def value(self, x: Array, training: bool = False) -> Array:
        return self.plan(len(x), training).forward((np.asarray(x, self.dtype),), Mode(training=training))[0].copy()

    @np.errstate(all="ignore")
    def gradients(self, x: Array, weights: Array | float = 1.0) -> tuple[Array, list[Array]]:
        """The gradient of the input and of every trained variable."""
        plan = self.plan(len(x))
        plan.forward((np.asarray(x, self.dtype),), Mode(training=True))[0]
        plan.output_gradient[...] = weights
        plan.backward()
        assert plan.input_gradient is not None
        return plan.input_gradient, [variable.get_gradient() for variable in self.variables]

    def peak(self, x: Array) -> int:
        """Bytes that a training step allocates at most, after the first one."""
        plan, mode = self.plan(len(x)), Mode(training=True)
        data = np.asarray(x, self.dtype)
        plan.output_gradient.fill(1)

        def step() -> None:
            plan.forward((data,), mode)[0]
            plan.backward()

        step()
        tracemalloc.start()
        try:
            step()
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            step()
            return tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()

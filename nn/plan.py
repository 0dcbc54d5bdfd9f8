"""A graph compiled for one input shape: operations in order, memory allocated once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np

from nn.arrays import Array, Shape, empty
from nn.graph import Graph
from nn.operation import Mode, Operation
from nn.value import Constant, Node, Value, Variable

OnGradient = Callable[[Variable], None]


class Plan:
    """Computes a graph, and its gradients if it is for training.

    Every operation writes into memory of the plan (`out=`). An operation that works in place takes over the memory of its
    first input where nobody reads that any more. A value used several times is computed once and its gradients add up;
    what needs no gradient gets none. The gradient of a variable is written to the variable's own gradient.
    """

    def __init__(
        self, graph: Graph, shape: Shape, dtype: np.dtype[Any], *, training: bool, input_gradient: bool = False
    ) -> None:
        self._dtype = dtype
        self._uses = Counter(source for node in graph.nodes for source in node.inputs)
        self._arrays: dict[Value, Array] = {}
        self._calls: dict[Node, tuple[Operation, list[Array]]] = {}
        self._entries: list[tuple[list[Array], int]] = []
        self._random: list[tuple[Operation, int]] = []
        self._training = training

        placeholder = graph.placeholder
        self._arrays[placeholder] = empty(shape, dtype)
        for position, node in enumerate(graph.nodes):
            self._place(node, position, placeholder)
        self._forward = [(*self._calls[node], self._arrays[node]) for node in graph.nodes]
        self.output: Array = self._arrays[graph.output]
        self._arrays[placeholder] = np.empty(0, dtype)

        self._backward: list[_Step] = []
        if training:
            wanted = _gradient_takers(graph, input_gradient)
            self.output_gradient: Array = empty(self.output.shape, dtype)
            self.input_gradient: Array | None = np.zeros(shape, dtype) if input_gradient else None
            self._plan_backward(graph, wanted)

    def forward(self, x: Array, mode: Mode) -> Array:
        """Compute the output for `x`, an array of the plan's shape and type. It stays valid until the next run."""
        for inputs, index in self._entries:
            inputs[index] = x
        for operation, position in self._random:
            operation.begin(mode, position)
        for operation, inputs, output in self._forward:
            operation.forward(inputs, output)
        return self.output

    def backward(self, on_gradient: OnGradient | None = None) -> None:
        """Compute all gradients from `output_gradient`, after `forward` with the same data.

        `on_gradient(variable)` is called the moment the gradient of that variable is complete, last layer first.
        """
        for step in self._backward:
            step.operation.backward(step.inputs, step.output, step.gradient, step.wanted)
            for target, part in step.sums:
                np.add(target, part, out=target)
            if on_gradient is not None:
                for variable in step.complete:
                    on_gradient(variable)

    def _place(self, node: Node, position: int, placeholder: Value) -> None:
        """Prepare the operation of one node and decide where its output lives."""
        inputs = [self._array(source) for source in node.inputs]
        shapes = [array.shape for array in inputs]
        output = node.operation.infer(*shapes)
        operation = copy(node.operation)
        operation.allocate(shapes, output, self._dtype)
        if type(operation).begin is not Operation.begin:
            self._random.append((operation, position))
        self._entries.extend((inputs, index) for index, source in enumerate(node.inputs) if source is placeholder)
        shared = self._may_overwrite(node) and inputs[0].size == np.prod(output, dtype=int)
        self._arrays[node] = inputs[0].reshape(output) if shared else empty(output, self._dtype)
        self._calls[node] = (operation, inputs)

    def _array(self, value: Value) -> Array:
        if value not in self._arrays:
            if isinstance(value, Variable):
                self._arrays[value] = value.value
            elif isinstance(value, Constant):
                self._arrays[value] = np.asarray(value.array, self._dtype)
        return self._arrays[value]

    def _may_overwrite(self, node: Node) -> bool:
        """Whether the value of the first input is dead once this node is computed."""
        source = node.inputs[0]
        if not node.operation.in_place or not isinstance(source, Node) or self._uses[source] > 1:
            return False
        return not self._training or not (source.operation.reads_output or node.operation.reads_inputs)

    def _plan_backward(self, graph: Graph, takers: set[Value]) -> None:
        """Walk the graph from the output: who writes which gradient, where, and when each variable's is complete."""
        gradients: dict[Value, Array] = {graph.output: self.output_gradient}
        if self.input_gradient is not None:
            gradients[graph.placeholder] = self.input_gradient
        last: dict[Variable, _Step] = {}
        begun: set[Value] = set()
        for node in reversed(graph.nodes):
            if node not in takers:
                continue
            operation, inputs = self._calls[node]
            step = _Step(operation, inputs, self._arrays[node], gradients[node])
            for index, source in enumerate(node.inputs):
                if source not in takers:
                    step.wanted.append(None)
                    continue
                if source not in gradients:
                    gradients[source] = self._gradient_memory(node, index, source, step.gradient)
                target = gradients[source]
                if source in begun:
                    target = empty(target.shape, self._dtype)
                    step.sums.append((gradients[source], target))
                begun.add(source)
                step.wanted.append(target)
                if isinstance(source, Variable):
                    last[source] = step
            self._backward.append(step)
        for variable in sorted(last, key=lambda variable: -variable.id):
            last[variable].complete.append(variable)

    def _gradient_memory(self, node: Node, index: int, source: Value, gradient: Array) -> Array:
        if isinstance(source, Variable):
            return source.gradient
        shape = self._arrays[source].shape
        in_place = index == 0 and node.operation.in_place and self._uses[source] == 1
        if in_place and gradient.size == self._arrays[source].size:
            return gradient if gradient.shape == shape else gradient.reshape(shape)
        return empty(shape, self._dtype)


class _Step:
    """One operation's part of backward."""

    def __init__(self, operation: Operation, inputs: Sequence[Array], output: Array, gradient: Array) -> None:
        self.operation = operation
        self.inputs = inputs
        self.output = output
        self.gradient = gradient
        self.wanted: list[Array | None] = []
        self.sums: list[tuple[Array, Array]] = []
        self.complete: list[Variable] = []


def _gradient_takers(graph: Graph, input_gradient: bool) -> set[Value]:
    """Return the values whose gradient is needed: trained variables and what is computed from them."""
    takers: set[Value] = {graph.placeholder} if input_gradient else set()
    takers.update(variable for variable in graph.variables if variable.id >= 0)
    for node in graph.nodes:
        if any(source in takers for source in node.inputs):
            takers.add(node)
    return takers

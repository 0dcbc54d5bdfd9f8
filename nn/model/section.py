"""Section of a graph between two cuts, and its run, forward and backward as two steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.model.runner import Runner
from nn.operation.operation import Mode
from nn.plan.layout import Whole
from nn.plan.plan import OnGradient, Plan
from nn.value.graph import Graph, copied
from nn.value.value import Node, Value, Variable


class Section:
    """The part of a graph behind the result of layer `begin` (None: the input) up to that of layer `end` (None: the output).

    `entry` is the value that goes in, `result` the one that comes out. Raises ValueError where there is no such layer, where
    another value crosses a cut, and where a variable is used on both sides of one.
    """

    def __init__(self, graph: Graph, begin: str | None, end: str | None) -> None:
        self._graph = graph
        before = set() if begin is None else _cut(graph, begin)
        up_to = set(graph.nodes) if end is None else _cut(graph, end)
        self.entry: Value = graph.placeholder if begin is None else result_of(graph, begin)
        self.result: Node = graph.output if end is None else result_of(graph, end)
        self.nodes = [node for node in graph.nodes if node in up_to and node not in before]
        if self.result not in self.nodes:
            raise ValueError(f"there is nothing between the layers '{begin}' and '{end}'")

    def copy(self, x: Value) -> Node:
        """Return the result for `x` in place of the entry: new nodes with the same operations and variables."""
        made = copied(self.nodes, {self.entry: x})
        self._originals: dict[Value, Node] = {copy: node for node, copy in made.items()}
        return made[self.result]

    def whole(self) -> Whole:
        """Return the graph from which the nodes of the last `copy` were taken, and from which of its nodes."""
        return Whole(self._graph, self._originals)


def result_of(graph: Graph, layer: str) -> Node:
    """Return the last result of a layer; raise ValueError listing the layers where there is none of this name."""
    # A layer may be used several times; the cut is behind its last use.
    for node in reversed(graph.nodes):
        if any(found.name == layer for found in node.layers):
            return node
    names = [found.name for found in graph.layers]
    near = arguments.did_you_mean(layer, names)
    raise ValueError(f"split() 'at' must be one of the layers {', '.join(names)}, got {layer!r}{near}")


def _cut(graph: Graph, layer: str) -> set[Node]:
    """Return the nodes in front of the cut behind a layer; only the layer's result may cross the cut."""
    result = result_of(graph, layer)
    front: set[Node] = {result}
    todo = [result]
    while todo:
        found = [source for source in todo.pop().inputs if isinstance(source, Node) and source not in front]
        front.update(found)
        todo.extend(found)
    behind = {node for node in graph.nodes if node not in front}
    if not behind:
        raise ValueError(f"split() 'at' must leave a layer behind the cut, but '{layer}' gives the output of the model")
    ahead_uses, behind_uses = _used(front), _used(behind)
    # A single value is all that travels between the halves.
    crossing = [value for value in (graph.placeholder, *graph.nodes) if value not in behind and value in behind_uses]
    if crossing != [result]:
        names = ", ".join(_describe(value, graph) for value in crossing)
        raise ValueError(f"split() must cut a single value, but behind '{layer}' {len(crossing)} cross the cut: {names}")
    # Each half would update a copy of its own, and these would drift apart.
    shared = [value.name for value in graph.variables if value in ahead_uses and value in behind_uses]
    if shared:
        raise ValueError(f"split() at '{layer}' would leave on both sides of the cut: variable {', '.join(shared)}")
    return front


def _used(nodes: Iterable[Node]) -> set[Value]:
    return {source for node in nodes for source in node.inputs}


def _describe(value: Value, graph: Graph) -> str:
    if isinstance(value, Node):
        name = value.layers[0].name if value.layers else type(value.operation).__name__
        return f"the result of {name} {value.shape}"
    return value.name if isinstance(value, Variable) else f"the input {graph.placeholder.shape}"


class FragmentRunner(Runner):
    """Runner of a part of a graph, which computes results, gradients of the variables, and the gradient of the input."""

    _open: Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_open": None}

    def forward(self, x: Array, key: tuple[int, ...]) -> Array:
        """Compute the output in training, for a `backward` that follows."""
        self._open = self._compile("forward", (x,)).plan
        return self._open.forward((x,), Mode(training=True, key=key))[0]

    def backward(self, gradient: Array, on_gradient: OnGradient | None) -> None:
        """Compute all gradients from that of the output; raise ValueError unless it fits a `forward` just before."""
        if self._open is None:
            raise ValueError("backward() needs a forward() just before, with the samples that the gradient belongs to")
        target = self._open.output_gradient
        if gradient.shape != target.shape:
            raise ValueError(f"backward() 'gradient' must have the shape {target.shape} of the output, got {gradient.shape}")
        # A gradient of float64 is taken, one of complex numbers is not.
        np.copyto(target, gradient, casting="same_kind")
        self._open.backward(on_gradient)
        # Once: the results of forward are those of one block.
        self._last, self._open = self._open, None

    def input_gradient(self) -> Array:
        """Return the gradient of the input, of the last `step` or `backward`; raise ValueError before one."""
        if self._last is None or self._last.input_gradient is None:
            raise ValueError("there is no gradient of the input yet; call compute_gradients() or backward() first")
        return self._last.input_gradient

"""A graph as people see it: one box for every use of a layer, and what feeds what."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count as count_from

from nn.arrays import Shape
from nn.graph import Graph
from nn.layer import Layer
from nn.value import Node, Value, Variable


@dataclass
class Box:
    """The input, one use of a layer, or an operation outside of layers.

    `sources` are the places of the boxes that feed it, `variables` what an operation uses besides. A layer that is used
    several times has a box for each, `use` of `uses`.
    """

    name: str
    kind: str
    shape: Shape
    sources: list[int] = field(default_factory=list)
    layer: Layer | None = None
    variables: list[Variable] = field(default_factory=list)
    use: int = 1
    uses: int = 1

    @property
    def label(self) -> str:
        """Name and kind."""
        return f"{self.name} ({self.kind})" if self.kind else self.name

    @property
    def parameters(self) -> int:
        """The number of parameters of the layer."""
        return count(self.layer.variables) if self.layer is not None else 0


class Diagram:
    """The boxes of a graph, every one after those that feed it.

    A node belongs to a use of a layer if the layer's result is computed from it and it from the layer's variables; the
    result itself always does. What is left are operations of the model's own.
    """

    def __init__(self, graph: Graph) -> None:
        self.boxes: list[Box] = [Box("input", "", graph.placeholder.shape)]
        self._places: dict[Value, int] = {graph.placeholder: 0}
        touched = _touched(graph)
        inside = {part for node in graph.nodes if node.layers for part in _inside(node, touched)}
        uses = Counter(node.layers[0] for node in graph.nodes if node.layers)
        seen: Counter[Layer] = Counter()
        names = {layer.name for layer in graph.layers}
        for node in graph.nodes:
            if node in inside:
                continue
            box = _layer_box(node) if node.layers else _operation_box(node, names)
            if box.layer is not None:
                seen[box.layer] += 1
                box.use, box.uses = seen[box.layer], uses[box.layer]
            sources = (self._places[source] for source in _sources(node, touched) if source in self._places)
            box.sources = list(dict.fromkeys(sources))
            self._places[node] = len(self.boxes)
            self.boxes.append(box)

    @property
    def branches(self) -> bool:
        """Whether it is anything but a chain, each box fed by the one before it."""
        return any(box.sources != [place] for place, box in enumerate(self.boxes[1:]))


def count(variables: Sequence[Variable]) -> int:
    """Return the number of elements of all these variables."""
    return sum(math.prod(variable.shape) for variable in variables)


def _layer_box(node: Node) -> Box:
    layer, *outer = node.layers
    within = "".join(f" in {each.name}" for each in outer)
    return Box(layer.name, type(layer).__name__ + within, node.shape, layer=layer)


def _operation_box(node: Node, taken: set[str]) -> Box:
    """Return the box of an operation, under a name that is not taken yet, as `add_1`."""
    kind = type(node.operation).__name__
    name = next(name for number in count_from(1) if (name := f"{kind.lower()}_{number}") not in taken)
    taken.add(name)
    return Box(name, kind, node.shape, variables=[source for source in node.inputs if isinstance(source, Variable)])


def _touched(graph: Graph) -> dict[Node, frozenset[Layer]]:
    """Return, for every node that is no layer's result, the layers whose variables it is computed from."""
    found: dict[Node, frozenset[Layer]] = {}
    for node in graph.nodes:
        if not node.layers:
            own = {source.owner for source in node.inputs if isinstance(source, Variable) and source.owner is not None}
            found[node] = frozenset(own).union(*(found.get(source, ()) for source in node.inputs if isinstance(source, Node)))
    return found


def _inside(result: Node, touched: dict[Node, frozenset[Layer]]) -> Iterator[Node]:
    """Yield the nodes, the result left out, that belong to the use of a layer which `result` is."""
    todo = [result]
    done: set[Node] = set()
    while todo:
        for source in todo.pop().inputs:
            if isinstance(source, Node) and source not in done and touched.get(source, frozenset()) & set(result.layers):
                done.add(source)
                todo.append(source)
                yield source


def _sources(node: Node, touched: dict[Node, frozenset[Layer]]) -> Iterator[Value]:
    """Yield what feeds the box of a node, in the order of the inputs."""
    mine = {node, *(_inside(node, touched) if node.layers else ())}
    todo: list[Value] = [node]
    done: set[Value] = set()
    while todo:
        value = todo.pop()
        if isinstance(value, Node) and value in mine:
            todo.extend(source for source in reversed(value.inputs) if source not in done)
            done.update(value.inputs)
        else:
            yield value

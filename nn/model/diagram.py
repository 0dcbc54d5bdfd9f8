"""A graph as people see it: one box for every use of a layer, and arrows between them; the same as a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count as count_from

from nn.arrays import Shape
from nn.value.graph import Graph
from nn.value.store import VariableStore
from nn.value.value import Node, Owner, Value, Variable


@dataclass
class Box:
    """The input, one use of a layer, or an operation outside of layers.

    `sources` are the places of the boxes that feed it, `variables` those that an operation uses besides. A layer that is used
    several times has a box for each, `use` of `uses`.
    """

    name: str
    kind: str
    shape: Shape
    sources: list[int] = field(default_factory=list)
    layer: Owner | None = None
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
        return count(self.layer._own_variables) if self.layer is not None else 0


class Diagram:
    """The boxes of a graph, every one after those that feed it.

    A node belongs to a use of a layer if the layer's result is computed from it and it from the layer's variables; the
    result itself always does. The other nodes are operations of the model's own.
    """

    def __init__(self, graph: Graph) -> None:
        self.boxes: list[Box] = [
            Box(
                entry.name or (f"input_{number}" if len(graph.inputs) > 1 else "input"),
                "Input" if entry.name else "",
                entry.shape,
            )
            for number, entry in enumerate(graph.inputs, start=1)
        ]
        self._places: dict[Value, int] = {entry: place for place, entry in enumerate(graph.inputs)}
        touched = _touched(graph)
        inside = {part for node in graph.nodes if node.layers for part in _inside(node, touched)}
        # The innermost layer has made the result.
        uses = Counter(node.layers[0] for node in graph.nodes if node.layers)
        seen: Counter[Owner] = Counter()
        # Operations get names that no layer has.
        names = {layer.name for layer in graph.layers}
        for node in graph.nodes:
            if node in inside:
                continue
            box = _layer_box(node) if node.layers else _operation_box(node, names)
            if box.layer is not None:
                seen[box.layer] += 1
                box.use, box.uses = seen[box.layer], uses[box.layer]
            sources = (self._places[source] for source in _sources(node, touched) if source in self._places)
            # A value that is used twice feeds the box once.
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


def _touched(graph: Graph) -> dict[Node, frozenset[Owner]]:
    """Return, for every node that is no layer's result, the layers with variables that it is computed from."""
    found: dict[Node, frozenset[Owner]] = {}
    for node in graph.nodes:
        if not node.layers:
            own = {source.owner for source in node.inputs if isinstance(source, Variable) and source.owner is not None}
            found[node] = frozenset(own).union(*(found.get(source, ()) for source in node.inputs if isinstance(source, Node)))
    return found


def _inside(result: Node, touched: dict[Node, frozenset[Owner]]) -> Iterator[Node]:
    """Yield the nodes, the result left out, that belong to the use of a layer which `result` is."""
    todo = [result]
    done: set[Node] = set()
    while todo:
        for source in todo.pop().inputs:
            if isinstance(source, Node) and source not in done and touched.get(source, frozenset()) & set(result.layers):
                done.add(source)
                todo.append(source)
                yield source


def _sources(node: Node, touched: dict[Node, frozenset[Owner]]) -> Iterator[Value]:
    """Yield the values that feed the box of a node, in the order of the inputs."""
    # All nodes of the box, through which the search goes on.
    mine = {node, *(_inside(node, touched) if node.layers else ())}
    todo: list[Value] = [node]
    done: set[Value] = set()
    while todo:
        value = todo.pop()
        if isinstance(value, Node) and value in mine:
            # The last one put there comes first, so that sources come in the order of the inputs.
            todo.extend(source for source in reversed(value.inputs) if source not in done)
            done.update(value.inputs)
        else:
            yield value


class Summary(str):
    """The text of a table that was shown already, so that a notebook or an interpreter does not show it again."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<summary of {self.partition(chr(10))[0]}>"

    def _ipython_display_(self) -> None:
        """Nothing more."""


def summarize(title: str, graph: Graph, store: VariableStore) -> str:
    """Return a table of layer, output shape and parameters, and the totals with their memory.

    A model that is no plain chain gets a column of the boxes that feed each. The memory of activations is that of the values
    that the graph computes for one sample, those left out that are computed in place; a plan adds work space to it.
    """
    diagram = Diagram(graph)
    rows = [_row(box, diagram) for box in diagram.boxes]
    rows += [
        [f"{variable.name} (Variable)", shape_text(variable.shape), f"{count([variable]):,}", ""]
        for variable in store.everything
        if variable.owner is None
    ]
    heads = ["Layer", "Output shape", "Parameters", "From"]
    if not diagram.branches:
        rows, heads = [row[:3] for row in rows], heads[:3]
    table = [heads, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    lines = [_line(row, widths) for row in table]
    rule = "-" * max(len(line) for line in lines)
    size = store.dtype.itemsize
    trained, other = count(store.variables), count(store.everything) - count(store.variables)
    # The batch is -1 and counts as one sample.
    values = sum(math.prod(axis for axis in node.shape if axis > 0) for node in graph.nodes if not node.operation.in_place)
    return "\n".join(
        [
            title, rule, lines[0], rule, *lines[1:], rule,
            f"Total parameters: {trained + other:,} ({_bytes((trained + other) * size)} as {store.dtype})",
            f"Trainable parameters: {trained:,} ({_bytes(trained * size)} as {store.dtype})",
            f"Other parameters: {other:,} ({_bytes(other * size)} as {store.dtype})",
            f"Activations per sample: about {_bytes(values * size)}, in training with gradients {_bytes(2 * values * size)}",
        ]
    )  # fmt: skip


def _row(box: Box, diagram: Diagram) -> list[str]:
    again = f" use {box.use}" if box.use > 1 else ""
    parameters = "shared" if box.use > 1 and box.parameters else f"{box.parameters:,}"
    sources = ", ".join(diagram.boxes[source].name for source in box.sources)
    return [box.label + again, shape_text(box.shape), parameters, sources]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Columns two spaces apart, numbers to the right."""
    parts = [
        f"{cell:>{width}}" if place == 2 else f"{cell:<{width}}"
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(parts).rstrip()


def shape_text(shape: Shape) -> str:
    return f"({', '.join(str(axis) for axis in shape)})"


def _bytes(size: int) -> str:
    if size < 1 << 10:
        return f"{size} bytes"
    return f"{size / 1024:,.1f} KiB" if size < 1 << 20 else f"{size / (1 << 20):,.1f} MiB"

"""A model as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nn.arrays import Shape
from nn.graph import Graph
from nn.model.diagram import Box, Diagram, count
from nn.value import VariableStore


class Summary(str):
    """The text of a table that was shown already, so that a notebook or an interpreter does not show it again."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<summary of {self.partition(chr(10))[0]}>"

    def _ipython_display_(self) -> None:
        """Nothing more."""


def summarize(title: str, graph: Graph, store: VariableStore) -> str:
    """Return a table of layer, output shape and parameters, and the totals with their memory.

    A model that is no plain chain gets a column of what feeds what. The memory of activations is that of the values that
    the graph computes for one sample, those left out that are computed in place; a plan adds work space to it.
    """
    diagram = Diagram(graph)
    rows = [_row(box, diagram) for box in diagram.boxes]
    rows += [
        [f"{variable.name} (Variable)", _text(variable.shape), f"{count([variable]):,}", ""]
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
    return [box.label + again, _text(box.shape), parameters, sources]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Columns two spaces apart, numbers to the right."""
    parts = [
        f"{cell:>{width}}" if place == 2 else f"{cell:<{width}}"
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(parts).rstrip()


def _text(shape: Shape) -> str:
    return f"({', '.join(str(axis) for axis in shape)})"


def _bytes(size: int) -> str:
    if size < 1 << 10:
        return f"{size} bytes"
    return f"{size / 1024:,.1f} KiB" if size < 1 << 20 else f"{size / (1 << 20):,.1f} MiB"

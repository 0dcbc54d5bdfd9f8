"""A model as a table."""

import math
from collections.abc import Sequence

from nn.arrays import Array, Shape
from nn.graph import Graph
from nn.value import Variable, VariableStore


def summarize(title: str, graph: Graph, store: VariableStore) -> str:
    """Return a table of layer, output shape and parameters, and the totals."""
    shapes = {layer: node.shape for node in graph.nodes for layer in node.layers}
    rows = [("Layer", "Output shape", "Parameters"), ("input", _text(graph.placeholder.shape), "0")]
    for layer, shape in shapes.items():
        rows.append((f"{layer.name} ({type(layer).__name__})", _text(shape), f"{_count(layer.variables):,}"))
    rows.extend(
        (f"{variable.name} (Variable)", _text(variable.shape), f"{_count([variable]):,}")
        for variable in store.everything
        if variable.owner is None
    )
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
    rule = "-" * len(lines[0])
    trained, fixed = _count(store.variables), _count([*store.buffers, *store.fixed])
    return "\n".join(
        [
            title, rule, lines[0], rule, *lines[1:], rule,
            f"Trainable parameters: {trained:,} ({_bytes(store.values)})",
            f"Other parameters: {fixed:,}",
        ]
    )  # fmt: skip


def _count(variables: Sequence[Variable]) -> int:
    return sum(math.prod(variable.shape) for variable in variables)


def _text(shape: Shape) -> str:
    return f"({', '.join(str(axis) for axis in shape)})"


def _bytes(values: Array) -> str:
    return f"{values.nbytes / 1024:,.1f} KiB as {values.dtype}"

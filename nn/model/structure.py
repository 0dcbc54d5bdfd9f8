"""From the code of a model to its graph and the order of its variables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nn.arrays import BATCH, Shape
from nn.graph import Graph
from nn.layer.naming import Naming, name_layers
from nn.value import Node, Placeholder, Value, Variable

if TYPE_CHECKING:
    from nn.model.network import Network


def trace(model: Network, input_shape: Shape) -> Graph:
    """Return the graph that `model.call` builds for an input of this shape, layers and variables named; no memory yet.

    Layers are named in the order of their first calls; a variable without a name takes that of the model's attribute, else a
    number. Raises ValueError where the output is not one per sample or where names are not unique.
    """
    placeholder = Placeholder(input_shape)
    with Naming() as naming:
        output = model.call(placeholder)
    if not isinstance(output, Node) or not output.shape or output.shape[0] != BATCH:
        found = f"shape {output.shape}" if isinstance(output, Value) else type(output).__name__
        if output is None:
            found += "; is a 'return' missing?"
        raise ValueError(f"{type(model).__name__}.call() must return one output per sample, (-1, ...), got {found}")
    graph = Graph(placeholder, output)
    name_layers(sorted(graph.layers, key=naming.place))
    for name, value in vars(model).items():
        if isinstance(value, Variable) and value.local_name is None:
            value.local_name = name
    unnamed = [variable for variable in graph.variables if variable.local_name is None]
    for number, variable in enumerate(unnamed, start=1):
        variable.local_name = f"variable_{number}"
    for name, count in Counter(variable.name for variable in graph.variables).items():
        if count > 1:
            raise ValueError(f"{count} variables are named '{name}'; names must differ within a model")
    return graph


def freeze(graph: Graph, names: Iterable[str]) -> None:
    """Stop these variables from being trained; raise ValueError where the graph has no trainable one of a name."""
    found = {variable.name: variable for variable in graph.variables if variable.made_trainable}
    for name in names:
        if name not in found:
            raise ValueError(f"'{name[:80]}' cannot be frozen: the model has no trainable variable of this name")
        found[name].trainable = False


def divide(model: Network, graph: Graph, trained: Sequence[Variable]) -> tuple[list[Variable], list[Variable]]:
    """Return the trained variables and the others; raise ValueError unless the trained ones can be trained, once each."""
    left = {variable for variable in graph.variables if variable.trainable}
    for variable in trained:
        if variable not in left:
            raise ValueError(
                f"{type(model).__name__}.trainable_variables() must return different trainable variables that call() "
                f"uses, got '{variable.name}'"
            )
        left.discard(variable)
    chosen = set(trained)
    return list(trained), [variable for variable in graph.variables if variable not in chosen]

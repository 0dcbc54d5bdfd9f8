"""The graph of a model: where data enters it, and its nodes in an order in which they can be computed."""

from __future__ import annotations

from collections.abc import Sequence

from nn import arguments
from nn.arrays import BATCH
from nn.value.value import Node, Owner, Value, Variable


class Graph:
    """Graph of all values that `output` depends on, with `placeholder` as its input.

    `nodes` is in topological order, `variables` in the order of first use, those of a layer together and in the order in
    which the layer made them; `layers` in the order of first use.
    """

    def __init__(self, placeholder: Placeholder, output: Node) -> None:
        self.placeholder = placeholder
        self.output = output
        self.nodes: list[Node] = []
        layers: dict[Owner, None] = {}
        variables: dict[Variable, None] = {}
        for value in _topological(output):
            if isinstance(value, Node):
                self.nodes.append(value)
                # A dict as an ordered set: the first use counts.
                layers.update(dict.fromkeys(value.layers))
            elif isinstance(value, Variable):
                # A layer's together, and in its order, also where the graph meets them in another one.
                variables.update(dict.fromkeys([value] if value.owner is None else value.owner._own_variables))
            elif isinstance(value, Placeholder) and value is not placeholder:
                raise ValueError("call() used an input that belongs to another model")
        self.layers = list(layers)
        self.variables = list(variables)


def _topological(output: Value) -> list[Value]:
    """Return the values depth first, without recursion, so that very deep graphs work: inputs before their users."""
    order: list[Value] = []
    done: set[int] = set()
    pending: list[tuple[Value, bool]] = [(output, False)]
    while pending:
        value, expanded = pending.pop()
        if id(value) in done:
            continue
        if expanded or not isinstance(value, Node):
            done.add(id(value))
            order.append(value)
        else:
            # Again below its inputs, and in the order when it comes up for the second time.
            pending.append((value, True))
            # The last that is put there comes first: inputs are visited from left to right.
            pending.extend((source, False) for source in reversed(value.inputs))
    return order


class Placeholder(Value):
    """The input of a model, of shape (-1, ...): the first axis is the batch, its length comes with the data."""

    def __init__(self, shape: Sequence[int | None]) -> None:
        axes = arguments.shape("Model", "input_shape", shape, unknown=1)
        if not axes or axes[0] != BATCH:
            raise ValueError(f"Model 'input_shape' must begin with -1, the batch, got {list(shape)}")
        super().__init__(axes)

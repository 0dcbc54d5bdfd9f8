"""The graph of a model: where data enters it, and its nodes in an order in which they can be computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import BATCH, LENGTH, Array, Shape
from nn.extension import checked_call
from nn.value.value import Node, Owner, Value, Variable


class Graph:
    """Graph of all values that its outputs depend on.

    `nodes` is in topological order, `variables` in the order of first use, those of a layer together and in the order in
    which the layer made them; `layers` in the order of first use.

    Args:
        inputs: the placeholders, or the only one.
        outputs: different nodes, or the only one; those that belong to the loss by themselves, such as a penalty of
            activations, come last.
        added: how many of the outputs are of that kind.

    Raises ValueError for a placeholder that is no input.
    """

    inputs: tuple[Placeholder, ...]
    outputs: tuple[Node, ...]

    def __init__(self, inputs: Placeholder | Sequence[Placeholder], outputs: Node | Sequence[Node], added: int = 0) -> None:
        self.inputs = (inputs,) if isinstance(inputs, Placeholder) else tuple(inputs)
        self.outputs = (outputs,) if isinstance(outputs, Node) else tuple(outputs)
        self.added = added
        self.has_lengths = any(LENGTH in entry.shape for entry in self.inputs)
        """Whether the samples of an input have an axis of any length."""
        self.trained: frozenset[Variable] | None = None
        """The variables with gradients and buffers with changes in this graph; None: all that have memory for one."""
        self.nodes: list[Node] = []
        layers: dict[Owner, None] = {}
        variables: dict[Variable, None] = {}
        carried: list[Carried] = []
        for value in needed_by(self.outputs):
            if isinstance(value, Node):
                self.nodes.append(value)
                # A dict as an ordered set: the first use counts.
                layers.update(dict.fromkeys(value.layers))
            elif isinstance(value, Variable):
                # A layer's together, and in its order, also where the graph meets them in another one.
                variables.update(dict.fromkeys([value] if value.owner is None else value.owner._own_variables))
            elif isinstance(value, Carried):
                carried.append(value)
            elif isinstance(value, Placeholder) and value not in self.inputs:
                raise ValueError(_foreign(value))
        self.carried = carried
        """The states that layers carry from one batch to the next."""
        for kept, calls in Counter(each.kept for each in carried).items():
            if calls > 1:
                raise ValueError(
                    f"{kept.owner.describe()} carries its state from batch to batch, so a model calls it once, got {calls} "
                    "calls; let other calls begin with initial_state, in a layer without stateful"
                )
        self.layers = list(layers)
        self.variables = list(variables)

    @property
    def placeholder(self) -> Placeholder:
        """The first input."""
        return self.inputs[0]

    @property
    def output(self) -> Node:
        """The first output."""
        return self.outputs[0]

    def shapes(self, given: Sequence[Shape]) -> dict[Value, Shape]:
        """Return the shape of each value for inputs of the shapes `given`.

        Raises ValueError, naming the layer, where an operation cannot be computed for these.
        """
        # A state has as many rows as the batch has samples.
        shapes: dict[Value, Shape] = {each: (given[0][0], *each.shape[1:]) for each in self.carried}
        shapes.update(zip(self.inputs, given, strict=True))
        for node in self.nodes:
            shapes.update((source, source.shape) for source in node.inputs if source not in shapes)
            try:
                shapes[node] = node.operation.infer(*[shapes[source] for source in node.inputs])
            except ValueError as error:
                # an operation within a layer stands before the one that gives its result
                behind = self.nodes[self.nodes.index(node) :]
                layer = next((each.describe() for later in behind for each in later.layers), "")
                if not layer or str(error).startswith(layer):
                    raise
                raise ValueError(f"{layer}: {error}") from error
        return shapes

    def ending_in(self, outputs: Sequence[Node], added: int = 0) -> Graph:
        """Return a graph with the same inputs and variables and other outputs.

        Args:
            outputs, added: as of the class.
        """
        other = Graph(self.inputs, outputs, added)
        other.variables, other.trained = self.variables, self.trained
        return other

    def carrying(self) -> Graph:
        """Return a graph with the states that layers carry as further inputs, and their next values as further outputs."""
        if not self.carried:
            return self
        ends = [each.following for each in self.carried]
        other = Graph([*self.inputs, *self.carried], [*self.outputs, *ends], self.added + len(ends))
        other.variables, other.trained = self.variables, self.trained
        return other

    def applied(self, values: Sequence[Value]) -> tuple[Node, ...]:
        """Return the outputs for other values in place of the inputs: new nodes with the same operations and variables."""
        copies: dict[Value, Value] = dict(zip(self.inputs, values, strict=True))
        made = copied(self.nodes, copies)
        return tuple([made[output] for output in self.outputs])

    def wants(self, variable: Variable) -> bool:
        """Return whether a plan computes a gradient for a variable, or for a buffer its change."""
        return variable.has_gradient if self.trained is None else variable in self.trained

    def freezes(self, node: Node) -> bool:
        """Return whether variables that the operation of a node takes were made to be trained, and none of them is."""
        made = [source for source in node.inputs if isinstance(source, Variable) and source.made_trainable]
        if self.trained is None:
            return bool(made) and not any(variable.trainable for variable in made)
        return bool(made) and self.trained.isdisjoint(made)


def copied(nodes: Sequence[Node], copies: dict[Value, Value]) -> dict[Node, Node]:
    """Return copies of nodes, inputs before their users, which take those of `copies` in place of values."""
    made: dict[Node, Node] = {}
    carried: list[tuple[Carried, Carried]] = []

    def beside(value: Value) -> Value:
        # A mask that no operation takes, or a state for the next batch, is none of the nodes; the few nodes between are copied
        # when it is met.
        if isinstance(value, Node) and value not in copies:
            copies[value] = Node(value.operation, [beside(source) for source in value.inputs])
        return copies.get(value, value)

    for node in nodes:
        for source in node.inputs:
            if isinstance(source, Carried) and source not in copies:
                other_state = copies[source] = Carried(source.kept, source.shape)
                carried.append((source, other_state))
        other = made[node] = Node(node.operation, [copies.get(source, source) for source in node.inputs])
        if node.mask is not None:
            other.mask = beside(node.mask)
        other.layers = node.layers
        other.given = tuple([copies.get(source, source) for source in node.given])
        copies[node] = other
    for source, other_state in carried:
        following = beside(source.following)
        if isinstance(following, Node):
            other_state.following = following
    return made


def _foreign(value: Placeholder) -> str:
    if value.name:
        return f"the outputs depend on the input '{value.name}' of shape {value.shape}, which is not among 'inputs'"
    return f"the outputs depend on an input of shape {value.shape} that is none of the model's"


def needed_by(outputs: Sequence[Value]) -> list[Value]:
    """Return the values that outputs depend on, these among them: depth first, inputs before their users.

    Without recursion, so that very deep graphs work.
    """
    order: list[Value] = []
    done: set[int] = set()
    pending: list[tuple[Value, bool]] = [(output, False) for output in reversed(outputs)]
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
    """The input of a model, of shape (-1, ...): the first axis is the batch, its length comes with the data.

    Args:
        shape: shape of the samples, -1 for the batch, None for other axes of any length, such as the steps of sequences.
        name: name by which a model of several inputs is given samples.
    """

    def __init__(self, shape: Sequence[int | None], name: str = "") -> None:
        axes = arguments.shape("Model", "input_shape", shape, unknown=1, lengths=True)
        if not axes or axes[0] != BATCH:
            raise ValueError(
                f"Model 'input_shape' must begin with -1, the batch, got {list(shape)}; write {[BATCH, *shape]} if these "
                f"are the axes of a sample"
            )
        super().__init__(axes)
        self.name = name


class Kept:
    """State of a layer between batches: a row for each sample of the last batch, none before the first one.

    Args:
        owner: the layer, which messages name.
    """

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.rows: Array | None = None

    def before(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return the state before a batch, of this shape; raise ValueError where the last batch had another size."""
        if self.rows is None:
            return np.zeros(shape, dtype)
        if self.rows.shape != shape:
            raise ValueError(
                f"{self.owner.describe()} carries the states of {len(self.rows)} samples, got a batch of {shape[0]}; batches "
                "must have one size until reset_states()"
            )
        return self.rows


class Carried(Placeholder):
    """State that a layer carries: its value before a batch is that of the node `following` in the last one.

    Args:
        kept: where it lies between batches.
        shape: its shape, (-1, ...).
    """

    following: Node

    def __init__(self, kept: Kept, shape: Shape) -> None:
        super().__init__(shape)
        self.kept = kept


@checked_call
def Input(shape: Sequence[int | None], name: str | None = None) -> Placeholder:
    """Return a value that stands for samples, an input of `nn.model.Model(inputs, outputs)`.

    Args:
        shape: shape of the samples, with -1 for the batch in front or without it: ``[-1, 28, 28]`` or ``(28, 28)``; None for an
            axis of any length, such as the steps of sequences: ``[-1, None, 8]`` or ``(None, 8)``.
        name: name by which a model of several inputs is given the samples.

    Raises:
        ValueError: for lengths that are no positive integers.

    >>> nn.layer.Dense(8)(nn.Input([-1, 784])).shape
    (-1, 8)
    """
    given_name = arguments.part_name("Input", name)
    if not isinstance(shape, (list, tuple)):
        raise TypeError(f"Input 'shape' must be a list of positive integers, with -1 in front or without it, got {shape!r}")
    axes = tuple(shape)
    return Placeholder(axes if axes[:1] == (BATCH,) else (BATCH, *axes), given_name)

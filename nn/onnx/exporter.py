"""Writer of an ONNX graph: names of values, the nodes so far, and stored tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from nn.arrays import BATCH, LENGTH, Array, Shape
from nn.onnx import messages
from nn.onnx.axes import Orders
from nn.onnx.messages import GraphProto, NodeProto, TensorProto, ValueInfo
from nn.operation.operation import Operation
from nn.value.value import Constant, Value, Variable
from nn.value.value import Node as Result


class Exporter:
    """Writer of one graph.

    Args:
        dtype: type of the model.
        names: of the inputs, by value.
    """

    def __init__(self, dtype: np.dtype[Any], names: Mapping[Value, str]) -> None:
        self.dtype = dtype
        self.elements = messages.DOUBLE if dtype == np.float64 else messages.FLOAT
        """The number of the model's type in ONNX."""
        self.names: dict[Value, str] = dict(names)
        self.nodes: list[NodeProto] = []
        self.tensors: dict[str, TensorProto] = {}
        self.orders = self._new_orders()
        """Values with the axes of others in another order."""
        self.owner = ""
        """The layer to which the operation belongs that is being written, for names and errors."""
        self._known: dict[tuple[str, str, Shape, bytes], str] = {}
        self._taken = Counter(names.values())

    def name(self, value: Value) -> str:
        """Return the name of a value; a variable or constant becomes a stored tensor."""
        if value not in self.names:
            if isinstance(value, Variable):
                self.names[value] = self.tensor(value.value, value.name)
            elif isinstance(value, Constant):
                self.names[value] = self.tensor(value.array)
            else:
                raise ValueError(f"{self.owner or 'the model'}: a value of shape {value.shape} comes from no input")
        return self.names[value]

    def inputs(self, node: Result) -> list[str]:
        """Return the names of the inputs of a node."""
        return [self.name(value) for value in node.inputs]

    def unknown(self, found: Operation) -> ValueError:
        """Return the error for an operation that has no form in ONNX."""
        return ValueError(
            f"{self.owner or 'the model'}: an ONNX file has the operations of nn, got {type(found).__name__}, which is none; "
            "compute it by values of nn, such as x * x"
        )

    def tensor(self, array: Array, hint: str = "constant") -> str:
        """Store an array in the model's type and return its name; equal ones are stored once.

        Args:
            array: the numbers.
            hint: name for it, if it is free.
        """
        return self.store(np.asarray(array, self.dtype), hint)

    def number(self, value: float) -> str:
        """Store a single number in the model's type and return its name."""
        return self.tensor(np.array(value))

    def integers(self, numbers: int | Sequence[int] | Array) -> str:
        """Store whole numbers, such as axes or a shape, and return the name."""
        return self.store(np.asarray(numbers, np.int64), "integers")

    def store(self, array: Array, hint: str) -> str:
        """Store an array as it is and return its name; the arguments are those of `tensor`: `array` and `hint`."""
        # masks, axes and scales recur in each block of a model: a file has one tensor for all
        # the hint is in the key: two variables of equal numbers stay two
        key = (hint, array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            name = self._known[key] = self._free(hint)
            self.tensors[name] = messages.to_tensor(array, name)
        return self._known[key]

    def add(self, kind: str, *inputs: str, **given: Any) -> str:
        """Add a node with one output and return the name of that.

        Args:
            kind: the operator.
            inputs: names of the values that it takes; "" for one that is left out.
            given: its arguments.
        """
        return self.add_several(kind, 1, *inputs, **given)[0]

    def add_several(self, kind: str, outputs: int, *inputs: str, **given: Any) -> list[str]:
        """Add a node with several outputs and return their names.

        Args:
            kind: the operator.
            outputs: number of outputs.
            inputs: as in `add`.
            given: as in `add`.
        """
        names = [self._free(f"{self.owner or 'model'}/{kind}") for _ in range(outputs)]
        attributes = [messages.to_attribute(name, value) for name, value in given.items()]
        self.nodes.append(NodeProto(list(inputs), names, names[0], kind, attributes))
        return names

    def zeros_per_sample(self, source: str, features: int) -> str:
        """Return zeros (batch, features).

        Args:
            source: name of a value with the same batch, as its first axis.
            features: number of zeros for each sample.
        """
        shape = self.add("Concat", self.add("Shape", source, start=0, end=1), self.integers([features]), axis=0)
        return self.add("ConstantOfShape", shape, value=np.zeros(1, self.dtype))

    def body(self, name: str, build: Callable[[], tuple[list[ValueInfo], list[str]]]) -> GraphProto:
        """Return a graph within a node, such as the step of a loop; its nodes see the values outside.

        Args:
            name: of the graph.
            build: adds the nodes, and returns the inputs and the names of the outputs.
        """
        # Transposes that were added outside stay there; those within may depend on the step.
        outside, orders = self.nodes, self.orders
        self.nodes, self.orders = [], self._new_orders()
        inputs, outputs = build()
        made, self.nodes, self.orders = self.nodes, outside, orders
        ends = [ValueInfo(each, messages.Type(messages.TensorType(self.elements))) for each in outputs]
        return GraphProto(node=made, name=name, input=inputs, output=ends)

    def entry(self, name: str, elements: int) -> ValueInfo:
        """Return a new input of a graph within a node.

        Args:
            name: for it, if it is free.
            elements: number of its type in ONNX.
        """
        return ValueInfo(self._free(f"{self.owner or 'model'}/{name}"), messages.Type(messages.TensorType(elements)))

    def described(self, name: str, shape: Shape) -> ValueInfo:
        """Return name, type and shape of an input or output; batch and axes of any length stay open.

        Args:
            name: of the value.
            shape: of it.
        """
        axes = []
        for place, length in enumerate(shape):
            # One word for the batch of all inputs and outputs: in ONNX axes of one name have one length.
            word = "batch" if length == BATCH else f"{name}_length_{place}" if length == LENGTH else None
            axes.append(messages.Dimension(None if word else int(length), word))
        return ValueInfo(name, messages.Type(messages.TensorType(self.elements, messages.Dimensions(axes))))

    def named(self, found: Sequence[str], wanted: Sequence[str]) -> list[str]:
        """Give values the names of outputs and return these, with a number behind those that are taken.

        Args:
            found: the present names.
            wanted: the names of the outputs.
        """
        own = {name for node in self.nodes for name in node.output}
        new: dict[str, str] = {}
        final = []
        for name, asked in zip(found, wanted, strict=True):
            target = self._free(asked)
            # An input, a stored tensor or the name of another output stays, and is passed on under the new one.
            if name in own and name not in new:
                new[name] = target
            else:
                self.nodes.append(NodeProto([name], [target], target, "Identity"))
            final.append(target)
        for node in everywhere(self.nodes):
            node.input = [new.get(each, each) for each in node.input]
            node.output = [new.get(each, each) for each in node.output]
        return final

    def alive(self, outputs: Sequence[str]) -> list[NodeProto]:
        """Return the nodes on which outputs depend, in their order."""
        needed, found = set(outputs), []
        for node in reversed(self.nodes):
            # Backwards, so that a node is reached behind all that read it.
            if needed.intersection(node.output):
                found.append(node)
                needed.update(name for each in everywhere([node]) for name in each.input)
        return found[::-1]

    def _new_orders(self) -> Orders[str]:
        return Orders(lambda name, order: self.add("Transpose", name, perm=list(order)))

    def _free(self, name: str) -> str:
        self._taken[name] += 1
        # The name with the number behind it may be taken, too.
        return name if self._taken[name] == 1 else self._free(f"{name}_{self._taken[name]}")


def everywhere(nodes: Sequence[NodeProto]) -> list[NodeProto]:
    """Return nodes and those of the graphs within them."""
    found: list[NodeProto] = []
    for node in nodes:
        inner = [attribute.g for attribute in node.attribute if attribute.g is not None]
        found += [node, *(each for graph in inner for each in everywhere(graph.node))]
    return found


Convert: TypeAlias = Callable[[Exporter, Result, Any], str]
"""Adds the operators for a node with its operation, and returns the name of the result."""

"""One node of an ONNX file with the values that it takes, its arguments, and errors that name it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nn import arguments
from nn.arrays import BATCH, LENGTH, Array
from nn.onnx import messages
from nn.onnx.builder import Builder, Operand
from nn.onnx.folding import Unknown, integers, made
from nn.onnx.messages import GraphProto, NodeProto
from nn.tensor_files import ModelFileError
from nn.value.value import Value


class File:
    """Context of the nodes of a file.

    Args:
        path: of the file, None where it was read from bytes.
        version: of ONNX's operators.
        graph: of the file.
    """

    def __init__(self, path: Path | None, version: int, graph: GraphProto) -> None:
        self.path, self.version = path, version
        self.done: set[int] = set()
        """Nodes, by `id`, that were read, some together with the node before."""
        self._arrays: dict[int, Array] = {}
        self.users: dict[str, list[NodeProto]] = {}
        """The nodes that take a value, by name."""
        self._note_users(graph)

    def once(self, source: object, make: Callable[[], Array]) -> Array:
        """Return the numbers of a tensor or a constant: the same array in each step of a loop, so that it is one weight."""
        if id(source) not in self._arrays:
            self._arrays[id(source)] = make()
        return self._arrays[id(source)]

    def _note_users(self, graph: GraphProto) -> None:
        for node in graph.node:
            for name in node.input:
                self.users.setdefault(name, []).append(node)
            for attribute in node.attribute:
                if attribute.g is not None:
                    self._note_users(attribute.g)
        for info in graph.output:
            # An output is taken by the caller, so it stays apart.
            self.users.setdefault(info.name or "", []).append(NodeProto(op_type="output"))


class Call:
    """One node with the values of its inputs and its arguments.

    Args:
        builder: of the model.
        file: version of the operators, path, and users of values.
        node: the node.
        environment: values by name.
    """

    def __init__(self, builder: Builder, file: File, node: NodeProto, environment: dict[str, Operand]) -> None:
        self.builder, self.node, self.environment, self.version = builder, node, environment, file.version
        self._file = file
        name = node.name or (node.output[0] if node.output else "")
        # Cut, as all texts of a file in messages: it may be a stranger's.
        self.title = f"node {name[:80]!r} ({(node.op_type or '')[:40]})"
        builder.at = f"{self.title}: "
        self.given = {each.name or "": messages.from_attribute(each, file.path, self.title) for each in node.attribute}
        # No argument of ONNX: operators with several results need the number.
        self.given["outputs"] = len(node.output)
        self.inputs: list[Operand | None] = [self._input(each) for each in node.input]
        # What is left out at the end is not given; in between it keeps its place.
        while self.inputs and self.inputs[-1] is None:
            self.inputs.pop()

    def value(self, place: int) -> Value:
        """Return an input that must be there as a value of the graph."""
        return self.builder.value(self.operand(place))

    def tensor(self, place: int) -> Value:
        """Return an input as `value`, also where its numbers are to be cut to whole ones."""
        found = self.operand(place)
        return found if isinstance(found, Value) else self.builder.value(found)

    def take(self, node: NodeProto, value: Value) -> None:
        """Take note of the result of a later node that is part of this one.

        Args:
            node: the later node.
            value: its result.
        """
        self._file.done.add(id(node))
        self.environment[node.output[0]] = value

    def operand(self, place: int) -> Operand:
        """Return an input that must be there."""
        found = self.inputs[place] if place < len(self.inputs) else None
        if found is None:
            raise ModelFileError(f"{self.title}: input {place} must be given, got none")
        return found

    def has(self, place: int) -> bool:
        """Return whether an input is given."""
        return place < len(self.inputs) and self.inputs[place] is not None

    def array(self, place: int) -> Array:
        """Return an input whose numbers must be known; raise ModelFileError for one that is computed from samples."""
        found = self.operand(place)
        if isinstance(found, Value):
            raise ModelFileError(
                f"{self.title}: input {place} must be known when the file is read, got a value of shape {found.shape} that is "
                "computed from samples"
            )
        return found

    def numbers(self, place: int, name: str) -> list[int] | None:
        """Return whole numbers that are an input, or in older versions an argument; None where there are none.

        Args:
            place: of the input.
            name: of the argument.
        """
        if self.has(place):
            return integers(self.array(place))
        found = self.given.get(name)
        return None if found is None else [int(each) for each in found]

    def axis(self, axis: Any, rank: int) -> int:
        """Return an axis counted from the front; raise ModelFileError for one beyond `rank` axes."""
        if not -rank <= int(axis) < rank:
            raise self.refuse(f"an axis must be from {-rank} to {rank - 1}", int(axis))
        return int(axis) % rank

    def refuse(self, expected: str, came: object) -> ModelFileError:
        """Return the error for something that nn does not have.

        Args:
            expected: words for the values that nn takes.
            came: the value.
        """
        return ModelFileError(f"{self.title}: {expected}, got {arguments.short(came)}")

    def _input(self, name: str) -> Operand | None:
        if not name:
            return None
        if name not in self.environment:
            raise ModelFileError(f"{self.title}: takes {name[:80]!r}, which no node before it gives")
        return self.environment[name]

    def stored(self) -> Array:
        """Return the numbers that a constant holds."""
        # All but `value` came with version 12 of the operator.
        for name, dtype in (("value", None), ("value_float", np.float32), ("value_int", np.int64),
                            ("value_floats", np.float32), ("value_ints", np.int64)):  # fmt: skip
            if name in self.given:
                return self.builder.keep(np.asarray(self.given[name], dtype), self.node.output[0], stored=False)
        raise self.refuse("a constant must be a tensor or numbers", [name for name in self.given if name != "outputs"])

    def lengths(self, kind: str) -> Array:
        """Return the shape of the input, or with the kind "Size" the number of its elements."""
        x = self.operand(0)
        shape = x.shape
        rows = self.builder.rows(x) if isinstance(x, Value) and BATCH in shape else 1
        lengths: list[Any] = [length_of(axis, rows) for axis in shape]
        if kind == "Shape":
            return made(lengths[slice(self.given.get("start"), self.given.get("end"))])
        if any(isinstance(each, Unknown) for each in lengths):
            raise self.refuse("the number of elements must be known", list(shape))
        return np.asarray(int(np.prod(shape)), np.int64)

    def follower(self, name: str, kind: str) -> NodeProto | None:
        """Return the node of a kind that alone takes a value; None where there is none or another one takes it, too."""
        users = self._file.users.get(name, [])
        return users[0] if len(users) == 1 and users[0].op_type == kind and id(users[0]) not in self._file.done else None


def length_of(axis: int, rows: int = 1) -> Any:
    """Return the length of an axis as it stands among the numbers of a shape.

    Args:
        axis: the length, -1 for the batch.
        rows: how many rows the batch has for each sample.
    """
    return Unknown("batch", rows) if axis == BATCH else Unknown("length of an axis") if axis == LENGTH else axis


Read: TypeAlias = Callable[[Call], Operand | list[Operand]]
"""Returns the result of a node, or a list of results where there may be several."""

"""A model of an ONNX file: its nodes become layers and operations of nn, in a functional model."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nn import arguments, tensor_files
from nn.arrays import BATCH, LENGTH, Array, Shape
from nn.layer.layer import Layer
from nn.layer.parameter import Parameter
from nn.model.calls import MOST_NUMBERS
from nn.model.functional import Functional
from nn.onnx import messages
from nn.onnx.axes import Orders
from nn.onnx.folding import FOLDS, SAME_NUMBERS, Unknown, has_unknown, integers, made
from nn.onnx.messages import Graph, Node, ValueInfo
from nn.operation.shape import Transpose
from nn.tensor_files import ModelFileError
from nn.value.graph import Input, Placeholder
from nn.value.value import Value, as_value

OLDEST, NEWEST = 6, 26
"""The versions of ONNX's operators that are read."""

Operand: TypeAlias = Value | Array
"""A value of a file: one that is computed from the inputs, or numbers that are known when it is read."""
_LOG = logging.getLogger(__name__)


def load(
    path: str | os.PathLike[str],
    *,
    shapes: Mapping[str, Sequence[int | None]] | None = None,
    values: Mapping[str, Any] | None = None,
) -> Functional:
    """Return the model of an ONNX file: it predicts, and is trained on, saved and made part of others as any model is.

    Axes are those of the file, images (batch, channels, height, width), with the batch in front: an input or output that has
    it elsewhere, such as a state (2, batch, 128), is (batch, 2, 128) here. Its length is open also where the file has a number;
    other axes without one are axes of any length, which few operators take, so `shapes` says more. The model of a file with
    one output predicts an array, of several a dict by name. Weights of layers, and stored tensors in arithmetic, are
    variables that can be trained; shapes and what else is known are computed once, while reading.

    Args:
        path: of the file; tensors that lie in other files are read from its folder.
        shapes: shapes of inputs by name, -1 for the batch and None for axes of any length, in place of those of the file.
        values: numbers of inputs by name that are no samples, such as a sampling rate: these are inputs no more.

    Raises:
        nn.model.ModelFileError: for a file that is damaged, or no ONNX, and for what nn does not have, naming the node, the
            expectation and what came.
        ValueError: for names in `shapes` or `values` that are no inputs.
        OSError: where there is no file.
    """
    data = tensor_files.read_file(path)
    try:
        return _model(data, Path(path).parent, shapes or {}, values or {})
    except ModelFileError as error:
        raise ModelFileError(f"The ONNX file {os.fspath(path)!s} cannot be used: {error}") from error


def from_bytes(
    data: bytes | memoryview,
    *,
    shapes: Mapping[str, Sequence[int | None]] | None = None,
    values: Mapping[str, Any] | None = None,
) -> Functional:
    """Return the model of the content of an ONNX file.

    Args:
        data: the content.
        shapes: as in `load`.
        values: as in `load`.

    Raises as `load` does, and for tensors in other files.
    """
    return _model(data, None, shapes or {}, values or {})


def _model(
    data: bytes | memoryview, folder: Path | None, shapes: Mapping[str, Sequence[int | None]], values: Mapping[str, Any]
) -> Functional:
    file = _parse(data)
    graph = file.graph or Graph()
    stored = {tensor.name for tensor in graph.initializer}
    inputs = {info.name or "": info for info in graph.input if info.name not in stored}
    for what, given in (("shapes", shapes), ("values", values)):
        for name in given:
            if name not in inputs:
                known = arguments.did_you_mean(name, inputs)
                raise ValueError(
                    f"nn.onnx.load() '{what}' must name inputs of the file, {', '.join(inputs)}, got {name!r}{known}"
                )
    reader = Reader(folder, _version(file), {name: np.asarray(value) for name, value in values.items()})
    try:
        with np.errstate(all="ignore"):
            return reader.model(graph, [info for name, info in inputs.items() if name not in values], shapes)
    except ModelFileError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        # Constructors and arrays raise these for arguments; here they are faults of the file.
        raise ModelFileError(f"{reader.at}{error}") from error


def _parse(data: bytes | memoryview) -> messages.Model:
    try:
        file = messages.Model.read(data)
    except ModelFileError as error:
        raise ModelFileError(f"not an ONNX file, or a damaged one: {error}") from error
    if file.graph is None or not file.graph.output or not file.opset_import:
        begin = bytes(data[:16])
        raise ModelFileError(
            f"not an ONNX file: it has no graph with outputs and version of operators, and begins with {begin!r}"
        )
    return file


def _version(file: messages.Model) -> int:
    found = next((each.version or 0 for each in file.opset_import if not each.domain or each.domain == "ai.onnx"), None)
    if found is None or not OLDEST <= found <= NEWEST:
        raise ModelFileError(f"the version of ONNX's operators (opset) must be {OLDEST} to {NEWEST}, got {found}")
    return found


class Reader:
    """Builder of the model of one file.

    Args:
        folder: of the file, None where it was read from bytes.
        version: of ONNX's operators.
        values: numbers of inputs that are known.
    """

    def __init__(self, folder: Path | None, version: int, values: Mapping[str, Array]) -> None:
        self.folder, self.version = folder, version
        self.orders: Orders[Value] = Orders(lambda value, order: value.apply(Transpose(order)))
        """Values with the axes of others in another order."""
        self.at = ""
        """Words for the node that is being read, in front of an error."""
        self.anchor: Value | None = None
        self.uncut: set[Value] = set()
        """Numbers that the file cuts to whole ones, which nn does for ids of a table alone."""
        self.done: set[int] = set()
        """Nodes, by `id`, that were read together with the node before."""
        self.users: dict[str, list[Node]] = {}
        """The nodes that take a value, by name; None stands for the outputs of a graph."""
        self.single = False
        """Whether the file is for one sample at a time."""
        self._values = dict(values)
        self._origin: dict[int, str] = {}
        self._stored: set[int] = set()
        self._kept: list[Array] = []
        self._weights: list[tuple[Layer, Mapping[str, Array]]] = []
        self._layers: dict[Any, Layer] = {}
        self._constants: dict[int, Value] = {}
        self._names: Counter[str] = Counter()
        self._double = False

    def model(self, graph: Graph, infos: Sequence[ValueInfo], shapes: Mapping[str, Sequence[int | None]]) -> Functional:
        """Return the model of a graph.

        Args:
            graph: of the file.
            infos: its inputs that are samples.
            shapes: of inputs, as in `load`.
        """
        environment: dict[str, Operand] = dict(self._values)
        entries: dict[str, Placeholder] = {}
        for info, shape in zip(infos, _shapes(infos, shapes), strict=True):
            name = info.name or ""
            self.at = f"input {name[:80]!r}: "
            tensor = None if info.type is None else info.type.tensor_type
            self._double = self._double or (tensor is not None and tensor.elem_type == messages.DOUBLE)
            entry, value = self._input(name, shape)
            entries[name], environment[name] = entry, value
        if not entries:
            raise ModelFileError("the graph must have an input besides those in 'values', got none")
        self.anchor = next(iter(entries.values()))
        self.single = any(_is_single(info) for info in infos if info.name not in shapes)
        self._note_users(graph)
        self.run(graph, environment)
        self.at = ""
        ends = {_plain(info.name or ""): self._output(info.name or "", environment) for info in graph.output}
        used = _reached(ends.values())
        for name in [name for name, entry in entries.items() if entry not in used]:
            _LOG.info("no output depends on the input %r of the file, so the model does not have it", name)
            del entries[name]
        if not entries:
            raise ModelFileError("the outputs depend on no input")
        outputs = ends if len(ends) > 1 else next(iter(ends.values()))
        inputs = list(entries.values()) if len(entries) > 1 else next(iter(entries.values()))
        made_model = Functional(inputs, outputs, dtype="float64" if self._double else "float32")
        made_model.store  # noqa: B018 - makes the variables
        for layer, arrays in self._weights:
            for variable in layer.variables:
                if variable.bound:
                    variable.set_value(arrays[variable.local_name or ""])
        return made_model

    def run(self, graph: Graph, environment: dict[str, Operand]) -> None:
        """Read the nodes of a graph into an environment, the values by name."""
        for tensor in graph.initializer:
            self.at = f"tensor {(tensor.name or '')[:80]!r}: "
            array = messages.to_array(tensor, self.folder)
            environment[tensor.name or ""] = self._keep(array, tensor.name or "", stored=True)
        # First: what a node takes besides may decide about the layer that it becomes.
        for node in [*(each for each in graph.node if each.op_type == "Constant"), *graph.node]:
            if id(node) not in self.done:
                self.done.add(id(node))
                self._read(node, environment)

    def _read(self, node: Node, environment: dict[str, Operand]) -> None:
        call = Call(self, node, environment)
        self.at = f"{call.title}: "
        before = len(self._weights)
        found = call.results()
        for layer, arrays in self._weights[before:]:
            for variable in layer.variables:
                shape = arrays[variable.local_name or ""].shape
                if shape != variable.shape:
                    raise call.refuse(
                        f"weights of {type(layer).__name__} must have shape {variable.shape} for this input", shape
                    )
        for name, value in zip(node.output, found, strict=False):
            if name:
                environment[name] = value

    def branch(self, graph: Graph, environment: Mapping[str, Operand]) -> list[Operand]:
        """Return the outputs of a graph within a node that sees an environment."""
        inner = dict(environment)
        self.run(graph, inner)
        return [inner[info.name or ""] for info in graph.output]

    def follower(self, name: str, kind: str) -> Node | None:
        """Return the node of a kind that alone takes a value; None where there is none or another one takes it, too."""
        users = self.users.get(name, [])
        return users[0] if len(users) == 1 and users[0].op_type == kind and id(users[0]) not in self.done else None

    def value(self, operand: Operand) -> Value:
        """Return an operand as a value of the graph: known numbers become a constant, or a variable of a layer."""
        if isinstance(operand, Value):
            if operand in self.uncut:
                raise ModelFileError(
                    f"{self.at}a Cast of computed numbers to whole ones is for ids of a table alone; nn computes in floats"
                )
            return operand
        if id(operand) not in self._constants:
            self._kept.append(operand)
            self._constants[id(operand)] = self._constant(operand)
        return self._constants[id(operand)]

    def layer(
        self, kind: type[Any], weights: Mapping[str, Array], sources: Sequence[Array], part: int = 0, **given: Any
    ) -> Any:
        """Return a layer; where the file has the same weights again, the same one.

        Args:
            kind: class of the layer.
            weights: numbers of its variables, by their names in the layer.
            sources: the arrays of the file that these are made of.
            part: number of the part of the arrays, where they hold weights of several layers.
            given: arguments of its constructor.
        """
        key = (kind, part, repr(sorted(given.items())), *map(id, sources))
        if key not in self._layers:
            self._kept.extend(sources)
            self._layers[key] = kind(**given, name=self._layer_name(sources))
            self._weights.append((self._layers[key], weights))
        return self._layers[key]

    def shaped(self, x: Value, shape: Sequence[int]) -> Value:
        """Return x in another shape, with -1 at the batch; axes of any length stay, others of length 1 may come and go.

        Args:
            x: the value.
            shape: the other shape.
        """
        if tuple(shape) == x.shape:
            return x
        made_value = x[_key(x.shape, shape)] if LENGTH in x.shape else x.reshape(*shape)
        if x in self.uncut:
            self.uncut.add(made_value)
        return made_value

    def derived(self, array: Array, *sources: Array) -> Array:
        """Return an array that is computed from others, as what they are: it has the name of the first one that has one."""
        for source in sources:
            if id(source) in self._origin:
                self._keep(array, self._origin[id(source)], stored=id(source) in self._stored)
                break
        return array

    def _keep(self, array: Array, name: str, *, stored: bool) -> Array:
        # Kept, so that no other array gets its `id`.
        self._kept.append(array)
        self._origin.setdefault(id(array), name)
        if stored:
            self._stored.add(id(array))
        self._double = self._double or (array.dtype == np.float64 and array.size > 1)
        return array

    def _constant(self, array: Array) -> Value:
        if has_unknown(array):
            raise ModelFileError(
                f"{self.at}numbers depend on a length that comes with the data; give 'shapes' to have it known"
            )
        floats = array.dtype.kind == "f"
        finite = not floats or bool(np.isfinite(array).all())
        trained = floats and finite and array.size > 1 and id(array) in self._stored
        if finite and not trained and array.size <= MOST_NUMBERS:
            return as_value(np.asarray(array, np.float64 if floats else np.int64))
        shape = array.shape or (1,)
        found = self.layer(Parameter, {"value": array.reshape(shape)}, [array], shape=list(shape), trainable=trained)
        made_value: Value = found(self.anchor)
        return made_value

    def _layer_name(self, sources: Sequence[Array]) -> str | None:
        """Return a name for a layer by that of its weights, such as `encoder.0` for `encoder.0.weight`; None without one."""
        name = next((self._origin[id(each)] for each in sources if id(each) in self._origin), "")
        for sign in ("/", "."):
            front, found, _ = name.rpartition(sign)
            if found:
                name = front
                break
        name = name.strip("/").replace("/", ".")
        if not name:
            return None
        self._names[name] += 1
        return name if self._names[name] == 1 else self._free(name)

    def _free(self, name: str) -> str:
        number = self._names[name]
        while f"{name}_{number}" in self._names:
            number += 1
        self._names[f"{name}_{number}"] += 1
        return f"{name}_{number}"

    def _input(self, name: str, shape: Shape) -> tuple[Placeholder, Value]:
        place = shape.index(BATCH)
        entry = Input(
            [BATCH, *(None if axis == LENGTH else axis for axis in (*shape[:place], *shape[place + 1 :]))], _plain(name)
        )
        # The batch back to where the file has it.
        return entry, self.orders.turned(entry, [*range(1, place + 1), 0, *range(place + 1, len(shape))])

    def _output(self, name: str, environment: Mapping[str, Operand]) -> Value:
        self.at = f"output {name[:80]!r}: "
        if name not in environment:
            raise ModelFileError(f"{self.at}no node gives it")
        found = environment[name]
        if not isinstance(found, Value) or BATCH not in found.shape:
            raise ModelFileError(f"{self.at}must depend on the samples, one row for each, got shape {found.shape}")
        place = self.value(found).shape.index(BATCH)
        return self.orders.turned(found, [place, *range(place), *range(place + 1, len(found.shape))])

    def _note_users(self, graph: Graph) -> None:
        for node in graph.node:
            for name in node.input:
                self.users.setdefault(name, []).append(node)
            for attribute in node.attribute:
                if attribute.g is not None:
                    self._note_users(attribute.g)
        for info in graph.output:
            # An output is taken by the caller, so it stays apart.
            self.users.setdefault(info.name or "", []).append(Node(op_type="output"))


class Call:
    """One node with the values of its inputs and its arguments.

    Args:
        reader: of the file.
        node: the node.
        environment: values by name.
    """

    def __init__(self, reader: Reader, node: Node, environment: dict[str, Operand]) -> None:
        self.reader, self.node, self.environment, self.version = reader, node, environment, reader.version
        name = node.name or (node.output[0] if node.output else "")
        self.title = f"node {name[:80]!r} ({(node.op_type or '')[:40]})"
        reader.at = f"{self.title}: "
        self.given = {each.name or "": messages.from_attribute(each, reader.folder, self.title) for each in node.attribute}
        self.given["outputs"] = len(node.output)
        self.inputs: list[Operand | None] = [self._input(each) for each in node.input]
        while self.inputs and self.inputs[-1] is None:
            self.inputs.pop()

    def results(self) -> Sequence[Operand]:
        """Return what the node gives."""
        from nn.onnx.nodes import NODES  # noqa: PLC0415 - it imports this module for its types

        kind = self.node.op_type or ""
        if self.node.domain not in (None, "", "ai.onnx"):
            raise ModelFileError(
                f"{self.title}: nn reads the operators of ONNX, got one of the domain {self.node.domain[:80]!r}"
            )
        if kind == "Constant":
            return [self._stored()]
        if kind == "If":
            return self._chosen()
        if kind in ("Shape", "Size"):
            return [self._lengths(kind)]
        if kind in FOLDS and self.inputs and all(not isinstance(each, Value) for each in self.inputs):
            found = FOLDS[kind]([None if each is None else self._known(each) for each in self.inputs], self.given)
            results = found if isinstance(found, list) else [np.asarray(found)]
            source = self.inputs[0]
            if kind in SAME_NUMBERS and isinstance(source, np.ndarray):
                results = [self.reader.derived(each, source) for each in results]
            return results
        if kind not in NODES:
            near = arguments.did_you_mean(kind, NODES)
            raise ModelFileError(f"{self.title}: nn must have the operator, got {kind[:80]!r}, which it lacks{near}")
        made_values = NODES[kind](self)
        return made_values if isinstance(made_values, list) else [made_values]

    def value(self, place: int) -> Value:
        """Return an input that must be there as a value of the graph."""
        return self.reader.value(self.operand(place))

    def tensor(self, place: int) -> Value:
        """Return an input as `value`, also where its numbers are to be cut to whole ones."""
        found = self.operand(place)
        return found if isinstance(found, Value) else self.reader.value(found)

    def take(self, node: Node, value: Value) -> None:
        """Take note of what a later node gives, which is part of this one.

        Args:
            node: the later node.
            value: its result.
        """
        self.reader.done.add(id(node))
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

    def refuse(self, expected: str, came: object) -> ModelFileError:
        """Return the error for something that nn does not have.

        Args:
            expected: words for what nn takes.
            came: the value.
        """
        return ModelFileError(f"{self.title}: {expected}, got {arguments.short(came)}")

    def _known(self, operand: Operand) -> Array:
        return operand if isinstance(operand, np.ndarray) else np.asarray(None)

    def _input(self, name: str) -> Operand | None:
        if not name:
            return None
        if name not in self.environment:
            raise ModelFileError(f"{self.title}: takes {name[:80]!r}, which no node before it gives")
        return self.environment[name]

    def _stored(self) -> Array:
        for name, dtype in (("value", None), ("value_float", np.float32), ("value_int", np.int64),
                            ("value_floats", np.float32), ("value_ints", np.int64)):  # fmt: skip
            if name in self.given:
                return self.reader._keep(np.asarray(self.given[name], dtype), self.node.output[0], stored=False)
        raise self.refuse("a constant must be a tensor or numbers", [name for name in self.given if name != "outputs"])

    def _lengths(self, kind: str) -> Array:
        shape = self.operand(0).shape
        words = {BATCH: "batch", LENGTH: "length of an axis"}
        lengths: list[Any] = [Unknown(words[axis]) if axis in words else axis for axis in shape]
        if kind == "Shape":
            return made(lengths[slice(self.given.get("start"), self.given.get("end"))])
        if any(isinstance(each, Unknown) for each in lengths):
            raise self.refuse("the number of elements must be known", list(shape))
        return np.asarray(int(np.prod(shape)), np.int64)

    def _chosen(self) -> Sequence[Operand]:
        condition = self.array(0)
        if condition.size != 1:
            raise self.refuse("the condition must be one truth value", condition.shape)
        graph = self.given.get("then_branch" if bool(condition.reshape(-1)[0]) else "else_branch")
        if not isinstance(graph, Graph):
            raise self.refuse("must have two graphs", sorted(self.given))
        return self.reader.branch(graph, self.environment)


def _shapes(infos: Sequence[ValueInfo], given: Mapping[str, Sequence[int | None]]) -> list[Shape]:
    """Return the shape of each input, with one batch."""
    batch: str | int = ""
    found = []
    for info in infos:
        name, what = info.name or "", f"input {(info.name or '')[:80]!r}"
        if name in given:
            shape = given[name]
            if not isinstance(shape, (list, tuple)) or list(shape).count(BATCH) != 1:
                raise ValueError(f"nn.onnx.load() 'shapes' must have one -1, the batch, got {shape!r} for {name!r}")
            found.append(tuple([LENGTH if axis is None else int(axis) for axis in shape]))
            continue
        tensor = None if info.type is None else info.type.tensor_type
        if tensor is None or tensor.shape is None or not tensor.shape.dim:
            raise ModelFileError(f"{what} must be a tensor with axes; give 'shapes', or 'values' where it is no sample")
        messages.dtype_of(tensor.elem_type, what)
        axes = [axis.dim_value or axis.dim_param or None for axis in tensor.shape.dim]
        if any(isinstance(axis, int) and axis < 1 for axis in axes):
            raise ModelFileError(f"{what} must have lengths of at least 1, got {axes}"[:300])
        batch = batch or axes[0] or ""
        opened = [at for at, axis in enumerate(axes) if not isinstance(axis, int)]
        # The axis that is named, or as long, as the first one of the first input; else one that is open, else the first.
        same = [at for at in opened or range(len(axes)) if batch and axes[at] == batch]
        place = [*same, *opened, 0][0]
        found.append(
            tuple([BATCH if at == place else axis if isinstance(axis, int) else LENGTH for at, axis in enumerate(axes)])
        )
    return found


def _is_single(info: ValueInfo) -> bool:
    """Return whether an input is for one sample: all of its lengths are known, and the first is 1."""
    tensor = None if info.type is None else info.type.tensor_type
    axes = [] if tensor is None or tensor.shape is None else [axis.dim_value for axis in tensor.shape.dim]
    return all(axes) and axes[:1] == [1]


def _key(shape: Shape, wanted: Sequence[int]) -> tuple[Any, ...]:
    """Return the index by which an array gets another shape that differs by axes of length 1."""
    key: list[Any] = []
    place = 0
    for length in wanted:
        while place < len(shape) and shape[place] == 1 != length:
            key.append(0)
            place += 1
        if place < len(shape) and shape[place] == length:
            key.append(slice(None))
            place += 1
        elif length == 1:
            key.append(None)
        else:
            raise ValueError(f"must know all lengths but the batch, got {list(shape)}; give 'shapes'")
    return (*key, *(0 for _ in shape[place:]))


def _plain(name: str) -> str:
    return name.replace("/", ".") or "input"


def _reached(ends: Any) -> set[Value]:
    found: set[Value] = set()
    todo = list(ends)
    while todo:
        value = todo.pop()
        if value not in found:
            found.add(value)
            todo += getattr(value, "inputs", ())
    return found

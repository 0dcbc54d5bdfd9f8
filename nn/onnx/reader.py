"""A model of an ONNX file: its nodes become layers and operations of nn, in a functional model."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nn import arguments, tensor_files
from nn.arrays import BATCH, LENGTH, Array, Shape
from nn.model.model import Functional
from nn.onnx import messages
from nn.onnx.builder import Builder, Operand
from nn.onnx.call import Call, File
from nn.onnx.folding import FOLDS, SAME_NUMBERS
from nn.onnx.loops import Step, looped, nodes_of, scanned
from nn.onnx.messages import GraphProto, NodeProto, ValueInfo
from nn.onnx.nodes import NODES
from nn.tensor_files import ModelFileError
from nn.value.graph import Input, Placeholder, needed_by
from nn.value.store import not_finite
from nn.value.value import Node as Result
from nn.value.value import Value

OLDEST, NEWEST = 6, 28
"""The versions of ONNX's operators that are read."""

OF_WHOLE = frozenset({
    "And", "ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor",
})  # fmt: skip
"""Operators with results of whole numbers or of truth, whatever they take; the type of most others is that of an input."""

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
    variables that can be trained; shapes and other known numbers are computed once, while reading.

    Args:
        path: of the file; tensors that lie in other files are read from its folder.
        shapes: shapes of inputs by name, -1 for the batch and None for axes of any length, in place of those of the file.
        values: numbers of inputs by name that are no samples, such as a sampling rate: these are inputs no more.

    Raises:
        nn.model.ModelFileError: for a file that is damaged, or no ONNX, and for operators, types and arguments that nn lacks,
            naming the node, the expectation and the value that came.
        ValueError: for names in `shapes` or `values` that are no inputs.
        OSError: where there is no file.
    """
    name = arguments.path("nn.onnx.load()", "path", path, "a file")
    data = tensor_files.read_file(name)
    try:
        return _model(data, Path(name), shapes or {}, values or {})
    except ModelFileError as error:
        raise ModelFileError(f"The ONNX file {name} cannot be used: {error}") from error


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
    data: bytes | memoryview, path: Path | None, shapes: Mapping[str, Sequence[int | None]], values: Mapping[str, Any]
) -> Functional:
    file = _parse(data)
    graph = file.graph or GraphProto()
    stored = {tensor.name for tensor in graph.initializer}
    # Up to version 3 of the format stored tensors stand among the inputs, too.
    inputs = {info.name or "": info for info in graph.input if info.name not in stored}
    for what, given in (("shapes", shapes), ("values", values)):
        for name in given:
            if name not in inputs:
                known = arguments.did_you_mean(name, inputs)
                raise ValueError(
                    f"nn.onnx.load() '{what}' must name inputs of the file, {', '.join(inputs)}, got {name!r}{known}"
                )
    fixed = {name: np.asarray(value) for name, value in values.items()}
    reader = Reader(File(path, _version(file), graph), fixed)
    try:
        with np.errstate(all="ignore"):
            return reader.model(graph, [info for name, info in inputs.items() if name not in values], shapes)
    except ModelFileError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        # Constructors and arrays raise these for arguments; here they are faults of the file.
        raise ModelFileError(f"{reader.builder.at}{error}") from error


def _parse(data: bytes | memoryview) -> messages.ModelProto:
    try:
        file = messages.ModelProto.read(data)
    except ModelFileError as error:
        raise ModelFileError(f"not an ONNX file, or a damaged one: {error}") from error
    if file.graph is None or not file.graph.output or not file.opset_import:
        begin = bytes(data[:16])
        raise ModelFileError(
            f"not an ONNX file: it has no graph with outputs and version of operators, and begins with {begin!r}"
        )
    return file


def _version(file: messages.ModelProto) -> int:
    found = next((each.version or 0 for each in file.opset_import if not each.domain or each.domain == "ai.onnx"), None)
    if found is None or not OLDEST <= found <= NEWEST:
        raise ModelFileError(f"the version of ONNX's operators (opset) must be {OLDEST} to {NEWEST}, got {found}")
    return found


class Reader:
    """Reader of the nodes of one file.

    Args:
        file: context of its nodes.
        values: numbers of inputs that are known.
    """

    def __init__(self, file: File, values: Mapping[str, Array]) -> None:
        self.builder = Builder()
        self._file, self._values = file, values

    def model(self, graph: GraphProto, infos: Sequence[ValueInfo], shapes: Mapping[str, Sequence[int | None]]) -> Functional:
        """Return the model of a graph.

        Args:
            graph: of the file.
            infos: its inputs that are samples.
            shapes: of inputs, as in `load`.
        """
        builder = self.builder
        environment: dict[str, Operand] = dict(self._values)
        entries: dict[str, Placeholder] = {}
        for info, shape in zip(infos, _shapes(infos, shapes), strict=True):
            name = info.name or ""
            self.builder.at = f"input {name[:80]!r}: "
            tensor = None if info.type is None else info.type.tensor_type
            builder.double = builder.double or (tensor is not None and tensor.elem_type == messages.DOUBLE)
            entry, value = self._input(name, shape)
            entries[name], environment[name] = entry, value
            if tensor is not None and tensor.elem_type and tensor.elem_type not in messages.FLOATS:
                builder.whole.add(value)
        if not entries:
            raise ModelFileError("the graph must have an input besides those in 'values', got none")
        builder.anchor = next(iter(entries.values()))
        builder.single = any(_is_single(info) for info in infos if info.name not in shapes)
        self.run(graph, environment)
        self.builder.at = ""
        ends = {_plain(info.name or ""): self._output(info.name or "", environment) for info in graph.output}
        used = set(needed_by(list(ends.values())))
        for name in [name for name, entry in entries.items() if entry not in used]:
            _LOG.info("no output depends on the input %r of the file, so the model does not have it", name)
            del entries[name]
        if not entries:
            raise ModelFileError("the outputs depend on no input")
        anchor = next(iter(entries.values()))
        for value in used:
            # A layer that takes nothing was called on an input that the model does not have.
            if isinstance(value, Result) and value.given == (builder.anchor,) and builder.anchor not in used:
                value.given = (anchor,)
        outputs = ends if len(ends) > 1 else next(iter(ends.values()))
        inputs = list(entries.values()) if len(entries) > 1 else next(iter(entries.values()))
        made_model = Functional(inputs, outputs, dtype="float64" if builder.double else "float32")
        made_model.store  # noqa: B018 - makes the variables
        made = [
            (variable, arrays[variable.local_name or ""])
            for layer, arrays in builder.weights
            for variable in layer.variables
            if variable.bound
        ]
        if problem := not_finite(made):
            raise ModelFileError(problem)
        for variable, array in made:
            variable.set_value(array)
        return made_model

    def run(self, graph: GraphProto, environment: dict[str, Operand]) -> None:
        """Read the nodes of a graph.

        Args:
            graph: the graph.
            environment: the values by name; those of the graph are added.
        """
        for tensor in graph.initializer:
            self.builder.at = f"tensor {(tensor.name or '')[:80]!r}: "
            environment[tensor.name or ""] = self._file.once(tensor, partial(self._tensor, tensor))
        # First: what a node takes besides may decide about the layer that it becomes.
        for node in [*(each for each in graph.node if each.op_type == "Constant"), *graph.node]:
            if id(node) not in self._file.done:
                self._file.done.add(id(node))
                self._read(node, environment)

    def _read(self, node: NodeProto, environment: dict[str, Operand]) -> None:
        call = Call(self.builder, self._file, node, environment)
        before = len(self.builder.weights)
        found = self._results(call)
        for layer, arrays in self.builder.weights[before:]:
            for variable in layer.variables:
                shape = arrays[variable.local_name or ""].shape
                if shape != variable.shape:
                    raise call.refuse(
                        f"weights of {type(layer).__name__} must have shape {variable.shape} for this input", shape
                    )
        whole = self._whole(call)
        for place, (name, value) in enumerate(zip(node.output, found, strict=False)):
            if isinstance(value, Value) and (whole or (node.op_type == "TopK" and place)):
                self.builder.whole.add(value)
            if name:
                environment[name] = value

    def _whole(self, call: Call) -> bool:
        """Return whether the type of the first result is one of whole numbers or of truth: mostly it is that of an input."""
        kind = call.node.op_type or ""
        if kind == "Cast":
            return call.given.get("to") not in messages.FLOATS
        if kind in ("If", "Loop", "Scan"):
            return False  # nodes within have said so
        place = {"CastLike": 1, "Where": 1}.get(kind, 0)
        return kind in OF_WHOLE or (len(call.inputs) > place and self.builder.is_whole(call.inputs[place]))

    def _results(self, call: Call) -> Sequence[Operand]:
        """Return the results of a node."""
        kind = call.node.op_type or ""
        if call.node.domain not in (None, "", "ai.onnx"):
            raise ModelFileError(
                f"{call.title}: nn reads the operators of ONNX, got one of the domain {call.node.domain[:80]!r}"
            )
        if kind == "Constant":
            return [self._file.once(call.node, call.stored)]
        if kind == "If":
            return self._chosen(call)
        if kind in ("Loop", "Scan"):
            return (looped if kind == "Loop" else scanned)(call, self._stepper(call))
        # Lengths are known before anything is computed, but for the batch.
        if kind in ("Shape", "Size"):
            return [call.lengths(kind)]
        # Exporters compute shapes within the graph; layers are made of these numbers, so they are computed here.
        if kind in FOLDS and call.inputs and all(not isinstance(each, Value) for each in call.inputs):
            found = FOLDS[kind](list(call.inputs), call.given)
            results = found if isinstance(found, list) else [np.asarray(found)]
            source = call.inputs[0]
            if kind in SAME_NUMBERS and isinstance(source, np.ndarray):
                results = [self.builder.derived(each, source) for each in results]
            return results
        if kind not in NODES:
            near = arguments.did_you_mean(kind, NODES)
            raise ModelFileError(f"{call.title}: nn must have the operator, got {kind[:80]!r}, which it lacks{near}")
        made_values = NODES[kind](call)
        return made_values if isinstance(made_values, list) else [made_values]

    def _tensor(self, tensor: messages.TensorProto) -> Array:
        array = messages.to_array(tensor, self._file.path)
        return self.builder.keep(array, tensor.name or "", stored=True)

    def _stepper(self, call: Call) -> Step:
        """Return the function that reads the body of a loop for one step."""

        def step(body: GraphProto, entries: dict[str, Operand]) -> list[Operand]:
            # Read again for each step.
            self._file.done.difference_update(map(id, nodes_of(body)))
            environment = {**call.environment, **entries}
            self.run(body, environment)
            return [environment[info.name or ""] for info in body.output]

        return step

    def _chosen(self, call: Call) -> Sequence[Operand]:
        condition = call.array(0)
        if condition.size != 1:
            raise call.refuse("the condition must be one truth value", condition.shape)
        graph = call.given.get("then_branch" if bool(condition.reshape(-1)[0]) else "else_branch")
        if not isinstance(graph, GraphProto):
            raise call.refuse("must have two graphs", sorted(call.given))
        environment = dict(call.environment)
        self.run(graph, environment)
        return [environment[info.name or ""] for info in graph.output]

    def _input(self, name: str, shape: Shape) -> tuple[Placeholder, Value]:
        place = shape.index(BATCH)
        entry = Input(
            [BATCH, *(None if axis == LENGTH else axis for axis in (*shape[:place], *shape[place + 1 :]))], _plain(name)
        )
        # The batch back to where the file has it.
        return entry, self.builder.orders.turned(entry, [*range(1, place + 1), 0, *range(place + 1, len(shape))])

    def _output(self, name: str, environment: Mapping[str, Operand]) -> Value:
        self.builder.at = f"output {name[:80]!r}: "
        if name not in environment:
            raise ModelFileError(f"{self.builder.at}no node gives it")
        found = environment[name]
        if not isinstance(found, Value) or BATCH not in found.shape:
            raise ModelFileError(f"{self.builder.at}must depend on the samples, one row for each, got shape {found.shape}")
        place = self.builder.value(found).shape.index(BATCH)
        return self.builder.orders.turned(found, [place, *range(place), *range(place + 1, len(found.shape))])


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


def _plain(name: str) -> str:
    # A slash stands between a layer and its variables in nn.
    return name.replace("/", ".") or "input"

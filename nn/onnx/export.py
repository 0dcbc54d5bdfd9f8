"""A model as an ONNX file: for each operation of its graph the operators that compute the same in inference."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from nn import arguments, tensor_files
from nn.model.network import Network
from nn.onnx import messages
from nn.onnx.exporter import Exporter, everywhere
from nn.onnx.operators import convert
from nn.value.graph import Graph, needed_by
from nn.value.value import Value

# The first version with `Gelu`.
OPSET = 20
"""The version of ONNX's operators that files are written for."""
# That of ONNX 1.15, which brought this version of the operators.
IR_VERSION = 9
LARGEST = 2_000_000_000
"""Bytes of weights that a file may have: Protocol Buffers count to 2 GiB, the rest is for the graph."""


def save(model: Network, path: str | os.PathLike[str]) -> None:
    """Write a model as an ONNX file, which other programs run, such as onnxruntime.

    The file has the weights of now and computes as `predict` does: nothing is dropped, and `BatchNorm` takes its moving
    statistics. Inputs and outputs have the names of the model's, "input" and "output" where there is one without a name; the
    batch and axes of any length stay open. All numbers are of the model's type, ids of an `Embedding` too.

    Args:
        model: with variables, so of a known input shape or set up.
        path: of the file.

    Raises:
        TypeError: for anything but a model.
        ValueError: for an operation of one's own, naming its layer; for weights of more than 2 GB; before there are variables.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(8, "relu"), nn.layer.Dense(3, "softmax")])
    >>> model.setup(nn.loss.Cross_Entropy())
    >>> nn.onnx.save(model, "model.onnx")
    """
    tensor_files.write_file(arguments.new_path("nn.onnx.save()", "path", path, "a file"), to_bytes(model))


def to_bytes(model: Network) -> bytes:
    """Return the content of the ONNX file of a model; raise as `save` does."""
    arguments.instance("nn.onnx.save()", "model", model, Network)
    if model.graph.carried:
        raise ValueError(
            f"nn.onnx.save() 'model' must carry no states from batch to batch, got "
            f"{model.graph.carried[0].kept.owner.describe()} with stateful=True; in a model of initial_state and return_state "
            "they are inputs and outputs"
        )
    size = sum(variable.value.nbytes for variable in model.store.everything)
    if size > LARGEST:
        raise ValueError(f"nn.onnx.save() 'model' must have at most {LARGEST} bytes of weights, got {size}")
    names = [name or "input" for name in model._input_names]
    out = Exporter(model.dtype, dict(zip(model.graph.inputs, names, strict=True)))
    made = _graph(model.graph, names, model._output_names, out)
    file = messages.ModelProto(IR_VERSION, "parallel-sgd", graph=made, opset_import=[messages.OperatorSet("", OPSET)])
    return file.write()


def _graph(graph: Graph, inputs: Sequence[str], outputs: Sequence[str], out: Exporter) -> messages.GraphProto:
    # Losses that the model adds by itself are no outputs of predictions.
    ends = graph.outputs[: len(graph.outputs) - graph.added]
    needed, owners = set(needed_by(ends)), _owners(graph)
    for node in graph.nodes:
        if node in needed:
            out.owner = owners[node]
            out.names[node] = convert(out, node)
    out.owner = ""
    final = out.named([out.names[end] for end in ends], outputs)
    nodes = out.alive(final)
    used = {name for node in everywhere(nodes) for name in node.input}
    return messages.GraphProto(
        node=nodes,
        name="model",
        initializer=[tensor for name, tensor in out.tensors.items() if name in used],
        input=[out.described(name, entry.shape) for name, entry in zip(inputs, graph.inputs, strict=True)],
        output=[out.described(name, end.shape) for name, end in zip(final, ends, strict=True)],
    )


def _owners(graph: Graph) -> Mapping[Value, str]:
    """Return for each node the name of its layer, of whose operations the last one in the order gives its result."""
    owners: dict[Value, str] = {}
    name = ""
    for node in reversed(graph.nodes):
        name = node.layers[-1].name if node.layers else name
        owners[node] = name
    return owners

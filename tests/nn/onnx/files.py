"""ONNX files made of nodes, as other programs write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nn.onnx import messages
from nn.onnx.messages import Dimension, Dimensions, GraphProto, NodeProto, OperatorSet, TensorType, Type, ValueInfo


def info(name: str, *axes: int | str | None, elements: int = 1) -> ValueInfo:
    found = [Dimension(None, axis) if isinstance(axis, str) else Dimension(axis) for axis in axes]
    return ValueInfo(name, Type(TensorType(elements, Dimensions(found))))


def node(kind: str, inputs: str, outputs: str, **given: Any) -> NodeProto:
    """Return a node; "-" stands for an input that is left out."""
    attributes = [messages.to_attribute(name, value) for name, value in given.items()]
    taken = [each.removeprefix("-") for each in inputs.split()]
    return NodeProto(taken, outputs.split(), f"the {kind}", kind, attributes)


def file_of(
    *nodes: NodeProto, inputs: Any = (), tensors: Any = (), version: int = 20, outputs: str = "y", axes: int = 2
) -> bytes:
    stored = [messages.to_tensor(np.asarray(array), name) for name, array in dict(tensors).items()]
    entries = list(inputs) or [info("x", "batch", 4)]
    graph = GraphProto(
        list(nodes), "model", stored, entries, [info(each, "batch", *[None] * (axes - 1)) for each in outputs.split()]
    )
    return messages.ModelProto(9, graph=graph, opset_import=[OperatorSet("", version)]).write()

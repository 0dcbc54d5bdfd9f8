"""Operators of shapes: sums over axes, other orders of axes, cut out and joined arrays, elements at computed places."""

from __future__ import annotations

import numpy as np

from nn import operation
from nn.onnx.exporter import Convert, Exporter
from nn.onnx.messages import INT64
from nn.operation.augmentation import Crop
from nn.value.value import Node

_LEAST, _GREATEST = -(1 << 63) + 1, (1 << 63) - 1
"""Bounds of a slice that leave nothing out."""


def reduce(kind: str) -> Convert:
    def made(out: Exporter, node: Node, found: operation.Reduction) -> str:
        axes = out.integers(found._axes(node.inputs[0].shape))
        return out.add(kind, out.name(node.inputs[0]), axes, keepdims=int(found.keepdims))

    return made


def reshaped(out: Exporter, node: Node, found: operation.Reshape) -> str:
    return out.add("Reshape", out.name(node.inputs[0]), out.integers(node.shape))


def steps(out: Exporter, node: Node, found: operation.SplitSteps) -> str:
    rows, like = out.inputs(node)
    lead = out.add("Shape", like, start=0, end=2)
    return out.add("Reshape", rows, out.add("Concat", lead, out.integers(node.shape[2:]), axis=0))


def permuted(out: Exporter, node: Node, found: operation.Transpose) -> str:
    return out.orders.turned(out.name(node.inputs[0]), found._order(node.inputs[0].shape))


def beside(out: Exporter, node: Node, found: operation.Concatenate) -> str:
    return out.add("Concat", *out.inputs(node), axis=found.axis)


def index(out: Exporter, node: Node, found: operation.Index) -> str:
    x, key = out.name(node.inputs[0]), found._full_key(node.inputs[0].shape)
    entries = [entry for entry in key if entry is not None]
    cuts = {axis: entry for axis, entry in enumerate(entries) if isinstance(entry, slice) and entry != slice(None)}
    if cuts:
        starts, stops, steps = zip(*map(_bounds, cuts.values()), strict=True)
        x = out.add("Slice", x, *map(out.integers, (starts, stops, tuple(cuts), steps)))
    # From the last axis to the first, as each number takes its axis away and a list may bring several.
    for axis in reversed(range(len(entries))):
        if not isinstance(entries[axis], slice):
            x = out.add("Gather", x, out.integers(entries[axis]), axis=axis)
    added, place = [], 0
    for entry in key:
        if entry is None:
            added.append(place)
        place += np.ndim(entry) if isinstance(entry, (int, np.ndarray)) else 1
    return out.add("Unsqueeze", x, out.integers(added)) if added else x


def _bounds(entry: slice) -> tuple[int, int, int]:
    step = 1 if entry.step is None else int(entry.step)
    start = (0 if step > 0 else _GREATEST) if entry.start is None else int(entry.start)
    stop = (_GREATEST if step > 0 else _LEAST) if entry.stop is None else int(entry.stop)
    return start, stop, step


def top_places(out: Exporter, node: Node, found: operation.TopPlaces) -> str:
    _, places = out.add_several("TopK", 2, out.name(node.inputs[0]), out.integers([found.count]), axis=found.axis)
    # In nn places are numbers of the model's type, in ONNX whole ones.
    return out.add("Cast", places, to=out.elements)


def take_along(out: Exporter, node: Node, found: operation.TakeAlong) -> str:
    x, places = out.inputs(node)
    return out.add("GatherElements", x, out.add("Cast", places, to=INT64), axis=found.axis)


def crop(out: Exporter, node: Node, found: Crop) -> str:
    _, height, width, _ = node.inputs[0].shape
    top, left = (height - found.height) // 2, (width - found.width) // 2
    cuts = (top, left), (top + found.height, left + found.width), (1, 2)
    return out.add("Slice", out.name(node.inputs[0]), *map(out.integers, cuts))

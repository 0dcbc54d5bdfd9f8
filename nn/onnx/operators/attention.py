"""Operators of attention, and of the positions that its queries and keys get."""

from __future__ import annotations

import math

import numpy as np

from nn import operation
from nn.arrays import LENGTH
from nn.onnx.exporter import Exporter
from nn.onnx.messages import BOOL, DOUBLE
from nn.value.value import Node


def rotary(out: Exporter, node: Node, found: operation.Rotary) -> str:
    def exact(number: float) -> str:
        return out.store(np.array(number, np.float64), "exact")

    x, (_, positions, _, features) = out.name(node.inputs[0]), node.inputs[0].shape
    count = exact(positions)
    if positions == LENGTH:
        count = out.add("Cast", out.add("Gather", out.add("Shape", x), out.integers(1), axis=0), to=DOUBLE)
    # Computed in double precision, as in nn, from single numbers: a reader takes stored arrays for weights.
    pairs = out.add("Range", exact(0), exact(features // 2), exact(1))
    waves = out.add("Exp", out.add("Mul", pairs, exact(-2 * math.log(found.base) / features)))
    steps = out.add("Unsqueeze", out.add("Range", exact(0), count, exact(1)), out.integers([1]))
    angles = out.add("Unsqueeze", out.add("Mul", steps, waves), out.integers([2]))
    cosine, sine = (out.add("Cast", out.add(kind, angles), to=out.elements) for kind in ("Cos", "Sin"))

    def table(first: str, second: str) -> str:
        return out.add("Reshape", out.add("Concat", first, second, axis=2), out.integers([-1, 1, features]))

    # Of the other feature of each pair; the first one takes it away.
    swapped = out.add("Gather", x, out.integers(np.arange(features) ^ 1), axis=3)
    kept, crossed = table(cosine, cosine), table(out.add("Neg", sine), sine)
    return out.add("Add", out.add("Mul", x, kept), out.add("Mul", swapped, crossed))


def attention(out: Exporter, node: Node, found: operation.Attention) -> str:
    q, k, v, *masks = out.inputs(node)
    (_, targets, _, depth), (_, sources, *_) = node.inputs[0].shape, node.inputs[1].shape
    scaled = out.add("Mul", out.orders.turned(q, (0, 2, 1, 3)), out.number(1 / math.sqrt(depth)))
    scores = out.add("MatMul", scaled, out.orders.turned(k, (0, 2, 3, 1)))
    if masks:
        # As many axes as the scores: heads, and targets where the mask has none.
        axes = (1,) if len(node.inputs[3].shape) == 3 else (1, 2)
        seen = out.add("Unsqueeze", out.add("Cast", masks[0], to=BOOL), out.integers(axes))
        # Finite, as in nn: a row in which nothing is left must not become NaN.
        scores = out.add("Where", seen, scores, out.number(float(np.finfo(out.dtype).min) / 2))
    if found.causal:
        scores = out.add("Add", scores, _future(out, scores, targets, sources))
    weights = out.add("Softmax", scores, axis=-1)
    return out.orders.turned(out.add("MatMul", weights, out.orders.turned(v, (0, 2, 1, 3))), (0, 2, 1, 3))


def _future(out: Exporter, scores: str, targets: int, sources: int) -> str:
    """Return the numbers to add to scores: minus infinity where a target would see a later source."""
    if LENGTH not in (targets, sources):
        # Infinite, as no row is without a source: each target sees the first one.
        return out.tensor(np.triu(np.full((targets, sources), -np.inf), 1))
    whole = out.add("ConstantOfShape", out.add("Shape", scores, start=2), value=np.full(1, -np.inf, out.dtype))
    # It writes zeros elsewhere.
    return out.add("Trilu", whole, out.integers(1), upper=1)

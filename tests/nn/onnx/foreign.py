"""Files of operators that nn does not write, as exporters of other libraries do, with what they compute in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nn.arrays import Array
from nn.onnx import messages
from nn.onnx.messages import GraphProto, NodeProto, ValueInfo
from tests.nn.onnx.files import file_of, info, node


class Foreign(NamedTuple):
    """A file, its input, and its output.

    Args:
        name: of the test.
        nodes: of the graph, from "x" to "y".
        value: the output for the input and the tensors.
        tensors: stored ones by name.
        sample: axes of the input behind the batch.
        version: of the operators.
        positive: whether the input is above 0.
    """

    name: str
    nodes: list[NodeProto]
    value: Callable[..., Any]
    tensors: dict[str, Array] = {}
    sample: tuple[int, ...] = (4,)
    version: int = 20
    positive: bool = False

    def data(self) -> bytes:
        entry, axes = info("x", "batch", *self.sample), self.expected().ndim
        return file_of(*numbered(self.nodes, "node"), inputs=[entry], tensors=self.tensors, version=self.version, axes=axes)

    def x(self) -> Array:
        draw = np.random.default_rng(3).normal(size=(5, *self.sample)).astype(np.float32)
        return np.abs(draw) + np.float32(0.1) if self.positive else draw

    def expected(self) -> Array:
        return np.asarray(self.value(self.x().astype(float), **self.tensors), np.float32)


def drawn(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


erf = np.vectorize(math.erf, [float])


def means(x: Array, size: int, stride: int, pads: tuple[int, int], *, up: bool, counted: bool) -> Array:
    """Return the means over windows of the last axis, those beyond the end too if `up`, of the cells which count."""
    length = x.shape[-1]
    count = (math.ceil if up else math.floor)((length + sum(pads) - size) / stride) + 1
    begins = [begin for begin in (stride * step - pads[0] for step in range(count)) if begin < length]
    ends = [min(begin + size, length + (pads[1] if counted else 0)) for begin in begins]
    return np.stack([
        x[..., max(begin, 0) : end].sum(-1) / (end - (begin if counted else max(begin, 0)))
        for begin, end in zip(begins, ends, strict=True)
    ], -1)  # fmt: skip


def joined_heads(x: Array, w: Array) -> Array:
    """Return attention of two heads of two features, x (batch, positions, 4), times w."""
    heads = x.reshape(len(x), -1, 2, 2).swapaxes(1, 2)
    return (softmax(heads @ heads.swapaxes(2, 3)) @ heads).swapaxes(1, 2).reshape(x.shape) @ w


def greatest_apart(x: Array, pads: tuple[int, ...]) -> Array:
    """Return the greatest numbers of windows of 2 and 3 cells, 2 and 3 apart, in steps of 2 and 1."""
    x = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])], constant_values=-np.inf)
    rows, columns = (x.shape[2] - 3) // 2 + 1, x.shape[3] - 6
    parts = [x[:, :, a : a + 2 * rows - 1 : 2, b : b + columns] for a in (0, 2) for b in (0, 3, 6)]
    return np.asarray(np.max(parts, axis=0))


def turned_windows(
    x: Array,
    w: Array,
    b: Array,
    group: int = 1,
    strides: Any = (1, 1),
    dilations: Any = (1, 1),
    pads: Any = (0, 0, 0, 0),
    output_padding: Any = (0, 0),
) -> Array:
    """Return the transposed convolution of images (batch, channels, height, width): each cell adds a kernel to the result."""
    inner, outer = len(w) // group, w.shape[1]
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:], strict=True)]
    whole = [(n - 1) * s + span for n, s, span in zip(x.shape[2:], strides, spans, strict=True)]
    made = np.zeros((len(x), group * outer, *(n + more for n, more in zip(whole, output_padding, strict=True))))
    for g in range(group):
        for i, j in np.ndindex(*x.shape[2:]):
            for k, m in np.ndindex(*w.shape[2:]):
                own = slice(g * inner, (g + 1) * inner)
                place = i * strides[0] + k * dilations[0], j * strides[1] + m * dilations[1]
                made[:, g * outer : (g + 1) * outer, place[0], place[1]] += x[:, own, i, j] @ w[own, :, k, m]
    ends = [slice(pads[a], made.shape[2 + a] - pads[2 + a]) for a in (0, 1)]
    return np.asarray(made[(slice(None), slice(None), *ends)] + b[:, None, None])


def cubic(x: Array, places: Array, exclude_outside: int = 0, cubic_coeff_a: float = -0.75) -> Array:
    """Return x with its last axis read at some places, in units of cells, by the four nearest cells."""
    a, length, found = cubic_coeff_a, x.shape[-1], []
    for place in places:
        shares, total = 0.0, np.zeros(x.shape[:-1])
        for cell in range(math.floor(place) - 1, math.floor(place) + 3):
            d = abs(place - cell)
            share = (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * (d**3 - 5 * d**2 + 8 * d - 4)
            if exclude_outside and not 0 <= cell < length:
                continue
            shares, total = shares + share, total + share * x[..., min(max(cell, 0), length - 1)]
        found.append(total / shares if exclude_outside else total)
    return np.stack(found, -1)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def numbered(nodes: list[NodeProto], name: str) -> list[NodeProto]:
    """Return nodes with names of their own, which onnxruntime asks for."""
    return [replace(each, name=f"{name} {number}") for number, each in enumerate(nodes)]


def body(nodes: list[NodeProto], inputs: str, outputs: str, tensors: Any = ()) -> GraphProto:
    """Return the body of a loop; i is the number of the step, and go whether it was to be done."""
    stored = [messages.to_tensor(array, name) for name, array in dict(tensors).items()]
    kinds = {"i": 7, "go": 9}
    entries = [info(each, elements=kinds[each]) if each in kinds else ValueInfo(each) for each in inputs.split()]
    return GraphProto(numbered(nodes, "step"), "body", stored, entries, [ValueInfo(each) for each in outputs.split()])


def cell(x: Array, w: Array, u: Array, back: bool = False) -> tuple[Array, Array]:
    """Return the last state and all of h = tanh(x w + h u), steps on axis 1, from zeros."""
    state, found = np.zeros((len(x), u.shape[0])), []
    for t in reversed(range(x.shape[1])) if back else range(x.shape[1]):
        state = np.tanh(x[:, t] @ w + state @ u)
        found.append(state)
    return state, np.stack(found[::-1] if back else found, axis=1)


def interpolated(x: Array, cells: int, places: Array) -> Array:
    """Return x with its last axis read at some places, in units of cells."""
    return np.apply_along_axis(lambda row: np.interp(places, np.arange(len(row)), row), -1, x)


def enlarged(x: Array, how: str) -> Array:
    """Return x (batch, channels, 3, 4) as (batch, channels, 6, 10)."""
    for axis, cells in ((2, 6), (3, 10)):
        length, new = x.shape[axis], np.arange(cells)
        places = {
            "half_pixel": (new + 0.5) * length / cells - 0.5, "align_corners": new * (length - 1) / (cells - 1),
            "asymmetric": new * length / cells,
        }[how]  # fmt: skip
        x = np.moveaxis(interpolated(np.moveaxis(x, axis, -1), cells, places), -1, axis)
    return x


def found_places(x: Array, kind: str, axis: int, keepdims: int = 1, select_last_index: int = 0) -> Array:
    """Return the places of the greatest or least numbers along an axis, the first or the last of equal ones."""
    x = -x if kind == "ArgMin" else x
    last = x.shape[axis] - 1 - np.flip(x, axis).argmax(axis)
    found = last if select_last_index else x.argmax(axis)
    return np.asarray(np.expand_dims(found, axis) if keepdims else found)


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def heads_of(x: Array, name: str, mask: Array | None) -> Array:
    """Return attention of one head, x (batch, 3, positions, features) with queries, keys and values."""
    q, k, v = (x[:, place : place + 1] for place in range(3))
    scores = q @ k.swapaxes(2, 3) * (0.25 if name == "scaled" else 0.5)
    scores = 0.5 * np.tanh(scores / 0.5) if name == "softcap" else scores
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if "causal" in name:
        scores = np.where(np.tri(x.shape[2], dtype=bool), scores, -np.inf)
    # A query that sees nothing has zeros.
    seen = np.isfinite(scores).any(axis=-1, keepdims=True)
    return np.asarray(np.where(seen, softmax(np.where(seen, scores, 0)) @ v, 0))


def shared_heads(x: Array, **_: Array) -> Array:
    q = x[..., :8].reshape(-1, 5, 4, 2).swapaxes(1, 2)
    k, v = (part.reshape(-1, 5, 2, 2).swapaxes(1, 2).repeat(2, 1) for part in (x[..., 8:12], x[..., 12:]))
    return np.asarray((softmax(q @ k.swapaxes(2, 3) / math.sqrt(2)) @ v).swapaxes(1, 2).reshape(-1, 5, 8))


def continued(x: Array) -> Array:
    """Return attention of the last positions to all of them, beside keys and values."""
    b = x[:, :, 3:]
    return np.concatenate([softmax(b @ x.swapaxes(2, 3) / 2) @ x, x, x], 2)


STEP = [node("MatMul", "s w", "a"), node("MatMul", "h u", "b"), node("Add", "a b", "c"), node("Tanh", "c", "n")]
ZEROS = [node("Shape", "x", "whole"), node("Slice", "whole zero one", "batch"), node("Concat", "batch units", "wanted", axis=0),
         node("ConstantOfShape", "wanted", "h0")]  # fmt: skip
CELL = {"w": drawn(4, 3) * 0.5, "u": drawn(3, 3) * 0.5}
KNOWN = {"zero": np.int64([0]), "one": np.int64([1]), "units": np.int64([3])}

FOREIGN = [
    # torch writes GELU so below version 20
    Foreign(
        "gelu of torch",
        [node("Div", "x root", "a"), node("Erf", "a", "b"), node("Add", "b one", "c"), node("Mul", "x c", "d"),
         node("Mul", "d half", "y")],
        lambda x, **_: x * (1 + erf(x / math.sqrt(2))) / 2,
        {"root": np.float32(math.sqrt(2)), "one": np.float32(1), "half": np.float32(0.5)},
        version=17,
    ),
    Foreign("erf of numbers", [node("Erf", "w", "e"), node("Add", "x e", "y")], lambda x, w: x + erf(w), {"w": drawn(4)}),
    *[Foreign(kind, [node("Tanh", "x", "t"), node("Sub", "two t", "w"), node(kind, "w" if kind == "Acosh" else "t", "y")],
              lambda x, two, kind=kind: getattr(np, kind.lower().replace("a", "arc", kind[0] == "A"))(
                  two - np.tanh(x) if kind == "Acosh" else np.tanh(x)), {"two": np.float32(2)})
      for kind in ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan")],
    Foreign("arcs at the ends", [node("Sign", "x", "s"), node("Asin", "s", "a"), node("Acos", "s", "b"),
            node("Concat", "a b", "y", axis=1)],
            lambda x: np.concatenate([np.arcsin(np.sign(x)), np.arccos(np.sign(x))], 1)),
    *[Foreign(f"infinite on one side, {kind} {given}", [node("Reciprocal", "zeros", "i"), node("Sign", "x", "s"),
              node("Mul", "s i", "q"), node(kind, "x q", "a"), node("IsInf", "a", "n", **given), node("Cast", "n", "y", to=1)],
              lambda x, zeros, kind=kind, given=given: (x > 0) & bool(given.get("detect_positive", 1)) if kind == "Max"
              else (x < 0) & bool(given.get("detect_negative", 1)), {"zeros": np.zeros(4, np.float32)})
      for kind in ("Max", "Min") for given in ({}, {"detect_positive": 0}, {"detect_negative": 0})],
    Foreign("shrunk", [node("Shrink", "x", "a", lambd=0.4, bias=0.1), node("Shrink", "a", "y")],
            lambda x: (lambda a: np.where(abs(a) > 0.5, a, 0))(np.where(abs(x) > 0.4, x - np.sign(x) * 0.1, 0))),
    *[Foreign(f"product over {axes}, {keepdims}", [node("ReduceProd", "x axes", "y", keepdims=keepdims)],
              lambda x, axes, keepdims=keepdims: x.prod(tuple(axes.tolist()), keepdims=bool(keepdims)),
              {"axes": np.int64(axes)}, (7, 4))
      for axes, keepdims in (([1], 1), ([-1], 0), ([2, 1], 0))],
    *[Foreign(f"one hot along {axis}", [node("Mul", "x three", "m"), node("Cast", "m", "i", to=7),
              node("OneHot", "i depth values", "y", axis=axis)],
              lambda x, axis=axis, **_: (lambda i: np.moveaxis(np.where(
                  (i + np.where(i < 0, 5, 0))[..., None] == np.arange(5), 3.0, -1.0), -1, axis))(np.trunc(3 * x)),
              {"three": np.float32(3), "depth": np.int64(5), "values": np.float32([-1, 3])}, (2, 3))
      for axis in (-1, 1, 2)],
    # As onnxruntime counts: the text of version 9 knows no places from behind.
    Foreign("one hot of version 9", [node("Mul", "x three", "m"), node("Cast", "m", "i", to=7),
            node("OneHot", "i depth values", "y")],
            lambda x, **_: np.where(np.isin(np.trunc(3 * x)[..., None] - np.arange(5), (0, -5)), 3.0, -1.0),
            {"three": np.float32(3), "depth": np.int64(5), "values": np.float32([-1, 3])}, (2, 3), version=9),
    Foreign("the greatest", [node("Hardmax", "x", "a", axis=1), node("Hardmax", "x", "b"), node("Add", "a b", "y")],
            lambda x: (x == x.max(1, keepdims=True)) * 1.0 + (x == x.max(2, keepdims=True)), {}, (3, 4)),
    *[Foreign(f"responses around {size}", [node("LRN", "x", "y", size=size, alpha=0.3, beta=0.6, bias=1.5)],
              lambda x, size=size: x / (1.5 + 0.3 / size * np.stack(
                  [(x[:, max(c - (size - 1) // 2, 0) : c + size // 2 + 1] ** 2).sum(1) for c in range(6)], 1)) ** 0.6,
              {}, (6, 2, 3))
      for size in (1, 3, 5)],
    *[Foreign(f"of norm 1, {p}", [node("Relu", "x", "r"), node("LpNormalization", "r", "y", p=p, axis=1)],
              lambda x, p=p: (lambda r: r / np.maximum(np.linalg.norm(r, p, axis=1, keepdims=True), 1e-30))(np.maximum(x, 0)),
              {}, (2, 3))
      for p in (1, 2)],
    *[Foreign(f"greatest of windows with cells apart, {given}",
              [node("MaxPool", "x", "y", kernel_shape=[2, 3], strides=[2, 1], dilations=[2, 3], **given)],
              lambda x, pads=pads: greatest_apart(x, pads), {}, (2, 7, 9))
      for given, pads in (({}, (0, 0, 0, 0)), ({"pads": [1, 1, 0, 2]}, (1, 1, 0, 2)), ({"ceil_mode": 1}, (0, 0, 1, 0)),
                          ({"auto_pad": "VALID"}, (0, 0, 0, 0)))],
    *[Foreign(f"transposed to a size, {given}", [node("ConvTranspose", "x w b", "y", strides=[2, 3], **given)],
              lambda x, w, b, pads=pads: turned_windows(x, w, b, strides=(2, 3), pads=pads),
              {"w": drawn(4, 2, 3, 4), "b": drawn(2)}, (4, 5, 4))
      for given, pads in (
          ({"auto_pad": "SAME_UPPER"}, (0, 0, 1, 1)), ({"auto_pad": "SAME_LOWER"}, (1, 1, 0, 0)),
          ({"output_shape": [8, 10]}, (2, 2, 1, 1)), ({"output_shape": [8, 10], "auto_pad": "SAME_UPPER"}, (1, 1, 2, 2)),
      )],
    *[Foreign(f"transposed, {given}", [node("ConvTranspose", "x w b", "y", **given)],
              lambda x, w, b, given=given: turned_windows(x, w, b, **given),
              {"w": drawn(4, outer, 2, 3), "b": drawn(groups * outer)}, (4, 5, 4))
      for groups, outer, given in (
          (2, 3, {"group": 2}), (4, 1, {"group": 4, "strides": [2, 3], "pads": [1, 1, 0, 2]}),
          (1, 2, {"dilations": [2, 3]}), (1, 3, {"dilations": [3, 2], "strides": [2, 2], "pads": [0, 1, 2, 1]}),
          (2, 2, {"group": 2, "dilations": [1, 2], "strides": [1, 2], "output_padding": [0, 1]}),
          (2, 2, {"group": 2, "strides": [1, 1], "pads": [2, 3, 1, 2]}),
      )],
    Foreign("sine and cosine", [node("Sin", "x", "a"), node("Cos", "x", "b"), node("Concat", "a b", "y", axis=-1)],
            lambda x: np.concatenate([np.sin(x), np.cos(x)], -1)),
    Foreign("sign", [node("Sign", "x", "a"), node("Sign", "w", "b"), node("Mul", "a b", "y")],
            lambda x, w: np.sign(x) * np.sign(w), {"w": drawn(4)}),
    # torch writes a row of a masked attention in which nothing is left so
    Foreign("rows without a number", [node("Div", "x x", "a"), node("Log", "x", "l"), node("IsNaN", "l", "n"),
            node("Where", "n zero a", "y")], lambda x, zero: np.where(x < 0, 0, 1), {"zero": np.float32(0)}),
    Foreign("celu", [node("Celu", "x", "a", alpha=1.5), node("Celu", "a", "y")],
            lambda x: (lambda c: np.maximum(c, 0) + np.minimum(0, np.exp(c) - 1))(
                np.maximum(x, 0) + np.minimum(0, 1.5 * (np.exp(x / 1.5) - 1)))),
    Foreign("swish", [node("Swish", "x", "a"), node("Swish", "a", "y", alpha=2.0)],
            lambda x: (lambda s: s * sigmoid(2 * s))(x * sigmoid(x)), version=24),
    *[Foreign(f"blocks as channels, {mode}", [node("SpaceToDepth", "x", "a", blocksize=2, mode=mode), node("Relu", "a", "y")],
              lambda x, o=order: np.maximum(x, 0).reshape(-1, 3, 2, 2, 3, 2).transpose(0, *o, 2, 4).reshape(-1, 12, 2, 3),
              {}, (3, 4, 6), version=28) for mode, order in (("DCR", (3, 5, 1)), ("CRD", (1, 3, 5)))],
    Foreign("thresholded", [node("ThresholdedRelu", "x", "y", alpha=0.3)], lambda x: np.where(x > 0.3, x, 0)),
    Foreign("hard activations and a choice",
            [node("HardSwish", "x", "a"), node("HardSigmoid", "x", "b", alpha=0.25), node("Greater", "a b", "g"),
             node("Where", "g a b", "y")],
            lambda x: np.maximum(x * np.clip(x / 6 + 0.5, 0, 1), np.clip(0.25 * x + 0.5, 0, 1))),
    Foreign("greatest and least", [node("Max", "x w zero", "a"), node("Min", "a w one", "y")],
            lambda x, w, zero, one: np.minimum(np.minimum(np.maximum(np.maximum(x, w), zero), w), one),
            {"w": drawn(4), "zero": np.float32(-0.5), "one": np.float32(0.5)}),
    Foreign("cast like", [node("CastLike", "x one", "y")], lambda x, one: x, {"one": np.float32(1)}),
    Foreign("logarithm of a sum", [node("ReduceLogSum", "x axes", "y")], lambda x, axes: np.log(x.sum(1, keepdims=True)),
            {"axes": np.int64([1])}, positive=True),
    Foreign("logarithm of a sum of powers", [node("ReduceLogSumExp", "x axes", "y", keepdims=0)],
            lambda x, axes: np.log(np.exp(x).sum(1)), {"axes": np.int64([1])}, (3, 2)),
    Foreign("triangles", [node("Trilu", "x", "a"), node("Trilu", "a k", "y", upper=0)],
            lambda x, k: np.tril(np.triu(x), 1), {"k": np.int64(1)}, (3, 4)),
    Foreign("norm of roots", [node("RMSNormalization", "x scale", "y", epsilon=1e-3)],
            lambda x, scale: scale * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3), {"scale": drawn(4)}, version=23),
    # attention of Keras: projections, scores, and values of each head
    Foreign("einsum of weights", [node("Einsum", "x w", "a", equation="abc,cde->abde"),
            node("Einsum", "a o", "y", equation="abcd,cde->abe")],
            lambda x, w, o: np.einsum("abcd,cde->abe", np.einsum("abc,cde->abde", x, w), o),
            {"w": drawn(4, 2, 3), "o": drawn(2, 3, 5)}, (6, 4)),
    Foreign("einsum of heads", [node("Einsum", "x x", "s", equation="aecd,abcd->acbe"), node("Softmax", "s", "p", axis=3),
            node("Einsum", "p x", "y", equation="acbe,aecd->abcd")],
            lambda x: (lambda s: np.einsum("acbe,aecd->abcd", np.exp(s) / np.exp(s).sum(-1, keepdims=True), x))(
                np.einsum("aecd,abcd->acbe", x, x)), {}, (5, 2, 3)),
    Foreign("einsum of one operand", [node("Einsum", "x", "y", equation="bij->bj")], lambda x: x.sum(1), {}, (3, 4)),
    Foreign("einsum with dots", [node("Einsum", "x w", "y", equation="...i,ij")],
            lambda x, w: np.einsum("...i,ij", x, w), {"w": drawn(4, 3)}, (3, 4)),
    Foreign("einsum of three operands", [node("Einsum", "x w x", "y", equation="bi,oij,bj->bo")],
            lambda x, w: np.einsum("bi,oij,bj->bo", x, w, x), {"w": drawn(3, 4, 4)}),
    Foreign("einsum of three operands, elements apart", [node("Einsum", "x w x", "y", equation="bi,i,bi->bi")],
            lambda x, w: x * w * x, {"w": drawn(4)}),
    Foreign("einsum with weights in front", [node("Einsum", "w x", "y", equation="oi,bi->bo")], lambda x, w: x @ w.T,
            {"w": drawn(3, 4)}),
    Foreign("a cell in a Scan", [*ZEROS, node("Scan", "h0 x", "last y", num_scan_inputs=1, scan_input_axes=[1],
            scan_output_axes=[1], body=body([*STEP, node("Identity", "n", "out")], "h s", "n out"))],
            lambda x, w, u, **_: cell(x, w, u)[1], {**CELL, **KNOWN}, (5, 4)),
    Foreign("a Scan from behind", [*ZEROS, node("Scan", "h0 x", "last all", num_scan_inputs=1, scan_input_axes=[1],
            scan_input_directions=[1], scan_output_axes=[1], scan_output_directions=[1],
            body=body([*STEP, node("Identity", "n", "out")], "h s", "n out")),
            node("Unsqueeze", "last one", "l"), node("Concat", "l all", "y", axis=1)],
            lambda x, w, u, **_: (lambda found: np.concatenate([found[0][:, None], found[1]], 1))(cell(x, w, u, True)),
            {**CELL, **KNOWN}, (5, 4)),
    Foreign("a cell in a Loop", [*ZEROS, node("Loop", "steps yes h0", "last all", body=body(
            [node("Gather", "x i", "s", axis=1), *STEP, node("Identity", "n", "out"), node("Identity", "go", "on")],
            "i go h", "on n out", {})), node("Transpose", "all", "y", perm=[1, 0, 2])],
            lambda x, w, u, **_: cell(x, w, u)[1], {**CELL, **KNOWN, "steps": np.int64(5), "yes": np.bool_(True)}, (5, 4)),
    Foreign("a Loop that ends by its condition", [node("Loop", "most yes x", "y", body=body(
            [node("Mul", "h two", "n"), node("Less", "i three", "on")], "i go h", "on n",
            {"two": np.float32(2), "three": np.int64(3)}))],
            lambda x, **_: x * 16, {"most": np.int64(99), "yes": np.bool_(True)}),
    # torch's MultiheadAttention has the heads beside the samples
    Foreign("heads in the batch", [
            node("Transpose", "x", "t", perm=[1, 0, 2]), node("Shape", "t", "s"), node("Gather", "s one", "b", axis=0),
            node("Mul", "b two", "bb"), node("Unsqueeze", "bb zeros", "bu"), node("Concat", "five bu two_axis", "w", axis=0),
            node("Reshape", "t w", "r"), node("Transpose", "r", "h", perm=[1, 0, 2]),
            node("Transpose", "h", "k", perm=[0, 2, 1]),
            node("MatMul", "h k", "p"), node("Unsqueeze", "b zeros", "b1"), node("Concat", "b1 four", "w2", axis=0),
            node("Reshape", "p w2", "y")],
            lambda x, **_: np.einsum("bthd,bshd->bhts", x.reshape(-1, 5, 2, 2), x.reshape(-1, 5, 2, 2)),
            {"one": np.int64(1), "two": np.int64(2), "zeros": np.int64([0]), "five": np.int64([5]), "two_axis": np.int64([2]),
             "four": np.int64([2, 5, 5])}, (5, 4)),
    # which has them beside the steps behind it, unless it is asked for no weights
    Foreign("heads in the batch become features", [
            node("Transpose", "x", "t", perm=[1, 0, 2]), node("Shape", "t", "s"), node("Gather", "s one", "b", axis=0),
            node("Mul", "b two", "bb"), node("Unsqueeze", "bb zeros", "bu"), node("Concat", "five bu two_axis", "w1", axis=0),
            node("Reshape", "t w1", "r"), node("Transpose", "r", "h", perm=[1, 0, 2]),
            node("Transpose", "h", "k", perm=[0, 2, 1]), node("MatMul", "h k", "p"), node("Softmax", "p", "q", axis=-1),
            node("MatMul", "q h", "o"), node("Transpose", "o", "u", perm=[1, 0, 2]), node("Reshape", "u rows", "v"),
            node("MatMul", "v w", "z"), node("Unsqueeze", "b zeros", "b1"), node("Concat", "five b1 three", "w2", axis=0),
            node("Reshape", "z w2", "a"), node("Transpose", "a", "y", perm=[1, 0, 2])],
            lambda x, w, **_: joined_heads(x, w),
            {"one": np.int64(1), "two": np.int64(2), "zeros": np.int64([0]), "five": np.int64([5]), "two_axis": np.int64([2]),
             "rows": np.int64([-1, 4]), "three": np.int64([3]), "w": drawn(4, 3)}, (5, 4)),
    *[Foreign(f"means of windows {size} {stride} {pads} {up} {counted}",
              [node("AveragePool", "x", "y", kernel_shape=[size], strides=[stride], pads=list(pads), ceil_mode=up,
                    count_include_pad=counted)],
              lambda x, of=(size, stride, pads), up=up, counted=counted: means(x, *of, up=bool(up), counted=bool(counted)),
              {}, (2, 9))
      for size, stride, pads in ((2, 2, (0, 0)), (3, 2, (1, 1)), (4, 3, (2, 1)), (2, 3, (0, 0)), (3, 3, (0, 2)))
      for up in (0, 1) for counted in (0, 1)],
    # the token of a vision transformer
    Foreign("a token for each sample", [node("Shape", "x", "s"), node("Slice", "s zero one", "b"),
            node("Concat", "b ones four", "w", axis=0), node("Expand", "token w", "e"), node("Concat", "e x", "y", axis=1)],
            lambda x, token, **_: np.concatenate([np.repeat(token, len(x), 0), x], 1),
            {"zero": np.int64([0]), "one": np.int64([1]), "ones": np.int64([1]), "four": np.int64([4]),
             "token": drawn(1, 1, 4)},
            (3, 4)),
    Foreign("rounded", [node("Mul", "x ten", "a"), node("Floor", "a", "f"), node("Ceil", "a", "c"), node("Round", "a", "r"),
            node("Cast", "a", "i", to=7), node("Cast", "i", "z", to=1), node("Concat", "f c r z", "y", axis=1)],
            lambda x, ten: np.concatenate([np.floor(10 * x), np.ceil(10 * x), np.rint(10 * x), np.trunc(10 * x)], 1),
            {"ten": np.float32(10)}),
    Foreign("whole numbers", [node("Mul", "x ten", "a"), node("Cast", "a", "i", to=7), node("Div", "i three", "d"),
            node("Mod", "i three", "m"), node("Mod", "i three", "n", fmod=1), node("Concat", "d m n", "c", axis=1),
            node("Cast", "c", "y", to=1)],
            lambda x, **_: (lambda i: np.concatenate([np.trunc(i / 3), np.mod(i, 3), np.fmod(i, 3)], 1))(np.trunc(10 * x)),
            {"ten": np.float32(10), "three": np.int64(3)}),
    Foreign("whole numbers as others", [node("Cast", "x", "i", to=7), node("Cast", "i", "f", to=1), node("Div", "f x", "y")],
            lambda x: np.trunc(x) / x, positive=True),
    *[Foreign(f"{kind} {axis} {given}", [node(kind, "x", "i", axis=axis, **given), node("Cast", "i", "y", to=1)],
              lambda x, axis=axis, kind=kind, given=given: found_places(x, kind, axis, **given), {}, (3, 4))
      for kind in ("ArgMax", "ArgMin") for axis, given in ((1, {}), (-1, {"keepdims": 0}), (2, {"select_last_index": 1}))],
    # what follows a detector: the best of all places and classes, and the boxes there
    Foreign("a detector", [node("Sigmoid", "x", "p"), node("ReduceMax", "p two", "s", keepdims=0),
            node("TopK", "s k", "best place", axis=1), node("Unsqueeze", "place two", "u"), node("Expand", "u four", "e"),
            node("GatherElements", "x e", "b", axis=1), node("Unsqueeze", "best two", "v"), node("Concat", "b v", "y", axis=2)],
            lambda x, **_: (lambda s: (lambda place: np.concatenate(
                [np.take_along_axis(x, place[..., None], 1), np.take_along_axis(s, place, 1)[..., None]], 2))(
                    (-s).argsort(1, kind="stable")[:, :3]))(sigmoid(x).max(2)),
            {"two": np.int64([2]), "k": np.int64([3]), "four": np.int64([1, 1, 4])}, (6, 4)),
    Foreign("classes of the best of all", [node("Flatten", "x", "f"), node("TopK", "f k", "best place", largest=0),
            node("Mod", "place four", "m"), node("Div", "place four", "d"), node("Concat", "m d", "c", axis=1),
            node("Cast", "c", "y", to=1)],
            lambda x, **_: (lambda place: np.concatenate([place % 4, place // 4], 1))(x.reshape(len(x), -1).argsort(1)[:, :5]),
            {"four": np.int64(4), "k": np.int64([5])}, (3, 4)),
    *[Foreign(f"attention, {name}",
              [node("Split", "x", "q k v", axis=1, num_outputs=3), node("Attention", inputs, "y", **given)],
              lambda x, name=name, **tensors: heads_of(x, name, tensors.get("m")), tensors, (3, 5, 4), 23)
      for name, inputs, given, tensors in (
          ("plain", "q k v", {}, {}),
          ("causal", "q k v", {"is_causal": 1}, {}),
          ("scaled", "q k v", {"scale": 0.25}, {}),
          ("softcap", "q k v", {"softcap": 0.5}, {}),
          ("added", "q k v m", {}, {"m": drawn(5, 5)}),
          ("masked", "q k v m", {}, {"m": np.tri(5, dtype=bool)}),
          ("masked, the first without any", "q k v m", {}, {"m": np.tri(5, k=-1, dtype=bool)}),
          ("masked and causal, some without any", "q k v m", {"is_causal": 1}, {"m": np.tri(5, dtype=bool)[::-1]}),
          ("masked and causal", "q k v m", {"is_causal": 1}, {"m": np.eye(5, dtype=bool)[::-1] | np.eye(5, dtype=bool)}),
      )],
    Foreign("attention of joined heads, of which two share keys", [node("Split", "x sizes", "q k v", axis=2),
            node("Attention", "q k v", "y", q_num_heads=4, kv_num_heads=2)], shared_heads,
            {"sizes": np.int64([8, 4, 4])}, (5, 16), 23),
    Foreign("attention that goes on", [node("Split", "x", "a b", axis=2, num_outputs=2),
            node("Attention", "a a a", "one keys values"), node("Attention", "b b b - keys values", "two longer more"),
            node("Concat", "two longer more", "y", axis=2)],
            continued, {}, (1, 6, 4), 23),
    Foreign("running sums", [node("CumSum", "x axis", "a"), node("CumSum", "a axis", "y", exclusive=1, reverse=1)],
            lambda x, axis: (lambda a: a.sum(1, keepdims=True) - np.cumsum(a, 1))(np.cumsum(x, 1)),
            {"axis": np.int64(1)}, (4, 3)),
    *[Foreign(f"nearest cells by {scales[2:]}, {how}, {rounding}",
              [node("Resize", "x roi scales", "y", coordinate_transformation_mode=how, nearest_mode=rounding)],
              lambda x, rows=rows, columns=columns, **_: x[:, :, rows][..., columns],
              {"roi": np.float32([]), "scales": np.float32(scales)}, (2, 3, 4))
      for scales, how, rounding, rows, columns in (
          ([1, 1, 4 / 3, 1.5], "asymmetric", "floor", [0, 0, 1, 2], [0, 0, 1, 2, 2, 3]),
          ([1, 1, 1, 0.5], "half_pixel", "round_prefer_floor", [0, 1, 2], [0, 2]),
          ([1, 1, 2, 1.25], "half_pixel", "round_prefer_ceil", [0, 0, 1, 1, 2, 2], [0, 1, 2, 2, 3]),
          ([1, 1, 5 / 3, 1], "align_corners", "ceil", [0, 1, 1, 2, 2], [0, 1, 2, 3]),
      )],
    *[Foreign(f"cubic cells, {how} {given}", [node("Resize", "x roi scales", "y", mode="cubic",
              coordinate_transformation_mode=how, **given)],
              lambda x, places=places, given=given, **_: cubic(x, places, **given),
              {"roi": np.float32([]), "scales": np.float32([1, 1, 1, scale])}, (2, 3, 4))
      for how, scale, places, given in (
          ("half_pixel", 2.5, (np.arange(10) + 0.5) / 2.5 - 0.5, {}),
          ("half_pixel", 0.5, np.array([0.5, 2.5]), {"exclude_outside": 1}),
          ("pytorch_half_pixel", 1.5, (np.arange(6) + 0.5) / 1.5 - 0.5, {"cubic_coeff_a": -0.5}),
          ("align_corners", 1.75, np.arange(7) / 2, {}),
          ("asymmetric", 2.0, np.arange(8) / 2, {"exclude_outside": 1, "cubic_coeff_a": -0.5}),
      )],
    *[Foreign(f"linear cells, {how}", [node("Resize", "x roi scales", "y", mode="linear", coordinate_transformation_mode=how)],
              lambda x, how=how, **_: enlarged(x, how),
              {"roi": np.float32([]), "scales": np.float32([1, 1, 2, 2.5])}, (2, 3, 4))
      for how in ("half_pixel", "align_corners", "asymmetric")],
]  # fmt: skip

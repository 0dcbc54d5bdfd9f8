"""Operators of images and sequences: convolution, pooling, padding and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn import operation
from nn.arrays import LENGTH
from nn.onnx.axes import channels_first, channels_last
from nn.onnx.exporter import Convert, Exporter
from nn.operation.convolution import Convolution, TransposedConvolution
from nn.operation.convolution.window import Window, place
from nn.operation.pooling import Pool
from nn.value.value import Node, Value, Variable


def pad(out: Exporter, node: Node, found: operation.Pad) -> str:
    rest = [(0, 0)] * (len(node.shape) - 1 - len(found.widths))
    before, behind = zip((0, 0), *found.widths, *rest, strict=True)
    return out.add("Pad", out.name(node.inputs[0]), out.integers([*before, *behind]))


def repeat(out: Exporter, node: Node, found: operation.Repeat) -> str:
    scales = np.ones(len(node.shape), np.float32)
    scales[1 : 1 + len(found.times)] = found.times
    # So that cell i of the result is cell i // times, with no other cell mixed in.
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return out.add("Resize", out.name(node.inputs[0]), "", out.store(scales, "scales"), **how)


def _kernel(out: Exporter, value: Value) -> str:
    """Return a kernel (cells, ..., a, b) as ONNX has it, (b, a, cells, ...)."""
    axes = len(value.shape) - 2
    order = (axes + 1, axes, *range(axes))
    if isinstance(value, Variable):
        return out.tensor(value.value.transpose(order), value.name)
    return out.orders.turned(out.name(value), order)


def convolved(out: Exporter, node: Node, found: Convolution) -> str:
    x, kernel, *bias = node.inputs
    windows = place("Convolution", x.shape[1:-1], kernel.shape[:-2], found.strides, found.padding, found.dilations)
    made = out.add(
        "Conv", out.orders.turned(out.name(x), channels_first(len(x.shape))), _kernel(out, kernel), *map(out.name, bias),
        strides=list(found.strides), dilations=list(found.dilations), group=found.groups,
        kernel_shape=list(kernel.shape[:-2]), **_pads(out.owner, windows, found.padding),
    )  # fmt: skip
    if found.rectified:
        made = out.add("Relu", made)
    return out.orders.turned(made, channels_last(len(x.shape)))


def _pads(owner: str, windows: Sequence[Window], padding: object) -> dict[str, Any]:
    """Return the padding of windows: cells before and behind or, for axes of any length, the rule.

    Args:
        owner: name of the layer, for the error.
        windows: one for each axis.
        padding: of the layer.

    Raises:
        ValueError: for windows without a rule that programs know.
    """
    if any(window.length == LENGTH for window in windows):
        if padding == "same":
            # onnxruntime has no rule for windows with dilations.
            if all(window.dilation == 1 for window in windows):
                return {"auto_pad": "SAME_UPPER"}
            if any(window.stride > 1 and window.length == LENGTH for window in windows):
                raise ValueError(
                    f"{owner}: padding='same' with strides and dilations needs lengths that are known, as onnxruntime "
                    "has no rule for it, got an axis of any length"
                )
            # With steps of one cell as many for every length.
            before = [(window.span - 1) // 2 if window.length == LENGTH else window.before for window in windows]
            after = [window.span // 2 if window.length == LENGTH else window.after for window in windows]
            return {"pads": [*before, *after]}
        cells = padding if isinstance(padding, int) else 0
        windows = [window._replace(before=cells, after=cells) for window in windows]
        if padding == "causal":
            windows = [window._replace(before=window.span - 1) for window in windows]
    return {"pads": [*(window.before for window in windows), *(window.after for window in windows)]}


def transposed(out: Exporter, node: Node, found: TransposedConvolution) -> str:
    x, kernel = node.inputs
    windows = found._place(x.shape, kernel.shape)
    # Cells behind are cut off or, where there are too few, added as zeros.
    rest = [
        (count - 1) * window.stride + window.size - window.before - window.length
        for window, count in zip(windows, x.shape[1:-1], strict=True)
    ]
    made = out.add(
        "ConvTranspose", out.orders.turned(out.name(x), channels_first(len(x.shape))), _kernel(out, kernel),
        strides=list(found.strides), kernel_shape=list(kernel.shape[:-2]),
        pads=[*(window.before for window in windows), *(max(cells, 0) for cells in rest)],
        output_padding=[max(-cells, 0) for cells in rest],
    )  # fmt: skip
    return out.orders.turned(made, channels_last(len(x.shape)))


def pool(kind: str, **given: Any) -> Convert:
    def made(out: Exporter, node: Node, found: Pool) -> str:
        shape = node.inputs[0].shape
        pads = _pads(out.owner, place(kind, shape[1:-1], found.size, found.strides, found.padding), found.padding)
        first = out.orders.turned(out.name(node.inputs[0]), channels_first(len(shape)))
        pooled = out.add(kind, first, kernel_shape=list(found.size), strides=list(found.strides), **pads, **given)
        return out.orders.turned(pooled, channels_last(len(shape)))

    return made

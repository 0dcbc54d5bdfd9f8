"""Convolution and pooling: operations and layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nn import activation, layer
from nn.arrays import Array
from nn.operation import PoolAverage, PoolMax
from nn.operation.convolution import Convolution, RectifiedConvolution, TransposedConvolution
from nn.value import Value, Variable
from tests.contract.nn_rows.graph_row import GraphRow, with_variable


def pads(length: int, size: int, stride: int, padding: str | int) -> tuple[int, int]:
    """Return the cells added before and after an axis, as the manual of TensorFlow says for 'same'."""
    if isinstance(padding, int):
        return padding, padding
    missing = max((math.ceil(length / stride) - 1) * stride + size - length, 0) if padding == "same" else 0
    return missing // 2, missing - missing // 2


def windows(x: Array, size: Sequence[int], stride: Sequence[int], padding: str | int, fill: float) -> Array:
    """Return (batch, height', width', channels, kh, kw)."""
    around = [pads(length, *each, padding) for length, *each in zip(x.shape[1:3], size, stride, strict=True)]
    padded = np.pad(x, [(0, 0), *around, (0, 0)], constant_values=fill)
    every = np.lib.stride_tricks.sliding_window_view(padded, tuple(size), axis=(1, 2))
    return every[:, :: stride[0], :: stride[1]]


def convolved(
    stride: Sequence[int] = (1, 1), padding: str | int = "valid", groups: int = 1, dilation: Sequence[int] = (1, 1)
) -> Callable[..., Array]:
    """Return the convolution as a sum over each window, group by group; zeros between the cells of the kernel dilate it."""

    def value(x: Array, kernel: Array, bias: Array | float = 0.0) -> Array:
        kernel = spread(kernel, dilation)
        parts = []
        for part, taps in zip(np.split(x, groups, axis=-1), np.split(kernel, groups, axis=-1), strict=True):
            parts.append(np.einsum("nijckl,klcf->nijf", windows(part, kernel.shape[:2], stride, padding, 0), taps))
        return np.concatenate(parts, axis=-1) + bias

    return value


def spread(array: Array, step: Sequence[int]) -> Array:
    """Return (height, width, ...) with `step` - 1 zeros between neighbours along the first two axes."""
    wide = np.zeros(([(n - 1) * each + 1 for n, each in zip(array.shape[:2], step, strict=True)]) + list(array.shape[2:]))
    wide[:: step[0], :: step[1]] = array
    return wide


def transposed(stride: Sequence[int], cut: Callable[[int, int, int], tuple[int, int]]) -> Callable[..., Array]:
    """Return the sum of a kernel for each cell of x; `cut` gives (first cell, number of cells) that stay of each axis."""

    def value(x: Array, kernel: Array, bias: Array | float = 0.0) -> Array:
        kept = [cut(n, k, s) for n, k, s in zip(x.shape[1:3], kernel.shape[:2], stride, strict=True)]
        lengths = [
            max((n - 1) * s + k, a + m) for n, k, s, (a, m) in zip(x.shape[1:3], kernel.shape[:2], stride, kept, strict=True)
        ]
        y = np.zeros((len(x), *lengths, kernel.shape[2]))
        for i, j in np.ndindex(*x.shape[1:3]):
            rows, columns = slice(i * stride[0], None), slice(j * stride[1], None)
            y[:, rows, columns][:, : kernel.shape[0], : kernel.shape[1]] += np.einsum("nc,klfc->nklf", x[:, i, j], kernel)
        (top, height), (left, width) = kept
        return y[:, top : top + height, left : left + width] + bias

    return value


def whole(n: int, k: int, s: int) -> tuple[int, int]:
    """Keras's deconv_output_length for 'valid'."""
    return 0, n * s + max(k - s, 0)


def same(n: int, k: int, s: int) -> tuple[int, int]:
    """That for 'same'; of an odd number of cells one more is cut off behind."""
    return max(k - s, 0) // 2, n * s


def depthwise(value: Callable[..., Array]) -> Callable[..., Array]:
    """Return the convolution of a kernel (kh, kw, channels, several) with each channel as a group."""
    return lambda x, kernel, *bias: value(x, kernel.reshape(*kernel.shape[:2], 1, -1), *bias)


def separable(stride: Sequence[int], padding: str, channels: int) -> Callable[..., Array]:
    """Return the depthwise convolution, then a product with the pointwise kernel."""

    def value(x: Array, kernel: Array, mixing: Array, bias: Array | float = 0.0) -> Array:
        return depthwise(convolved(stride, padding, channels))(x, kernel) @ mixing.reshape(mixing.shape[-2:]) + bias

    return value


def causal(value: Callable[..., Array], before: int) -> Callable[..., Array]:
    """Return the same of sequences with so many zeros in front."""
    return lambda x, *variables: sequence(value)(np.pad(x, [(0, 0), (before, 0), (0, 0)]), *variables)


def sequence(value: Callable[..., Array]) -> Callable[..., Array]:
    """Return the same over sequences, as images of width 1."""
    return lambda x, kernel, *bias: value(x[:, :, None], kernel[:, None], *bias)[:, :, 0]


def pooled(
    reduce: Callable[..., Array], size: Sequence[int], stride: Sequence[int], padding: str | int = "valid"
) -> Callable[[Array], Array]:
    return lambda x: reduce(windows(x, size, stride, padding, np.nan), axis=(-2, -1))


def rectified(value: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *arguments: np.maximum(value(*arguments), 0)


def convolution(operation: Convolution, shape: Sequence[int]) -> Callable[[], Callable[[Value], Value]]:
    return with_variable(lambda x, w: x.apply(operation, w), shape)


def with_bias() -> Callable[[Value], Value]:
    kernel, bias = Variable((3, 3, 2, 4)), Variable((4,))
    return lambda x: x.apply(Convolution((1, 1), "same"), kernel, bias)


RELU = activation.ReLU()

OPERATIONS_CONVOLUTION = [
    GraphRow(Convolution, convolution(Convolution((1, 1)), (3, 2, 2, 3)), (5, 4, 2), convolved(), label="columns"),
    GraphRow(Convolution, with_bias, (5, 4, 2), convolved((1, 1), "same"), label="with bias"),
    GraphRow(
        Convolution, convolution(Convolution((2, 3), "same", 2), (3, 4, 1, 4)), (7, 6, 2),
        convolved((2, 3), "same", 2), label="even and odd sizes",
    ),
    GraphRow(
        Convolution, convolution(Convolution((1, 1), 4), (3, 3, 2, 2)), (3, 3, 2),
        convolved((1, 1), 4), label="wide padding",
    ),
    GraphRow(Convolution, convolution(Convolution((3,)), (2, 1, 8)), (9, 1), sequence(convolved((3, 1))), label="sequence"),
    GraphRow(
        Convolution, convolution(Convolution((1, 1), "same"), (3, 3, 16, 16)), (5, 8, 16),
        convolved((1, 1), "same"), label="Winograd",
    ),
    GraphRow(
        RectifiedConvolution, convolution(RectifiedConvolution((1, 1), 1), (2, 2, 1, 2)), (3, 2, 1),
        rectified(convolved((1, 1), 1)), label="columns",
    ),
    GraphRow(
        RectifiedConvolution, convolution(RectifiedConvolution((1, 1)), (3, 3, 16, 16)), (6, 5, 16),
        rectified(convolved()), label="Winograd",
    ),
    GraphRow(
        Convolution, convolution(Convolution((1, 2), "same", 1, (2, 3)), (3, 2, 2, 3)), (5, 7, 2),
        convolved((1, 2), "same", 1, (2, 3)), label="dilated",
    ),
    GraphRow(
        TransposedConvolution, convolution(TransposedConvolution((2, 3), "same"), (3, 2, 3, 2)), (3, 4, 2),
        transposed((2, 3), same),
    ),
    GraphRow(
        TransposedConvolution, convolution(TransposedConvolution((2,), 1, (1,)), (4, 3, 2)), (5, 2),
        sequence(transposed((2, 1), lambda n, k, s: (0, 1) if s == 1 else (1, (n - 1) * s + k - 1))), label="sequence",
    ),
    GraphRow(PoolMax, lambda: PoolMax((2, 2), (2, 2)), (4, 6, 2), pooled(np.nanmax, (2, 2), (2, 2))),
    GraphRow(PoolAverage, lambda: PoolAverage((2, 2), (2, 2)), (4, 6, 2), pooled(np.nanmean, (2, 2), (2, 2))),
]  # fmt: skip

LAYERS_CONVOLUTION = [
    GraphRow(layer.Conv2D, lambda: layer.Conv2D(3), (5, 4, 2), convolved()),
    GraphRow(layer.Conv2D, lambda: layer.Conv2D(4, [1, 1], stride=2), (5, 4, 3), convolved((2, 2)), label="1x1"),
    GraphRow(
        layer.Conv2D, lambda: layer.Conv2D(4, kernel_size=2, padding="same", use_bias=False), (5, 4, 2),
        convolved((1, 1), "same"), label="without bias, even",
    ),
    GraphRow(
        layer.Conv2D, lambda: layer.Conv2D(4, [5, 3], [1, 2], padding=2, groups=2, activation=activation.Tanh()), (4, 5, 6),
        lambda *arguments: np.tanh(convolved((1, 2), 2, 2)(*arguments)), label="groups",
    ),
    GraphRow(layer.Conv2D, lambda: layer.Conv2D(2, activation=RELU), (3, 4, 1), rectified(convolved()), label="rectified"),
    GraphRow(layer.Conv2D, lambda: layer.Conv2D(3, padding="same"), (4, 4, 20), convolved((1, 1), "same"), label="narrowing"),
    GraphRow(layer.Conv2D, lambda: layer.Conv2D(18, padding=2), (5, 6, 16), convolved((1, 1), 2), label="Winograd"),
    GraphRow(
        layer.Conv2D, lambda: layer.Conv2D(16, [5, 2], padding="same"), (5, 6, 16),
        convolved((1, 1), "same"), label="Winograd 5x2",
    ),
    GraphRow(
        layer.Conv2D, lambda: layer.Conv2D(32, [4, 3], groups=2), (6, 5, 32),
        convolved(groups=2), label="Winograd in groups",
    ),
    GraphRow(
        layer.Conv2D, lambda: layer.Conv2D(6, padding="same", groups=6), (5, 7, 6),
        convolved((1, 1), "same", 6), label="depthwise",
    ),
    GraphRow(
        layer.Conv2D, lambda: layer.Conv2D(6, stride=2, groups=3), (5, 7, 3),
        convolved((2, 2), "valid", 3), label="depthwise with two filters each",
    ),
    GraphRow(layer.Conv1D, lambda: layer.Conv1D(3), (5, 2), sequence(convolved())),
    GraphRow(
        layer.Conv1D, lambda: layer.Conv1D(4, 4, stride=2, padding="same", groups=2), (7, 2),
        sequence(convolved((2, 1), "same", 2)), label="even",
    ),
    GraphRow(
        layer.Conv1D, lambda: layer.Conv1D(2, 2, activation=RELU), (4, 1),
        sequence(rectified(convolved())), label="rectified",
    ),
    GraphRow(
        layer.Conv2D, lambda: layer.Conv2D(20, dilation=2), (6, 7, 16),
        convolved(dilation=(2, 2)), label="dilated",
    ),
    GraphRow(
        layer.Conv2D, lambda: layer.Conv2D(4, [2, 3], 2, "same", 2, dilation=[3, 1]), (7, 6, 2),
        convolved((2, 2), "same", 2, (3, 1)), label="dilated in groups",
    ),
    GraphRow(
        layer.Conv1D, lambda: layer.Conv1D(3, 3, padding="causal", dilation=2), (6, 2),
        causal(convolved(dilation=(2, 1)), 4), label="causal",
    ),
    GraphRow(layer.Conv2DTranspose, lambda: layer.Conv2DTranspose(3), (3, 4, 2), transposed((1, 1), whole)),
    GraphRow(
        layer.Conv2DTranspose, lambda: layer.Conv2DTranspose(3, [3, 4], 2, "same", activation=RELU), (4, 3, 2),
        rectified(transposed((2, 2), same)), label="same, rectified",
    ),
    GraphRow(
        layer.Conv2DTranspose, lambda: layer.Conv2DTranspose(2, [1, 2], [2, 3], use_bias=False), (4, 3, 2),
        transposed((2, 3), whole), label="with gaps",
    ),
    GraphRow(
        layer.Conv2DTranspose, lambda: layer.Conv2DTranspose(2, 3, 2, 1, 1), (4, 3, 2),
        transposed((2, 2), lambda n, k, s: (1, 2 * n)), label="output padding",
    ),
    GraphRow(
        layer.Conv1DTranspose, lambda: layer.Conv1DTranspose(3, 4, 2, "same"), (5, 2),
        sequence(transposed((2, 1), same)),
    ),
    GraphRow(layer.DepthwiseConv2D, layer.DepthwiseConv2D, (5, 4, 3), depthwise(convolved(groups=3))),
    GraphRow(
        layer.DepthwiseConv2D, lambda: layer.DepthwiseConv2D([2, 3], 2, "same", 2, use_bias=False), (5, 4, 3),
        depthwise(convolved((2, 2), "same", 3)), label="two kernels each",
    ),
    GraphRow(
        layer.DepthwiseConv1D, lambda: layer.DepthwiseConv1D(2, activation=activation.Tanh()), (5, 3),
        lambda x, kernel, bias: np.tanh(depthwise(convolved(groups=3))(x[:, :, None], kernel[:, None], bias)[:, :, 0]),
    ),
    GraphRow(
        layer.SeparableConv2D, lambda: layer.SeparableConv2D(4, padding="same", depth_multiplier=2), (5, 4, 3),
        separable((1, 1), "same", 3),
    ),
    GraphRow(
        layer.SeparableConv1D, lambda: layer.SeparableConv1D(4, 2, 2, activation=RELU), (6, 3),
        lambda x, kernel, mixing, bias: rectified(separable((2, 1), "valid", 3))(
            x[:, :, None], kernel[:, None], mixing, bias
        )[:, :, 0],
    ),
    GraphRow(layer.MaxPool, layer.MaxPool, (5, 6, 3), pooled(np.nanmax, (2, 2), (2, 2))),
    GraphRow(
        layer.MaxPool, lambda: layer.MaxPool(3, 2, 1), (5, 6, 2),
        pooled(np.nanmax, (3, 3), (2, 2), 1), label="overlapping",
    ),
    GraphRow(
        layer.MaxPool, lambda: layer.MaxPool([2, 3], [1, 2], "same"), (4, 5, 2),
        pooled(np.nanmax, (2, 3), (1, 2), "same"), label="same",
    ),
    GraphRow(layer.MaxPool, lambda: layer.MaxPool(2, 3), (7, 8, 2), pooled(np.nanmax, (2, 2), (3, 3)), label="with gaps"),
    GraphRow(
        layer.MaxPool, lambda: layer.MaxPool(2), (6, 3),
        lambda x: pooled(np.nanmax, (2, 1), (2, 1))(x[:, :, None])[:, :, 0], label="sequence",
    ),
    GraphRow(layer.AveragePool, layer.AveragePool, (4, 5, 3), pooled(np.nanmean, (2, 2), (2, 2))),
    GraphRow(
        layer.AveragePool, lambda: layer.AveragePool(3, 1, 1), (4, 5, 2),
        pooled(np.nanmean, (3, 3), (1, 1), 1), label="overlapping",
    ),
    GraphRow(
        layer.AveragePool, lambda: layer.AveragePool([1, 2], padding="same"), (4, 5, 2),
        pooled(np.nanmean, (1, 2), (1, 2), "same"), label="same",
    ),
    GraphRow(
        layer.AveragePool, lambda: layer.AveragePool(3, 2), (6, 3),
        lambda x: pooled(np.nanmean, (3, 1), (2, 1))(x[:, :, None])[:, :, 0], label="sequence",
    ),
    GraphRow(layer.GlobalAveragePool, layer.GlobalAveragePool, (3, 4, 2), lambda x: x.mean(axis=(1, 2))),
    GraphRow(
        layer.GlobalAveragePool, lambda: layer.GlobalAveragePool(keepdims=True), (3, 4, 2),
        lambda x: x.mean(axis=(1, 2), keepdims=True), label="keepdims",
    ),
    GraphRow(layer.GlobalMaxPool, layer.GlobalMaxPool, (3, 4, 2), lambda x: x.max(axis=(1, 2))),
    GraphRow(
        layer.GlobalMaxPool, lambda: layer.GlobalMaxPool(True), (5, 2), lambda x: x.max(axis=1, keepdims=True),
        label="sequence, keepdims",
    ),
    GraphRow(layer.GlobalAveragePool, layer.GlobalAveragePool, (3, 2), lambda x: x.mean(axis=1), label="sequence"),
]  # fmt: skip

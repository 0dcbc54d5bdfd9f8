"""Operators of images and sequences: convolution, pooling, padding and sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nn import function, layer, operation
from nn.arrays import BATCH, LENGTH, Array
from nn.onnx.axes import channels_first, channels_last, inverse
from nn.onnx.builder import Operand
from nn.onnx.call import Call, Read
from nn.onnx.folding import Unknown, bounded, integers
from nn.onnx.nodes.shapes import cut
from nn.operation.convolution.window import place
from nn.resampling import mixing
from nn.value.value import Value


def _spatial(call: Call) -> tuple[Value, int]:
    """Return images or sequences with the channels last, and the number of their axes between batch and channels."""
    x = call.value(0)
    rank = len(x.shape)
    if rank not in (3, 4):
        raise call.refuse("nn takes (batch, channels, time) and (batch, channels, height, width)", list(x.shape))
    return call.builder.orders.turned(x, channels_last(rank)), rank - 2


def back(call: Call, y: Value) -> Value:
    return call.builder.orders.turned(y, channels_first(len(y.shape)))


def _per_axis(call: Call, name: str, axes: int, default: int) -> list[int]:
    found = [int(each) for each in call.given.get(name, [default] * axes)]
    if len(found) != axes:
        raise call.refuse(f"'{name}' must have {axes} numbers", found)
    return found


def _padding(
    call: Call, lengths: Sequence[int], size: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[Any, list[tuple[int, int]]]:
    """Return the padding of a window as layers of nn take it, None where none is so, and cells before and behind each axis."""
    rule = call.given.get("auto_pad", "NOTSET")
    axes = len(size)
    if rule == "SAME_UPPER":
        return "same", []
    if rule == "SAME_LOWER":
        windows = place(call.title, lengths, size, strides, "same", dilations)
        # An odd cell stands in front here, with SAME_UPPER and in nn behind.
        found = [(window.after, window.before) for window in windows]
    elif rule == "VALID":
        found = [(0, 0)] * axes
    elif rule != "NOTSET":
        raise call.refuse("'auto_pad' must be NOTSET, SAME_UPPER, SAME_LOWER or VALID", rule)
    else:
        pads = _per_axis(call, "pads", 2 * axes, 0)
        # First all that stand before, then all behind.
        found = list(zip(pads[:axes], pads[axes:], strict=True))
    flat = {cells for pair in found for cells in pair}
    if min(flat) < 0:
        raise call.refuse("'pads' must be at least 0", found)
    if len(flat) == 1:
        return flat.pop() or "valid", found
    if LENGTH not in lengths:
        same = place(call.title, lengths, size, strides, "same", dilations)
        if found == [(window.before, window.after) for window in same]:
            return "same", found
    return None, found


def _padded(x: Value, found: Sequence[tuple[int, int]]) -> Value:
    return x.apply(operation.Pad(found))


def convolved(call: Call) -> Operand:
    x, axes = _spatial(call)
    kernel = call.array(1)
    if kernel.ndim != axes + 2:
        raise call.refuse(f"the kernel must have {axes + 2} axes", list(kernel.shape))
    size, strides, dilations = (
        list(kernel.shape[2:]), _per_axis(call, "strides", axes, 1), _per_axis(call, "dilations", axes, 1)
    )  # fmt: skip
    padding, cells = _padding(call, x.shape[1:-1], size, strides, dilations)
    if padding is None:
        x, padding = _padded(x, cells), "valid"
    weights, sources = {"kernel": kernel.transpose(*range(2, axes + 2), 1, 0)}, [kernel]
    if call.has(2):
        weights["bias"] = call.array(2)
        sources.append(weights["bias"])
    # One operation in nn, which rectifies while the numbers are in the cache.
    relu = call.follower(call.node.output[0], "Relu")
    made = call.builder.layer(
        layer.Conv2D if axes == 2 else layer.Conv1D, weights, sources, kernel=kernel.shape[0], kernel_size=size,
        stride=strides, padding=padding, groups=int(call.given.get("group", 1)), use_bias=call.has(2), dilation=dilations,
        activation=None if relu is None else "relu",
    )  # fmt: skip
    found = back(call, made(x))
    if relu is not None:
        call.take(relu, found)
    return found


def transposed(call: Call) -> Operand:
    x, axes = _spatial(call)
    kernel = call.array(1)
    strides, size = _per_axis(call, "strides", axes, 1), list(kernel.shape[2:])
    extra = _per_axis(call, "output_padding", axes, 0)
    for name, usual in (("group", 1), ("dilations", [1] * axes), ("output_shape", None)):
        if call.given.get(name, usual) != usual:
            raise call.refuse(f"nn has transposed convolutions with '{name}' {usual} only", call.given[name])
    rule = call.given.get("auto_pad", "NOTSET")
    if rule not in ("NOTSET", "VALID"):
        raise call.refuse("'auto_pad' must be NOTSET or VALID", rule)
    pads = _per_axis(call, "pads", 2 * axes, 0)
    weights, sources = {"kernel": kernel.transpose(*range(2, axes + 2), 1, 0)}, [kernel]
    if call.has(2):
        weights["bias"] = call.array(2)
        sources.append(weights["bias"])
    # Cells in front are cut off behind the layer; those behind are what its own padding and additions leave.
    cut = min(pads)
    found = call.builder.layer(
        layer.Conv2DTranspose if axes == 2 else layer.Conv1DTranspose, weights, sources, kernel=kernel.shape[1],
        kernel_size=size, stride=strides, padding=cut, output_padding=extra, use_bias=call.has(2),
    )  # fmt: skip
    made: Value = found(x)
    ends = [
        slice(before - cut, length - (behind - cut))
        for before, behind, length in zip(pads[:axes], pads[axes:], made.shape[1:-1], strict=True)
    ]
    return back(call, made[(slice(None), *ends)] if set(pads) != {cut} else made)


def pool(kind: type[Any]) -> Read:
    def read(call: Call) -> Operand:
        x, axes = _spatial(call)
        size, strides = [int(each) for each in call.given["kernel_shape"]], _per_axis(call, "strides", axes, 1)
        dilations = _per_axis(call, "dilations", axes, 1)
        if dilations != [1] * axes:
            raise call.refuse("nn pools without 'dilations'", dilations)
        lengths = x.shape[1:-1]
        padding, cells = _padding(call, lengths, size, strides, dilations)
        # With a rule for the padding the windows are counted by it.
        if call.given.get("ceil_mode", 0) and cells:
            if LENGTH in lengths:
                raise call.refuse("'ceil_mode' needs lengths that are known; give 'shapes'", list(x.shape))
            wider = _cells_of_whole(lengths, size, strides, cells)
        else:
            wider = cells
        average = kind is operation.PoolAverage
        counted = average and bool(call.given.get("count_include_pad", 0))
        if padding is not None and wider == cells and not (counted and padding != "valid"):
            return back(call, x.apply(kind(size, strides, padding)))
        if average and not counted and LENGTH in lengths:
            raise call.refuse("padding that does not count must be the same on all sides where a length is open", list(x.shape))
        if padding == "same" and not cells:
            cells = wider = _cells_of_same(call, x, size, strides)
        if not average:
            # Less than every number: what stands there is never the greatest of a window with another one.
            return back(call, _around(call, x, wider, -math.inf).apply(kind(size, strides, "valid")))
        found = _padded(x, wider).apply(kind(size, strides, "valid"))
        shares = _shares(lengths, size, strides, wider, cells if counted else [(0, 0)] * axes)
        return back(call, found if shares is None else found * call.builder.value(shares))

    return read


def _shares(
    lengths: Sequence[int],
    size: Sequence[int],
    strides: Sequence[int],
    wider: Sequence[tuple[int, int]],
    counted: Sequence[tuple[int, int]],
) -> Array | None:
    """Return the factors that make the mean over each whole window one over the cells that count; None where all are 1.

    Args:
        lengths: of the axes between batch and channels.
        size: of the window, for each axis.
        strides: of the window.
        wider: zeros before and behind each axis.
        counted: how many of them count.
    """
    if tuple(wider) == tuple(counted) or LENGTH in lengths:
        return None
    shares = np.ones(())
    for length, window, stride, around, own in zip(lengths, size, strides, wider, counted, strict=True):
        begins = np.arange((length + sum(around) - window) // stride + 1) * stride - around[0]
        inside = np.minimum(begins + window, length + own[1]) - np.maximum(begins, -own[0])
        # A window of zeros alone has the mean 0, as it is.
        shares = shares[..., np.newaxis] * (window / np.maximum(inside, 1))
    return shares[..., np.newaxis]


def _cells_of_whole(
    lengths: Sequence[int], size: Sequence[int], strides: Sequence[int], cells: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the cells before and behind each axis with which a window that reaches beyond the end is a whole one."""
    found = []
    for length, window, stride, (before, behind) in zip(lengths, size, strides, cells, strict=True):
        last = -(-(length + before + behind - window) // stride)
        # One that begins behind the last pixel is left out.
        if last * stride >= length + before:
            last -= 1
        found.append((before, max(behind, last * stride + window - length - before)))
    return found


def _cells_of_same(call: Call, x: Value, size: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    windows = place(call.title, x.shape[1:-1], size, strides, "same")
    return [(window.before, window.after) for window in windows]


def _around(call: Call, x: Value, widths: Sequence[tuple[int, int]], number: float) -> Value:
    """Return x with a number around it, along the axes after the batch."""
    padded = _padded(x, widths)
    if number == 0:
        return padded
    pairs = [(0, 0), *widths, *[(0, 0)] * (len(x.shape) - 1 - len(widths))]
    # Axes without cells around them broadcast.
    bounded([length + sum(pair) if sum(pair) else 1 for length, pair in zip(x.shape, pairs, strict=True)])
    inside = np.pad(np.ones([length if sum(pair) else 1 for length, pair in zip(x.shape, pairs, strict=True)]), pairs)
    # A file of nn holds finite numbers alone.
    return function.where(call.builder.value(inside), padded, max(number, float(np.finfo(np.float32).min)))


def pad(call: Call) -> Operand:
    x = call.value(0)
    rank, mode = len(x.shape), call.given.get("mode", "constant")
    pads = call.numbers(1, "pads") or []
    axes = integers(call.array(3)) if call.has(3) else list(range(rank))
    if len(pads) != 2 * len(axes):
        raise call.refuse(f"'pads' must be {2 * len(axes)} numbers", pads)
    number = float(call.array(2).reshape(-1)[0]) if call.has(2) else float(call.given.get("value", 0.0))
    widths = dict(
        zip((call.axis(axis, rank) for axis in axes), zip(pads[: len(axes)], pads[len(axes) :], strict=True), strict=True)
    )
    # Negative ones cut off.
    x = cut(call, x, {
        axis: slice(max(-before, 0), x.shape[axis] - max(-behind, 0))
        for axis, (before, behind) in widths.items() if min(before, behind) < 0
    })  # fmt: skip
    widths = {axis: (max(before, 0), max(behind, 0)) for axis, (before, behind) in widths.items() if max(before, behind) > 0}
    if any(x.shape[axis] == BATCH for axis in widths):
        raise call.refuse("the samples cannot become more", pads)
    if mode == "constant":
        source, order = call.builder.orders.source(x)
        order = order or tuple(range(rank))
        if source.shape[0] != BATCH:
            raise call.refuse("the samples must be the first axis", list(x.shape))
        by_source = {order[axis]: pair for axis, pair in widths.items()}
        around = [by_source.get(axis, (0, 0)) for axis in range(1, rank)]
        return call.builder.orders.turned(_around(call, source, around, number), order) if widths else x
    for axis, (before, behind) in widths.items():
        length = x.shape[axis]
        if length == LENGTH:
            raise call.refuse(f"axis {axis} must have a length that is known; give 'shapes'", list(x.shape))
        if mode not in ("edge", "reflect", "wrap") or (mode == "reflect" and max(before, behind) >= length):
            raise call.refuse(
                f"'{mode}' must be constant, edge, reflect or wrap, of fewer cells than the axis has", list(x.shape)
            )
        # Cells are named again: a mirror needs no operation of its own.
        bounded((length + before + behind,))
        key: list[Any] = [slice(None)] * axis
        x = x[(*key, np.pad(np.arange(length), (before, behind), mode=mode))]
    return x


def resize(call: Call) -> Operand:
    x = call.value(0)
    mode = call.given.get("mode", "nearest")
    rank = len(x.shape)
    scales = _scales(call, x)
    if mode == "linear":
        return _mixed(call, x, scales)
    whole = [round(each) for each in scales]
    how = (call.given.get("coordinate_transformation_mode", "half_pixel"), call.given.get("nearest_mode", "round_prefer_floor"))
    # By a whole number each of these repeats cells.
    fits = call.node.op_type == "Upsample" or call.version < 11 or how in (
        ("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil"),
        ("half_pixel", "floor"),
    )  # fmt: skip
    # With centres at halves, floor takes the cell before for some, which is no repetition.
    if how == ("half_pixel", "floor") and any(each > 1 for each in whole):
        fits = False
    exact = all(math.isclose(each, count) and count >= 1 for each, count in zip(scales, whole, strict=True))
    if mode == "nearest" and not (exact and fits):
        return _nearest(call, x, scales)
    if mode != "nearest":
        raise call.refuse("'mode' must be nearest or linear", [mode, *how, *scales])
    source, order = call.builder.orders.source(x)
    order = order or tuple(range(rank))
    times = [whole[order.index(axis)] for axis in range(rank)]
    if times[0] != 1:
        raise call.refuse("the samples cannot become more", scales)
    return call.builder.orders.turned(source.apply(operation.Repeat(times[1:])), order)


def _nearest(call: Call, x: Value, scales: Sequence[float]) -> Value:
    """Return x with other numbers of cells, each of which is an old one."""
    old = call.node.op_type == "Upsample" or call.version < 11
    how = "asymmetric" if old else call.given.get("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if old else call.given.get("nearest_mode", "round_prefer_floor")
    roundings: dict[str, Callable[[Array], Array]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda places: np.ceil(places - np.float32(0.5)),
        "round_prefer_ceil": lambda places: np.floor(places + np.float32(0.5)),
    }
    if how not in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric") or rounding not in roundings:
        raise call.refuse(
            "'coordinate_transformation_mode' must be half_pixel, pytorch_half_pixel, align_corners or asymmetric, and "
            f"'nearest_mode' {', '.join(roundings)}", [how, rounding],
        )  # fmt: skip
    for axis, scale in enumerate(scales):
        if scale == 1:
            continue
        length = x.shape[axis]
        if length in (BATCH, LENGTH):
            raise call.refuse(f"axis {axis} must have a length that is known to get other cells; give 'shapes'", list(x.shape))
        # As the file has scales in float32, so have programs the places: 4 / 1.3333334 is 3 there.
        cells = math.floor(length * scale * (1 + 1e-6))
        bounded((cells,))
        new = np.arange(cells, dtype=np.float32)
        if how == "align_corners":
            places = new * np.float32((length - 1) / max(cells - 1, 1))
        elif how == "asymmetric":
            places = new / np.float32(scale)
        else:
            half = np.float32(0.5 if how == "half_pixel" or cells > 1 else 0)
            places = (new + half) / np.float32(scale) - half
        found = np.clip(roundings[rounding](places), 0, length - 1).astype(np.int64)
        key: list[Any] = [slice(None)] * axis
        x = x[(*key, found)]
    return x


def _mixed(call: Call, x: Value, scales: Sequence[float]) -> Value:
    """Return x with other numbers of cells, each a mixture of the nearest ones."""
    how = call.given.get("coordinate_transformation_mode", "half_pixel")
    usual = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    # The older operators know no other way.
    how = "asymmetric" if call.node.op_type == "Upsample" or call.version < 11 else how
    if how not in usual or call.given.get("antialias", 0):
        raise call.refuse(f"'coordinate_transformation_mode' must be {', '.join(usual)}, without 'antialias'", how)
    for axis, scale in enumerate(scales):
        if scale == 1:
            continue
        length = x.shape[axis]
        # Scales stand in the file as float32.
        if length in (BATCH, LENGTH) or not math.isclose(length * scale, round(length * scale), rel_tol=1e-6):
            raise call.refuse("'scales' must give whole numbers of cells", [length, scale])
        cells = round(length * scale)
        order = [*(each for each in range(len(x.shape)) if each != axis), axis]
        last = call.builder.orders.turned(x, order) @ call.builder.value(_mixing(how, length, cells).T.copy())
        x = call.builder.orders.turned(last, inverse(order))
    return x


def _mixing(how: str, length: int, cells: int) -> Array:
    """Return the matrix (cells, length) of linear interpolation by the places of the new cells among the old ones."""
    bounded((length, cells))
    if how == "half_pixel" or (how == "pytorch_half_pixel" and cells > 1):
        return mixing(length, cells)
    step = (length - 1) / max(cells - 1, 1) if how == "align_corners" else length / cells
    # The one cell of the other form of half pixels lies at the first one.
    places = np.arange(cells) * (0 if how == "pytorch_half_pixel" else step)
    apart = np.abs(np.clip(places, 0, length - 1)[:, np.newaxis] - np.arange(length))
    return np.asarray(np.maximum(0, 1 - apart))


def _scales(call: Call, x: Value) -> list[float]:
    rank = len(x.shape)
    # From version 11 on a region of interest stands between x and the scales.
    place_of_scales = 1 if call.node.op_type == "Upsample" or call.version < 11 else 2
    axes = [call.axis(axis, rank) for axis in call.given.get("axes", range(rank))]
    found = [1.0] * rank
    # Without elements it stands for none, and there are sizes.
    if call.has(place_of_scales) and call.array(place_of_scales).size:
        given = [float(each) for each in call.array(place_of_scales).flat]
    elif "scales" in call.given:
        given = [float(each) for each in call.given["scales"]]
    else:
        sizes = list(call.array(3).flat)
        if len(sizes) != len(axes):
            raise call.refuse(f"'sizes' must be {len(axes)} numbers", sizes)
        given = [
            1.0 if isinstance(size, Unknown) or x.shape[axis] in (BATCH, LENGTH) else int(size) / x.shape[axis]
            for size, axis in zip(sizes, axes, strict=True)
        ]
    if len(given) != len(axes):
        raise call.refuse(f"'scales' must be {len(axes)} numbers", given)
    for axis, scale in zip(axes, given, strict=True):
        found[axis] = scale
    return found


def depth_to_space(call: Call) -> Operand:
    x, size = call.value(0), int(call.given["blocksize"])
    if len(x.shape) != 4 or x.shape[0] != BATCH or LENGTH in x.shape or x.shape[1] % size**2:
        raise call.refuse(f"expected (batch, channels, height, width) with channels of {size}^2", list(x.shape))
    _, channels, height, width = x.shape
    less = channels // size**2
    if call.given.get("mode", "DCR") == "CRD":
        apart = x.reshape(BATCH, less, size, size, height, width).transpose(0, 1, 4, 2, 5, 3)
    else:
        apart = x.reshape(BATCH, size, size, less, height, width).transpose(0, 3, 4, 1, 5, 2)
    return apart.reshape(BATCH, less, height * size, width * size)


def space_to_depth(call: Call) -> Operand:
    x, size = call.value(0), int(call.given["blocksize"])
    if len(x.shape) != 4 or x.shape[0] != BATCH or LENGTH in x.shape or x.shape[2] % size or x.shape[3] % size:
        raise call.refuse(f"expected (batch, channels, height, width) of whole blocks of {size}", list(x.shape))
    _, channels, height, width = x.shape
    blocks = x.reshape(BATCH, channels, height // size, size, width // size, size)
    # 'mode' came with version 28.
    mode = call.given.get("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise call.refuse("expected 'mode' DCR or CRD", mode)
    first = (1, 3, 5) if mode == "CRD" else (3, 5, 1)
    apart = blocks.transpose(0, *first, 2, 4)
    return apart.reshape(BATCH, channels * size**2, height // size, width // size)

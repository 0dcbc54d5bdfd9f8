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
    # Not each of them reaches an operation of nn that would look at it.
    if name in ("strides", "dilations", "kernel_shape") and min(found, default=1) < 1:
        raise call.refuse(f"'{name}' must be at least 1", found)
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
    if kernel.ndim != axes + 2:
        raise call.refuse(f"the kernel must have {axes + 2} axes", list(kernel.shape))
    strides, size = _per_axis(call, "strides", axes, 1), list(kernel.shape[2:])
    extra = _per_axis(call, "output_padding", axes, 0)
    dilations, groups = _per_axis(call, "dilations", axes, 1), int(call.given.get("group", 1))
    if groups < 1 or len(kernel) % groups:
        raise call.refuse(f"'group' must divide the {len(kernel)} channels", groups)
    pads = _cut_off(call, x.shape[1:-1], [span * (cells - 1) + 1 for span, cells in zip(dilations, size, strict=True)], extra)
    if groups > 1 or max(dilations) > 1:
        spans = [dilation * (cells - 1) for dilation, cells in zip(dilations, size, strict=True)]
        around = [(span - before, span - behind + more)
                  for span, before, behind, more in zip(spans, pads[:axes], pads[axes:], extra, strict=True)]  # fmt: skip
        return back(call, _as_convolution(call, x, strides, dilations, groups, around))
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


def _cut_off(call: Call, lengths: Sequence[int], spans: Sequence[int], extra: Sequence[int]) -> list[int]:
    """Return how many cells of a transposed convolution are cut off, first all in front, then all behind.

    Args:
        call: of the node.
        lengths: of the axes of the input.
        spans: cells from the first to the last one of the kernel.
        extra: cells that are added behind.
    """
    axes = len(spans)
    rule, strides = call.given.get("auto_pad", "NOTSET"), _per_axis(call, "strides", axes, 1)
    if rule not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise call.refuse("'auto_pad' must be NOTSET, SAME_UPPER, SAME_LOWER or VALID", rule)
    if "output_shape" not in call.given and not rule.startswith("SAME"):
        return [0] * (2 * axes) if rule == "VALID" else _per_axis(call, "pads", 2 * axes, 0)
    if LENGTH in lengths:
        raise call.refuse("the size of the result needs lengths that are known; give 'shapes'", list(lengths))
    usual = [length * stride for length, stride in zip(lengths, strides, strict=True)]
    # Some give batch and channels, too.
    wanted = [int(each) for each in call.given.get("output_shape", usual)][-axes:]
    if len(wanted) != axes:
        raise call.refuse(f"'output_shape' must have {axes} numbers", wanted)
    whole = [
        (length - 1) * stride + more + span for length, stride, more, span in zip(lengths, strides, extra, spans, strict=True)
    ]
    rest = [cells - own for cells, own in zip(whole, wanted, strict=True)]
    if min(rest) < 0:
        which = "'output_shape'" if "output_shape" in call.given else f"the size of the result, {rule} by the strides,"
        raise call.refuse(f"{which} must be at most {whole}", wanted)
    fewer, more_cells = [cells // 2 for cells in rest], [cells - cells // 2 for cells in rest]
    return [*fewer, *more_cells] if rule == "SAME_UPPER" else [*more_cells, *fewer]


def _as_convolution(
    call: Call, x: Value, strides: Sequence[int], dilations: Sequence[int], groups: int, around: Sequence[tuple[int, int]]
) -> Value:
    """Return a transposed convolution as one with the kernel turned round, of x with zeros between its cells.

    Args:
        call: of the node.
        x: images or sequences, channels last.
        strides: of the transposed convolution: so far apart are the cells of x.
        dilations: of the kernel.
        groups: of the channels.
        around: zeros before and behind each axis; less than 0 cuts off.
    """
    kernel, axes = call.array(1), len(strides)
    # From (channels, filters of a group, cells) to (filters, channels of a group, cells).
    inner, outer, *size = kernel.shape
    turned = kernel.reshape(groups, inner // groups, outer, *size).swapaxes(1, 2).reshape(groups * outer, -1, *size)
    turned = np.flip(turned, tuple(range(2, axes + 2)))
    weights, sources = {"kernel": turned.transpose(*range(2, axes + 2), 1, 0)}, [kernel]
    if call.has(2):
        weights["bias"] = call.array(2)
        sources.append(weights["bias"])
    lengths, channels = x.shape[1:-1], x.shape[-1]
    if LENGTH in lengths and (max(strides) > 1 or min(map(min, around)) < 0):
        raise call.refuse("groups, or dilations, need lengths that are known; give 'shapes'", list(x.shape))
    if max(strides) > 1:
        apart: Value = x.reshape(BATCH, *[each for length in lengths for each in (length, 1)], channels)
        # A row of zeros behind each cell, also behind the last one.
        apart = _padded(apart, [pair for stride in strides for pair in ((0, 0), (0, stride - 1))])
        x = apart.reshape(BATCH, *(length * stride for length, stride in zip(lengths, strides, strict=True)), channels)
        around = [(before, behind - stride + 1) for (before, behind), stride in zip(around, strides, strict=True)]
    if min(map(min, around)) < 0:
        ends = [
            slice(max(-before, 0), length - max(-behind, 0))
            for (before, behind), length in zip(around, x.shape[1:-1], strict=True)
        ]
        x = x[(slice(None), *ends)]
        around = [(max(before, 0), max(behind, 0)) for before, behind in around]
    found = call.builder.layer(
        layer.Conv2D if axes == 2 else layer.Conv1D, weights, sources, kernel=groups * outer, kernel_size=size,
        stride=1, padding="valid", groups=groups, use_bias=call.has(2), dilation=dilations,
    )  # fmt: skip
    made: Value = found(_padded(x, around) if any(map(any, around)) else x)
    return made


def pool(kind: type[Any]) -> Read:
    def read(call: Call) -> Operand:
        x, axes = _spatial(call)
        if "kernel_shape" not in call.given:
            raise call.refuse("'kernel_shape' must be given", None)
        size, strides = _per_axis(call, "kernel_shape", axes, 1), _per_axis(call, "strides", axes, 1)
        dilations = _per_axis(call, "dilations", axes, 1)
        lengths = x.shape[1:-1]
        if dilations != [1] * axes:
            if kind is not operation.PoolMax:
                raise call.refuse("nn takes means over windows without 'dilations'", dilations)
            return back(call, _greatest_apart(call, x, size, strides, dilations))
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


def _greatest_apart(call: Call, x: Value, size: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Value:
    """Return the greatest numbers of windows with cells apart, axis by axis: of slices of x, one for each cell."""
    lengths = x.shape[1:-1]
    if LENGTH in lengths:
        raise call.refuse("'dilations' need lengths that are known; give 'shapes'", list(x.shape))
    _, cells = _padding(call, lengths, size, strides, dilations)
    spans = [dilation * (count - 1) + 1 for dilation, count in zip(dilations, size, strict=True)]
    if not cells:
        windows = place(call.title, lengths, size, strides, "same", dilations)
        cells = [(window.before, window.after) for window in windows]
    elif call.given.get("ceil_mode", 0):
        cells = _cells_of_whole(lengths, spans, strides, cells)
    # Names the axis on which there is no window.
    place(
        call.title, [length + sum(pair) for length, pair in zip(lengths, cells, strict=True)], size, strides, "valid", dilations
    )
    if any(map(any, cells)):
        x = _around(call, x, cells, -math.inf)
    for axis, (span, stride, dilation) in enumerate(zip(spans, strides, dilations, strict=True), start=1):
        # Behind the begin of the last window there is no other.
        last = (x.shape[axis] - span) // stride * stride
        parts = [cut(call, x, {axis: slice(begin, begin + last + 1, stride)}) for begin in range(0, span, dilation)]
        x = parts[0]
        for part in parts[1:]:
            x = function.maximum(x, part)
    return x


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
    if mode in ("linear", "cubic"):
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
        raise call.refuse("'mode' must be nearest, linear or cubic", [mode, *how, *scales])
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
    outside, bend = bool(call.given.get("exclude_outside", 0)), float(call.given.get("cubic_coeff_a", -0.75))
    cubic = call.given.get("mode") == "cubic"
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
        mixture = _cubic(how, length, cells, bend, outside) if cubic else _mixing(how, length, cells)
        last = call.builder.orders.turned(x, order) @ call.builder.value(mixture.T.copy())
        x = call.builder.orders.turned(last, inverse(order))
    return x


def _mixing(how: str, length: int, cells: int) -> Array:
    """Return the matrix (cells, length) of linear interpolation by the places of the new cells among the old ones."""
    bounded((length, cells))
    if how == "half_pixel" or (how == "pytorch_half_pixel" and cells > 1):
        return mixing(length, cells)
    apart = np.abs(np.clip(_places(how, length, cells), 0, length - 1)[:, np.newaxis] - np.arange(length))
    return np.asarray(np.maximum(0, 1 - apart))


def _places(how: str, length: int, cells: int) -> Array:
    """Return the places of new cells among the old ones, in units of these."""
    new = np.arange(cells, dtype=np.float64)
    if how == "half_pixel" or (how == "pytorch_half_pixel" and cells > 1):
        return (new + 0.5) * (length / cells) - 0.5
    step = (length - 1) / max(cells - 1, 1) if how == "align_corners" else length / cells
    # The one cell of the other form of half pixels lies at the first one.
    return new * (0 if how == "pytorch_half_pixel" else step)


def _cubic(how: str, length: int, cells: int, bend: float, excluded: bool) -> Array:
    """Return the matrix (cells, length) of cubic interpolation by the four nearest cells (Keys, 1981).

    Args:
        how: rule for the places.
        length: number of cells of an axis.
        cells: their number in the result.
        bend: a of the formula.
        excluded: whether cells beyond the edges have no share; else the outer cells stand there.
    """
    bounded((length, cells))
    places = _places(how, length, cells)
    matrix, rows = np.zeros((cells, length)), np.arange(cells)
    for offset in range(-1, 3):
        near = np.floor(places).astype(np.int64) + offset
        d = np.abs(places - near)
        inner, outer = ((bend + 2) * d - (bend + 3)) * d**2 + 1, ((d - 5) * d + 8) * d * bend - 4 * bend
        inside = (near >= 0) & (near < length)
        share = np.where(d <= 1, inner, outer) * (inside if excluded else 1)
        np.add.at(matrix, (rows, np.clip(near, 0, length - 1)), share)
    return matrix / matrix.sum(axis=1, keepdims=True) if excluded else matrix


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

"""Operators of shapes and axes, and reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from nn import function, operation
from nn.arrays import BATCH, LENGTH
from nn.onnx.axes import inverse
from nn.onnx.builder import Operand
from nn.onnx.call import Call, Read, length_of
from nn.onnx.folding import Unknown, bounded, integers, slices, split_sizes
from nn.operation.operation import Operation
from nn.value.value import Value, as_value


def over_places(kind: Callable[..., Operation]) -> Read:
    def read(call: Call) -> Operand:
        x = call.value(0)
        return reduced(call, x, list(range(2, len(x.shape))), kind, keep=True)

    return read


def reduced(call: Call, x: Value, axes: Sequence[int], kind: Callable[..., Operation], *, keep: bool) -> Value:
    """Return a reduction over axes, computed before a change of their order."""
    source, order = call.builder.orders.source(x)
    rank = len(x.shape)
    axes = sorted(call.axis(axis, rank) for axis in axes)
    if any(x.shape[axis] == BATCH for axis in axes):
        raise call.refuse("a reduction must leave the samples apart", [f"axis {axis} of shape {x.shape}" for axis in axes])
    if order is None:
        return x.apply(kind(tuple(axes), keep))
    # With the axes kept, so that the change of their order still fits; they are left out behind it.
    made = source.apply(kind(tuple(order[axis] for axis in axes), True))
    kept = call.builder.orders.turned(made, order)
    return kept if keep else squeezed(call, kept, axes)


def reduction(kind: Callable[..., Operation], before: str = "", after: str = "") -> Read:
    """Return the reader of a reduction of x, |x| or x^2, and of its root or logarithm."""

    def read(call: Call) -> Operand:
        x = call.value(0)
        if not (axes := _reduced_axes(call, x)):
            return x
        if before:
            x = call.builder.orders.through(x, lambda each: abs(each) if before == "absolute" else each**2)
        made = reduced(call, x, axes, kind, keep=bool(call.given.get("keepdims", 1)))
        return made if not after else made.sqrt() if after == "root" else made.log()

    return read


def _reduced_axes(call: Call, x: Operand) -> list[int]:
    """Return the axes of a reduction: without any ONNX takes all, unless `noop_with_empty_axes` says that none are meant."""
    axes = call.numbers(1, "axes") or []
    return axes if axes or call.given.get("noop_with_empty_axes", 0) else list(range(len(x.shape)))


def product(call: Call) -> Operand:
    """Return the product of all elements along axes: halves times halves."""
    x = call.value(0)
    if not (given := _reduced_axes(call, x)):
        return x
    axes = [call.axis(axis, len(x.shape)) for axis in given]
    for axis in axes:
        count = x.shape[axis]
        if count in (BATCH, LENGTH):
            raise call.refuse("a product must be over axes with lengths that are known", [f"axis {axis} of {list(x.shape)}"])
        while count > 1:
            half = count // 2
            made: Value = cut(call, x, {axis: slice(half)}) * cut(call, x, {axis: slice(half, 2 * half)})
            x = function.concatenate([made, cut(call, x, {axis: slice(2 * half, count)})], axis) if count % 2 else made
            count -= half
    return x if call.given.get("keepdims", 1) else squeezed(call, x, axes)


def log_sum_exp(call: Call) -> Operand:
    """Return log(sum(exp(x))) over axes, with the greatest number taken out of the sum, which would overflow."""
    x = call.value(0)
    axes = call.numbers(1, "axes") or list(range(len(x.shape)))
    greatest = reduced(call, x, axes, operation.Max, keep=True)
    found = greatest + reduced(call, (x - greatest).exp(), axes, operation.Sum, keep=True).log()
    return found if call.given.get("keepdims", 1) else squeezed(call, found, axes)


def running_sum(call: Call) -> Operand:
    """Return the sums of all elements up to each one along an axis: a product with a triangle of ones."""
    x = call.value(0)
    axis = call.axis(integers(call.array(1))[0], len(x.shape))
    length = x.shape[axis]
    if length in (BATCH, LENGTH):
        raise call.refuse("the axis must have a length that is known", list(x.shape))
    summed = np.triu(np.ones(bounded((length, length))), 1 if call.given.get("exclusive", 0) else 0)
    order = [*(each for each in range(len(x.shape)) if each != axis), axis]
    last = call.builder.orders.turned(x, order)
    made = last @ call.builder.value(summed.T.copy() if call.given.get("reverse", 0) else summed)
    return call.builder.orders.turned(made, inverse(order))


def triangle(call: Call) -> Operand:
    """Return x with zeros above or below a diagonal of its last two axes."""
    x = call.value(0)
    if len(x.shape) < 2 or BATCH in x.shape[-2:] or LENGTH in x.shape[-2:]:
        raise call.refuse("the last two axes must have lengths that are known", list(x.shape))
    diagonal = integers(call.array(1))[0] if call.has(1) else 0
    kept = (np.triu if call.given.get("upper", 1) else np.tril)(np.ones(bounded(x.shape[-2:])), diagonal)
    return function.where(call.builder.value(kept), x, 0.0)


def reshaped(call: Call) -> Operand:
    x = call.tensor(0)
    rows = call.builder.rows(x)
    wanted: list[Any] = list(call.array(1).flat)
    # Without `allowzero` a 0 stands for the length that the input has at this place.
    if not call.given.get("allowzero", 0):
        wanted = [length_of(x.shape[axis], rows) if _is(each, 0) else each for axis, each in enumerate(wanted)]
    if len(wanted) == len(x.shape) and all(_fits(each, axis, rows) for each, axis in zip(wanted, x.shape, strict=True)):
        return x
    return call.builder.reshaped(x, *_solved(call, x, wanted, rows))


def _fits(length: Any, axis: int, rows: int) -> bool:
    if isinstance(length, Unknown):
        return axis == LENGTH or (axis == BATCH and length.times == rows)
    return axis not in (BATCH, LENGTH) and int(length) == axis


def _is(length: Any, number: int) -> bool:
    return not isinstance(length, Unknown) and int(length) == number


def _solved(call: Call, x: Value, wanted: Sequence[Any], rows: int) -> tuple[list[int], int]:
    """Return a shape with -1 at the batch for one of numbers, one -1, and the lengths that come with the data; and its rows.

    Args:
        call: of the node.
        x: the value.
        wanted: the numbers.
        rows: how many rows of x, and in the result of the new shape, belong to a sample.
    """
    if LENGTH in x.shape:
        raise call.refuse("must know all lengths but the batch; give 'shapes'", list(x.shape))
    sample = rows * math.prod(axis for axis in x.shape if axis != BATCH)
    lengths = [None if isinstance(each, Unknown) else int(each) for each in wanted]
    batches = [place for place, each in enumerate(wanted) if isinstance(each, Unknown)]
    rest = [place for place, each in enumerate(lengths) if each == -1]
    known = math.prod(each for each in lengths if each is not None and each != -1)
    times = 1
    if len(batches) == 1 and len(rest) < 2:
        times = wanted[batches[0]].times
        if rest and sample % (known * times) == 0:
            lengths[rest[0]] = sample // (known * times)
        elif known * times != sample:
            raise call.refuse(f"samples of {sample} elements must fit", wanted)
    elif call.builder.single and rows == 1 and not batches and x.shape[0] == BATCH and lengths[:1] == [1] and len(rest) < 2:
        # A file for one sample at a time, whose first axis is that.
        batches = [0]
        if rest and sample % known == 0:
            lengths[rest[0]] = sample // known
        elif known != sample:
            raise call.refuse(f"samples of {sample} elements must fit", wanted)
    elif not batches and len(rest) == 1:
        # The one -1 can only be the batch: all other lengths are numbers.
        batches = rest
        times = max(1, sample // known)
    else:
        raise call.refuse(f"must keep one axis for the samples, of {sample} elements", wanted)
    return [BATCH if place == batches[0] else int(each or 0) for place, each in enumerate(lengths)], times


def flatten(call: Call) -> Operand:
    x = call.value(0)
    axis = int(call.given.get("axis", 1))
    axis = axis + len(x.shape) if axis < 0 else axis
    front, behind = x.shape[:axis], x.shape[axis:]
    if LENGTH in x.shape:
        raise call.refuse("must know all lengths but the batch; give 'shapes'", list(x.shape))
    size = math.prod(each for each in (behind if BATCH in front else front) if each != BATCH)
    # Lengths on the batch's side of the cut make several rows of each sample.
    rows = call.builder.rows(x) * math.prod(each for each in (front if BATCH in front else behind) if each != BATCH)
    return call.builder.reshaped(x, [BATCH, size] if BATCH in front else [size, BATCH], rows)


def squeeze(call: Call) -> Operand:
    x = call.tensor(0)
    axes = call.numbers(1, "axes")
    found = [axis for axis, length in enumerate(x.shape) if length == 1] if axes is None else axes
    return squeezed(call, x, found)


def squeezed(call: Call, x: Value, axes: Sequence[int]) -> Value:
    """Return x without some axes, left out before a change of the order."""
    rank = len(x.shape)
    gone = {call.axis(axis, rank) for axis in axes}
    if any(x.shape[axis] != 1 for axis in gone):
        raise call.refuse(f"axes {sorted(gone)} must have length 1", list(x.shape))
    source, order = call.builder.orders.source(x)
    order = order or tuple(range(rank))
    lost = {order[axis] for axis in gone}
    left = [axis for axis in range(rank) if axis not in lost]
    made = call.builder.shaped(source, [source.shape[axis] for axis in left])
    return call.builder.orders.turned(made, [left.index(order[axis]) for axis in range(rank) if axis not in gone])


def unsqueeze(call: Call) -> Operand:
    x = call.tensor(0)
    axes = call.numbers(1, "axes") or []
    rank = len(x.shape) + len(axes)
    new = {call.axis(axis, rank) for axis in axes}
    if len(new) != len(axes):
        raise call.refuse("axes must differ", axes)
    lengths = iter(x.shape)
    return call.builder.shaped(x, [1 if axis in new else next(lengths) for axis in range(rank)])


def permuted(call: Call) -> Operand:
    x = call.value(0)
    order = call.given.get("perm", list(reversed(range(len(x.shape)))))
    if sorted(order) != list(range(len(x.shape))):
        raise call.refuse(f"'perm' must name the axes of shape {list(x.shape)} once each", order)
    return call.builder.orders.turned(x, order)


def beside(call: Call) -> Operand:
    values = [call.value(number) for number in range(len(call.inputs))]
    axis = call.axis(call.given["axis"], len(values[0].shape))
    found = [call.builder.orders.source(each) for each in values]
    order = found[0][1]
    if order is not None and all(other == order for _, other in found):
        # Joined before the change of order that all have in common, so that one is enough.
        made = function.concatenate([source for source, _ in found], order[axis])
        return call.builder.orders.turned(made, order)
    return function.concatenate(_for_each_sample(values, axis), axis) if len(values) > 1 else values[0]


def _for_each_sample(values: Sequence[Value], axis: int) -> list[Value]:
    """Return values that stand beside each other, with a row for each sample where one of them has: a token of all samples."""
    like = next((each for each in values if BATCH in each.shape), values[0])
    place = like.shape.index(BATCH) if BATCH in like.shape else axis
    if place == axis:
        return list(values)
    one = like[tuple([slice(None) if at == place else slice(0, 1) for at in range(len(like.shape))])]
    # 0 for each sample, whatever its numbers are.
    return [each if each.shape[place] == BATCH else each + (one > one) for each in values]


def split(call: Call) -> list[Operand]:
    x = call.value(0)
    axis = call.axis(call.given.get("axis", 0), len(x.shape))
    if x.shape[axis] in (BATCH, LENGTH):
        raise call.refuse("the axis must have a length that is known", list(x.shape))
    sizes = split_sizes(x.shape[axis], [None, call.array(1) if call.has(1) else None], call.given)
    parts: list[Operand] = []
    start = 0
    for size in sizes:
        parts.append(cut(call, x, {axis: slice(start, start + size)}))
        start += size
    return parts


def cut(call: Call, x: Value, cuts: Mapping[int, slice]) -> Value:
    """Return slices of x, cut before a change of the order."""
    if not cuts:
        return x
    source, order = call.builder.orders.source(x)
    order = order or tuple(range(len(x.shape)))
    where = {order[axis]: cut for axis, cut in cuts.items()}
    key = tuple([where.get(axis, slice(None)) for axis in range(len(source.shape))])
    return call.builder.orders.turned(source[key], order)


def cut_out(call: Call) -> Operand:
    x = call.value(0)
    if len(call.inputs) > 1:
        given: list[Any] = [call.array(number) if call.has(number) else None for number in range(1, 5)]
    else:
        given = [call.given.get(name) for name in ("starts", "ends", "axes", "steps")]
    return cut(call, x, slices(len(x.shape), [length_of(axis) for axis in x.shape], given))


def expand(call: Call) -> Operand:
    x, shape = call.value(0), list(call.array(1).flat)
    ones = [1 if isinstance(each, Unknown) else int(each) for each in shape]
    rank = max(len(ones), len(x.shape))
    own = (1,) * (rank - len(x.shape)) + x.shape
    ones = [1] * (rank - len(ones)) + ones
    target = [1 if found in (length, BATCH, LENGTH) else length for found, length in zip(own, ones, strict=True)]
    if set(target) == {1} and rank == len(x.shape):
        return x
    # A product with ones broadcasts; axes that have their length already, or get it with the data, count 1 in the ones.
    return x * as_value(np.ones(bounded(target)))


#: Copies beside each other, each of which is an input of an operation.
_MOST_TIMES: Final = 4096


def tile(call: Call) -> Operand:
    x, times = call.value(0), integers(call.array(1))
    if len(times) != len(x.shape) or min(times) < 1:
        raise call.refuse(f"'repeats' must be {len(x.shape)} numbers of at least 1", times)
    if math.prod(times) > _MOST_TIMES:
        raise call.refuse(f"'repeats' must be at most {_MOST_TIMES}", times)
    for axis, count in enumerate(times):
        if count > 1:
            x = function.concatenate([x] * count, axis)
    return x

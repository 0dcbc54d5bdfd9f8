"""Operators that find the greatest or least elements along an axis, and that take elements at computed places."""

from __future__ import annotations

import numpy as np

from nn import function, operation
from nn.arrays import BATCH, LENGTH
from nn.onnx.builder import Operand
from nn.onnx.call import Call
from nn.onnx.folding import bounded, integers
from nn.onnx.nodes.shapes import cut, squeezed
from nn.value.value import Value


def greatest(call: Call) -> Operand:
    """Return the places of the greatest or least elements along an axis."""
    axis = _axis(call, int(call.given.get("axis", 0)))
    x, last = call.value(0), bool(call.given.get("select_last_index", 0))
    if last and x.shape[axis] == LENGTH:
        raise call.refuse("the axis must have a length that is known", list(x.shape))
    # The first of equal elements is found, so the last one is sought from behind.
    found = _places(call, cut(call, x, {axis: slice(None, None, -1)}) if last else x, 1, axis, call.node.op_type == "ArgMin")
    found = x.shape[axis] - 1 - found if last else found
    return found if call.given.get("keepdims", 1) else squeezed(call, found, [axis])


def top(call: Call) -> list[Operand]:
    """Return the greatest or least elements along an axis, and their places."""
    axis = _axis(call, int(call.given.get("axis", -1)))
    # From version 10 on it is an input.
    count = integers(call.array(1))[0] if call.version >= 10 else int(call.given["k"])
    places = _places(call, call.value(0), count, axis, not call.given.get("largest", 1))
    return [call.value(0).apply(operation.TakeAlong(axis), places), places]


def one_hot_rows(call: Call) -> Operand:
    """Return rows with one number at the place that an element names, and another one elsewhere."""
    x, depth, values = call.value(0), integers(call.array(1))[0], call.array(2).reshape(-1).tolist()
    if len(values) != 2:
        raise call.refuse("the values must be two numbers", values)
    off, on = values
    rank = len(x.shape) + 1
    axis = call.axis(call.given.get("axis", -1), rank)
    bounded((depth,))
    # Places are counted from behind, too. ONNX says so from version 11 on; onnxruntime does it in version 9 as well.
    named = call.builder.shaped(x + (x < 0) * depth, [*x.shape[:axis], 1, *x.shape[axis:]])
    found = function.equal(named, np.arange(depth).reshape(-1, *[1] * (rank - 1 - axis)))
    return found if (off, on) == (0, 1) else found * (on - off) + off


def hardmax(call: Call) -> Operand:
    """Return 1 at the first of the greatest elements along an axis, 0 elsewhere."""
    axis = _axis(call, int(call.given.get("axis", -1 if call.version >= 13 else 1)))
    x = call.value(0)
    # Before, all axes from there on were one.
    if x.shape[axis] == LENGTH or (call.version < 13 and axis != len(x.shape) - 1):
        raise call.refuse("the axis must have a length that is known and, before version 13, be the last", list(x.shape))
    numbers = np.arange(x.shape[axis]).reshape(-1, *[1] * (len(x.shape) - 1 - axis))
    return function.equal(_places(call, x, 1, axis, least=False), numbers)


def taken(call: Call) -> Operand:
    return call.value(0).apply(operation.TakeAlong(_axis(call, int(call.given.get("axis", 0)))), call.value(1))


def _places(call: Call, x: Value, count: int, axis: int, least: bool) -> Value:
    """Return the places of some elements of x, found before a change of the order of its axes."""
    source, order = call.builder.orders.source(x)
    found = (-source if least else source).apply(operation.TopPlaces(count, axis if order is None else order[axis]))
    return found if order is None else call.builder.orders.turned(found, order)


def _axis(call: Call, axis: int) -> int:
    """Return an axis of the first input, counted from the front."""
    shape = call.value(0).shape
    if not -len(shape) <= axis < len(shape) or shape[axis] == BATCH:
        raise call.refuse(f"'axis' must be one of shape {list(shape)} other than the batch", axis)
    return axis % len(shape)

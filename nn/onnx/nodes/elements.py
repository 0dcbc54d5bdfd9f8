"""Operators of single elements: functions, arithmetic, comparisons and choices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nn import activation, function, operation
from nn.arrays import BATCH, Array
from nn.onnx.axes import Order, inverse
from nn.onnx.builder import Operand
from nn.onnx.call import Call, Read
from nn.onnx.messages import BOOL, FLOATS, dtype_of
from nn.operation.operation import Operation
from nn.value.value import Value, as_value


def function_of(make: Callable[[Mapping[str, Any]], Operation]) -> Read:
    """Return the reader of a function of single elements."""

    def read(call: Call) -> Operand:
        made = make(call.given)
        return call.builder.orders.through(call.value(0), lambda x: x.apply(made))

    return read


def hard_sigmoid(call: Call) -> Operand:
    alpha, beta = float(call.given.get("alpha", 0.2)), float(call.given.get("beta", 0.5))

    def compute(x: Value) -> Value:
        # The slope of torch and Keras, which is that of nn; the default of ONNX is another one.
        if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
            return x.apply(activation.HardSigmoid())
        return function.minimum(function.maximum(x * alpha + beta, 0), 1)

    return call.builder.orders.through(call.value(0), compute)


def leaky(call: Call) -> Operand:
    alpha = float(call.given.get("alpha", 0.01))

    def compute(x: Value) -> Value:
        # Other slopes `LeakReLU` does not take.
        return x.apply(activation.LeakReLU(alpha)) if 0 <= alpha < 1 else function.where(x > 0, x, x * alpha)

    return call.builder.orders.through(call.value(0), compute)


def selu(call: Call) -> Operand:
    alpha, gamma = float(call.given.get("alpha", 1.67326319)), float(call.given.get("gamma", 1.05070102))

    def compute(x: Value) -> Value:
        # A file holds both as float32.
        usual = math.isclose(alpha, 1.67326319, rel_tol=1e-5) and math.isclose(gamma, 1.05070102, rel_tol=1e-5)
        return x.apply(activation.SELU()) if usual else x.apply(activation.ELU(alpha)) * gamma

    return call.builder.orders.through(call.value(0), compute)


def celu(call: Call) -> Operand:
    alpha = float(call.given.get("alpha", 1.0))

    def compute(x: Value) -> Value:
        return x.apply(activation.ELU(1.0)) if alpha == 1 else (x / alpha).apply(activation.ELU(1.0)) * alpha

    return call.builder.orders.through(call.value(0), compute)


def swish(call: Call) -> Operand:
    alpha = float(call.given.get("alpha", 1.0))

    def compute(x: Value) -> Value:
        return x.apply(activation.SiLU()) if alpha == 1 else x * (x * alpha).apply(activation.Sigmoid())

    return call.builder.orders.through(call.value(0), compute)


def infinite(call: Call) -> Operand:
    """Return whether elements are infinite: greater than all numbers, or less."""
    above, below = (bool(call.given.get(name, 1)) for name in ("detect_positive", "detect_negative"))
    greatest = float(np.finfo(np.float64 if call.builder.double else np.float32).max)

    def compute(x: Value) -> Value:
        x = abs(x) if above and below else x if above else -x if below else x * 0
        return x > greatest

    return call.builder.orders.through(call.value(0), compute)


def shrink(call: Call) -> Operand:
    """Return elements drawn towards 0 by a bias, with 0 in place of the small ones."""
    bound, bias = float(call.given.get("lambd", 0.5)), float(call.given.get("bias", 0.0))

    def compute(x: Value) -> Value:
        return function.where(x > bound, x - bias, function.where(x < -bound, x + bias, 0.0))

    return call.builder.orders.through(call.value(0), compute)


def thresholded(call: Call) -> Operand:
    alpha = float(call.given.get("alpha", 1.0))
    return call.builder.orders.through(call.value(0), lambda x: function.where(x > alpha, x, 0.0))


def clip(call: Call) -> Operand:
    bounds = []
    for number, name in ((1, "min"), (2, "max")):
        found = float(call.array(number).reshape(-1)[0]) if call.has(number) else call.given.get(name)
        # A bound at the end of the type, as exporters write it for an open side, bounds nothing.
        bounds.append(None if found is None or abs(found) > 1e30 else float(found))
    low, high = bounds
    # Their gradient at a bound is 0, that of `Maximum` a half.
    usual: Mapping[Any, Operation] = {
        (0.0, None): activation.ReLU(), (0.0, 6.0): activation.ReLU6(), (-1.0, 1.0): activation.HTanh()
    }  # fmt: skip

    def compute(x: Value) -> Value:
        if (low, high) in usual:
            return x.apply(usual[low, high])
        x = x if low is None else function.maximum(x, low)
        return x if high is None else function.minimum(x, high)

    return call.builder.orders.through(call.value(0), compute)


def same(call: Call) -> list[Operand]:
    return [call.operand(0)]


def _both(call: Call, a: Operand, b: Operand, combine: Callable[[Value, Value], Value]) -> Value:
    """Return the result for two operands that broadcast, computed before a change of the order of their axes."""
    reader = call.builder
    sides = [reader.orders.source(each) if isinstance(each, Value) else (each, None) for each in (a, b)]
    orders = [order for _, order in sides if order is not None]
    if orders and all(_follows(side, each, orders[0]) for side, each in zip(sides, (a, b), strict=True)):
        order = orders[0]
        first, second = (
            source if isinstance(source, Value) else reader.value(_turned_back(call, source, order)) for source, _ in sides
        )
        return reader.orders.turned(combine(first, second), order)
    return combine(reader.value(a), reader.value(b))


def _follows(side: tuple[Any, Order | None], operand: Operand, order: Order) -> bool:
    """Return whether an operand can be had in the order before a change."""
    if isinstance(operand, Value):
        return side[1] == order
    return operand.dtype != object and operand.ndim <= len(order)


def _turned_back(call: Call, array: Array, order: Order) -> Array:
    if array.size == 1:
        # One number broadcasts in every order.
        return array
    whole = array.reshape((1,) * (len(order) - array.ndim) + array.shape)
    return call.builder.derived(whole.transpose(inverse(order)), array)


def pairs(combine: Callable[[Value, Value], Value]) -> Read:
    """Return the reader of an operator of two operands, or of several one after the other."""

    def read(call: Call) -> Operand:
        # Before version 7 one operand was laid along axes of the other, from 'axis' on.
        if call.version < 7 and call.given.get("axis") is not None:
            raise call.refuse("shapes must broadcast as in NumPy, without 'axis'", call.given["axis"])
        found = call.operand(0)
        for number in range(1, len(call.inputs)):
            found = _both(call, found, call.operand(number), combine)
        return call.builder.value(found)

    return read


def applied(kind: Callable[[], Operation]) -> Read:
    return pairs(lambda a, b: a.apply(kind(), b))


def quotient(call: Call) -> Operand:
    if call.builder.is_whole(call.operand(0)):
        # The quotient of whole numbers is cut towards zero.
        return pairs(lambda a, b: (a / b).apply(operation.Rounding("zero")))(call)  # type: ignore[return-value]
    return applied(operation.Divide)(call)  # type: ignore[return-value]


def remainder(call: Call) -> Operand:
    """Return the rest of a division to a whole number: with the sign of the divisor or, by 'fmod', of the dividend."""
    rounded = operation.Rounding("zero" if call.given.get("fmod", 0) else "down")
    return pairs(lambda a, b: a - (a / b).apply(rounded) * b)(call)  # type: ignore[return-value]


def mean_of(call: Call) -> Operand:
    return call.builder.value(pairs(lambda a, b: a + b)(call)) / len(call.inputs)  # type: ignore[arg-type]


def power(call: Call) -> Operand:
    exponent = call.operand(1)
    if isinstance(exponent, np.ndarray) and exponent.size == 1:
        number = float(exponent.reshape(-1)[0])
        return call.builder.orders.through(call.value(0), lambda x: x**number)
    return call.value(0).apply(operation.Power(), call.value(1))


def choice(call: Call) -> Operand:
    return function.where(call.value(0), call.value(1), call.value(2))


def prelu(call: Call) -> Operand:
    def combine(x: Value, slope: Value) -> Value:
        # The slopes of a sample, which all samples share: axes of length 1 stand in front of those that the file has.
        own = slope.shape[1:] if len(slope.shape) == len(x.shape) and slope.shape[0] == 1 else slope.shape
        missing = len(x.shape) - 1 - len(own)
        if x.shape[0] == BATCH and BATCH not in own and missing >= 0:
            whole = (1,) * missing + own
            return x.apply(operation.ParametricRectify(), slope if slope.shape == whole else slope.reshape(*whole))
        return x.apply(activation.ReLU()) - slope * (-x).apply(activation.ReLU())

    return _both(call, call.operand(0), call.operand(1), combine)


def cast(call: Call) -> Operand:
    to = call.given.get("to")
    if to == BOOL:
        return call.value(0).apply(operation.Compare("!="), as_value(0))
    dtype_of(to, f"{call.title}: 'to'")  # texts are no numbers
    return _typed(call, to not in FLOATS)


def cast_like(call: Call) -> Operand:
    return _typed(call, call.builder.is_whole(call.operand(1)))


def _typed(call: Call, whole: bool) -> Operand:
    """Return the first input as a value of whole numbers, or of others: numbers in nn are floats, and only their use tells."""
    x = call.tensor(0)
    if call.builder.is_whole(x) == whole:
        return x
    if not whole:
        # A value of its own: the types are noted by value.
        return call.value(0).apply(activation.Linear())
    made = x.apply(activation.Linear())
    call.builder.uncut.add(made)
    return made

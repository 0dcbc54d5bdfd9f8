"""Trigonometric and hyperbolic functions that nn has no operation of, made of those that it has."""

from __future__ import annotations

import math
from collections.abc import Callable

from nn import function
from nn.onnx.builder import Operand
from nn.onnx.call import Call, Read
from nn.value.value import Value


def composed(compute: Callable[[Value], Value]) -> Read:
    """Return the reader of a function of single elements that consists of several operations."""

    def read(call: Call) -> Operand:
        return call.builder.orders.through(call.value(0), compute)

    return read


def tangent(x: Value) -> Value:
    return function.sin(x) / function.cos(x)


def arc_sine(x: Value) -> Value:
    # Half of the angle, so that nothing is divided by 0 at the ends.
    return function.arctan(x / (1 + ((1 - x) * (1 + x)).sqrt())) * 2


def arc_cosine(x: Value) -> Value:
    return math.pi / 2 - arc_sine(x)


def hyperbolic_sine(x: Value) -> Value:
    return (x.exp() - (-x).exp()) * 0.5


def hyperbolic_cosine(x: Value) -> Value:
    return (x.exp() + (-x).exp()) * 0.5


def area_sine(x: Value) -> Value:
    # Of -x the sum would cancel.
    positive = abs(x)
    return ((x > 0) - (x < 0)) * (positive + (x * x + 1).sqrt()).log()


def area_cosine(x: Value) -> Value:
    return (x + ((x - 1) * (x + 1)).sqrt()).log()


def area_tangent(x: Value) -> Value:
    return ((1 + x).log() - (1 - x).log()) * 0.5

"""Operators of single elements and of pairs of them: activations, arithmetic, comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from nn import activation, operation
from nn.onnx.exporter import Convert, Exporter
from nn.onnx.messages import BOOL, INT64
from nn.operation.augmentation import Affine, Contrast, Flip
from nn.operation.operation import Operation
from nn.value.value import Node

Function: TypeAlias = Callable[[Exporter, str, Any], str]
"""Adds the operators for a function of one value, given by its name, and returns the name of the result."""


def _operator(kind: str, **given: Any) -> Function:
    return lambda out, x, found: out.add(kind, x, **given)


def _clip(low: float, high: float) -> Function:
    return lambda out, x, found: out.add("Clip", x, out.number(low), out.number(high))


def _with_alpha(kind: str) -> Function:
    return lambda out, x, found: out.add(kind, x, alpha=float(found.alpha))


def _gelu(out: Exporter, x: str, found: activation.GELU) -> str:
    return out.add("Gelu", x, approximate="tanh" if found.approximate else "none")


_ROUNDED = MappingProxyType({"down": "Floor", "up": "Ceil", "nearest": "Round"})


def _rounded(out: Exporter, x: str, found: operation.Rounding) -> str:
    if found.to in _ROUNDED:
        return out.add(_ROUNDED[found.to], x)
    # A cast to whole numbers cuts off what is behind the point.
    return out.add("Cast", out.add("Cast", x, to=INT64), to=out.elements)


FUNCTIONS: Mapping[type[Operation], Function] = MappingProxyType({
    activation.ELU: _with_alpha("Elu"),
    activation.Exponential: _operator("Exp"),
    activation.GELU: _gelu,
    activation.HTanh: _clip(-1, 1),
    activation.HardSigmoid: _operator("HardSigmoid", alpha=1 / 6, beta=0.5),
    activation.HardSwish: _operator("HardSwish"),
    activation.LeakReLU: _with_alpha("LeakyRelu"),
    activation.Linear: lambda out, x, found: x,
    activation.LogSigmoid: lambda out, x, found: out.add("Neg", out.add("Softplus", out.add("Neg", x))),
    activation.Mish: _operator("Mish"),
    activation.ReLU: _operator("Relu"),
    activation.ReLU6: _clip(0, 6),
    activation.SELU: _operator("Selu"),
    activation.SiLU: lambda out, x, found: out.add("Mul", x, out.add("Sigmoid", x)),
    activation.Sigmoid: _operator("Sigmoid"),
    activation.Softplus: _operator("Softplus"),
    activation.Softsign: _operator("Softsign"),
    activation.Tanh: _operator("Tanh"),
    # Draws change images in training only.
    Affine: lambda out, x, found: x,
    Contrast: lambda out, x, found: x,
    Flip: lambda out, x, found: x,
    operation.Absolute: _operator("Abs"),
    operation.DropoutOperation: lambda out, x, found: x,
    operation.Arccos: _operator("Acos"),
    operation.Arccosh: _operator("Acosh"),
    operation.Arcsin: _operator("Asin"),
    operation.Arcsinh: _operator("Asinh"),
    operation.Arctan: _operator("Atan"),
    operation.Arctanh: _operator("Atanh"),
    operation.Cos: _operator("Cos"),
    operation.Cosh: _operator("Cosh"),
    operation.Erf: _operator("Erf"),
    operation.Exp: _operator("Exp"),
    operation.GaussianDropoutOperation: lambda out, x, found: x,
    operation.GaussianNoiseOperation: lambda out, x, found: x,
    operation.Log: _operator("Log"),
    operation.Negative: _operator("Neg"),
    operation.Rounding: _rounded,
    operation.Sin: _operator("Sin"),
    operation.Sinh: _operator("Sinh"),
    operation.Sqrt: _operator("Sqrt"),
    operation.Square: lambda out, x, found: out.add("Mul", x, x),
    operation.StopGradient: lambda out, x, found: x,
    operation.Tan: _operator("Tan"),
})  # fmt: skip
"""Functions of single elements, which any order of the axes suits."""

ROWS: Mapping[type[Operation], str] = MappingProxyType({activation.Softmax: "Softmax", activation.LogSoftmax: "LogSoftmax"})
"""Functions of the last axis."""


def apply(out: Exporter, found: Operation, x: str) -> str:
    """Add the operators for a function of one value; raise ValueError for one of a user's own.

    Args:
        out: writer of the graph.
        found: the function.
        x: name of the value.
    """
    if type(found) in ROWS:
        return out.add(ROWS[type(found)], x, axis=-1)
    function = FUNCTIONS.get(type(found))
    if function is None:
        raise out.unknown(found)
    return out.orders.through(x, lambda source: function(out, source, found))


def pair(kind: str) -> Convert:
    """Return the conversion to one operator of two operands that broadcast."""

    def made(out: Exporter, node: Node, found: Operation) -> str:
        a, b = out.inputs(node)
        (first, order), (second, other) = out.orders.source(a), out.orders.source(b)
        # Both in the same other order, as images between convolutions are.
        if order is not None and order == other:
            return out.orders.turned(out.add(kind, first, second), order)
        return out.add(kind, a, b)

    return made


_RELATIONS = MappingProxyType({">": "Greater", ">=": "GreaterOrEqual", "<": "Less", "<=": "LessOrEqual", "==": "Equal"})


def compare(out: Exporter, node: Node, found: operation.Compare) -> str:
    mask = out.add(_RELATIONS.get(found.relation, "Equal"), *out.inputs(node))
    # ONNX has no operator for it.
    if found.relation == "!=":
        mask = out.add("Not", mask)
    return out.add("Cast", mask, to=out.elements)


def choice(out: Exporter, node: Node, found: operation.Where) -> str:
    a, b, condition = out.inputs(node)
    return out.add("Where", out.add("Cast", condition, to=BOOL), a, b)

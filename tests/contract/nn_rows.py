"""The contract table of `nn`: one row, at least, for every kind of operation, activation, layer, loss, metric and rule.

A new class without a row fails `test_nn_kinds.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import nn
from nn import activation, gradient_descent, initializer, layer, loss, metric, operation
from nn.arrays import Array, Shape
from nn.layer.dropout import DropoutOperation
from nn.testing.gradient_check import Draw, normal
from nn.value import Value, Variable


def positive(generator: np.random.Generator, shape: Shape) -> Array:
    return generator.uniform(0.5, 2, shape)


@dataclass
class GraphRow:
    """Something applied to an input: what it is, how it is built, the shape of a sample, and its value by plain NumPy.

    `value(x, *variables)`, with the variables in the order of their ids; None where random numbers decide.
    """

    kind: type[Any]
    build: Callable[[], Callable[[Value], Value]]
    sample: Sequence[int]
    value: Callable[..., Array] | None
    draw: Draw = normal
    label: str = ""


def with_variable(combine: Callable[[Value, Variable], Value], shape: Sequence[int]) -> Callable[[], Callable[[Value], Value]]:
    """Build from an input and one variable whose values are positive."""

    def build() -> Callable[[Value], Value]:
        variable = Variable(shape, Positive())
        return lambda x: combine(x, variable)

    return build


class Positive(initializer.Initializer):
    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        return positive(generator, shape)


def softmax(x: Array) -> Array:
    return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)


OPERATIONS = [
    GraphRow(operation.Add, with_variable(lambda x, w: x + w, [4]), (3, 4), lambda x, w: x + w, label="row"),
    GraphRow(operation.Add, with_variable(lambda x, w: w + x, [3, 1]), (3, 4), lambda x, w: x + w, label="column"),
    GraphRow(operation.Add, with_variable(lambda x, w: x + w, [3, 4]), (1, 4), lambda x, w: x + w, label="both sides"),
    GraphRow(operation.Subtract, with_variable(lambda x, w: x - w, [4]), (4,), lambda x, w: x - w),
    GraphRow(operation.Subtract, with_variable(lambda x, w: w - x, [3, 1]), (3, 4), lambda x, w: w - x, label="swapped"),
    GraphRow(operation.Multiply, with_variable(lambda x, w: x * w, [1, 4]), (4,), lambda x, w: x * w),
    GraphRow(operation.Multiply, with_variable(lambda x, w: x * w * x, [4]), (4,), lambda x, w: x * w * x, label="shared"),
    GraphRow(operation.Divide, with_variable(lambda x, w: x / w, [4]), (4,), lambda x, w: x / w),
    GraphRow(operation.Divide, with_variable(lambda x, w: w / x, [3, 1]), (3, 4), lambda x, w: w / x, positive, "swapped"),
    GraphRow(operation.Power, with_variable(lambda x, w: x**w, [4]), (4,), lambda x, w: x**w, positive),
    GraphRow(operation.Power, with_variable(lambda x, w: w**x, [4]), (4,), lambda x, w: w**x, label="swapped"),
    GraphRow(operation.Power, lambda: lambda x: x**3, (4,), lambda x: x * x * x, label="constant"),
    GraphRow(operation.Negative, lambda: lambda x: -x, (4,), lambda x: -x),
    GraphRow(operation.Negative, lambda: lambda x: -(x * x), (4,), lambda x: -(x * x), label="in place"),
    GraphRow(operation.MatMul, with_variable(lambda x, w: x @ w, [4, 2]), (4,), lambda x, w: x @ w),
    GraphRow(operation.MatMul, with_variable(lambda x, w: x @ w, [4, 2]), (3, 4), lambda x, w: x @ w, label="rows of rows"),
    GraphRow(operation.MatMul, with_variable(lambda x, w: x @ w, [1, 4, 2]), (3, 4), lambda x, w: x @ w, label="stack"),
    GraphRow(operation.MatMul, with_variable(lambda x, w: w @ x, [2, 3]), (3, 4), lambda x, w: w @ x, label="left"),
    GraphRow(operation.MatMul, lambda: lambda x: x @ (x * 2), (3, 3), lambda x: x @ (x * 2), label="both"),
    GraphRow(operation.Reshape, lambda: lambda x: x.reshape(-1, 6), (2, 3), lambda x: x.reshape(-1, 6)),
    GraphRow(operation.Reshape, lambda: lambda x: (-x).reshape(-1, 3), (2, 3), lambda x: -x.reshape(-1, 3), label="in place"),
    GraphRow(DropoutOperation, lambda: lambda x: DropoutOperation(0.4)(x), (7,), None),
]  # fmt: skip

ACTIVATIONS = [
    GraphRow(activation.Linear, activation.Linear, (4,), lambda x: x),
    GraphRow(activation.Tanh, activation.Tanh, (4,), np.tanh),
    GraphRow(activation.Sigmoid, activation.Sigmoid, (4,), lambda x: 1 / (1 + np.exp(-x))),
    GraphRow(activation.ReLU, activation.ReLU, (4,), lambda x: np.where(x > 0, x, 0)),
    GraphRow(activation.Softmax, activation.Softmax, (4,), softmax),
    GraphRow(activation.Softmax, activation.Softmax, (3, 4), softmax, label="last axis"),
]

LAYERS = [
    GraphRow(layer.Dense, lambda: layer.Dense(3), (4,), lambda x, w, b: x @ w + b),
    GraphRow(layer.Dense, lambda: layer.Dense(3, activation.Tanh()), (2, 4), lambda x, w, b: np.tanh(x @ w + b), label="rows"),
    GraphRow(layer.Dense, lambda: layer.Dense(3, use_bias=False), (4,), lambda x, w: x @ w, label="without bias"),
    GraphRow(layer.Dropout, lambda: layer.Dropout(0.4), (7,), None),
    GraphRow(layer.Flatten, layer.Flatten, (2, 3, 2), lambda x: x.reshape(-1, 12)),
    GraphRow(layer.Reshape, lambda: layer.Reshape([3, -1]), (2, 3), lambda x: x.reshape(-1, 3, 2)),
]


@dataclass
class LossRow:
    """A loss with outputs and labels that suit it, for a number of samples, and its value by plain NumPy."""

    kind: type[loss.Loss]
    build: Callable[[], loss.Loss]
    sample: Callable[[np.random.Generator, int], tuple[Array, Array]]
    value: Callable[[Array, Array], float]
    label: str = ""


def classes(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.integers(0, 4, samples), generator.standard_normal((samples, 4))


def distributions(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.dirichlet(np.ones(4), samples), generator.standard_normal((samples, 4))


def numbers(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    return generator.standard_normal((samples, 3)), generator.standard_normal((samples, 3))


LOSSES = [
    LossRow(
        loss.Cross_Entropy_With_Softmax,
        loss.Cross_Entropy_With_Softmax,
        classes,
        lambda y, z: float(-np.log(softmax(z))[np.arange(len(y)), y].mean()),
        "class numbers",
    ),
    LossRow(
        loss.Cross_Entropy_With_Softmax,
        loss.Cross_Entropy_With_Softmax,
        distributions,
        lambda y, z: float(-(y * np.log(softmax(z))).sum(axis=1).mean()),
        "rows",
    ),
    LossRow(loss.MSELoss, loss.MSELoss, numbers, lambda y, z: float(((z - y) ** 2).mean())),
]


@dataclass
class MetricRow:
    """A metric with labels and predictions that suit it, and its value over all of them by plain NumPy."""

    kind: type[metric.Metric]
    build: Callable[[], metric.Metric]
    sample: Callable[[np.random.Generator, int], tuple[Array, Array]]
    value: Callable[[Array, Array], float]
    label: str = ""


METRICS = [
    MetricRow(
        metric.CategoricalAccuracy, metric.CategoricalAccuracy, classes, lambda y, p: float((p.argmax(axis=1) == y).mean())
    ),
    MetricRow(
        metric.CategoricalAccuracy,
        metric.CategoricalAccuracy,
        distributions,
        lambda y, p: float((p.argmax(axis=1) == y.argmax(axis=1)).mean()),
        "rows",
    ),
    MetricRow(metric.MeanSquareError, metric.MeanSquareError, numbers, lambda y, p: float(((p - y) ** 2).mean())),
]


@dataclass
class RuleRow:
    """A rule, and its published formula as a plain loop: gradients of all steps to the parameters after them, from zeros."""

    kind: type[gradient_descent.IGradientDescent]
    build: Callable[[], gradient_descent.IGradientDescent]
    formula: Callable[[Sequence[Array]], Array]
    label: str = ""


def adam(gradients: Sequence[Array], rate: float, b1: float, b2: float, epsilon: float) -> Array:
    w = m = v = np.zeros_like(gradients[0])
    for t, g in enumerate(gradients, start=1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        w = w - rate * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + epsilon)
    return w


RULES = [
    RuleRow(gradient_descent.SGDOptimizer, lambda: nn.gradient_descent.SGDOptimizer(0.1), lambda g: -0.1 * np.sum(g, axis=0)),
    RuleRow(gradient_descent.ADAMOptimizer, gradient_descent.ADAMOptimizer, lambda g: adam(g, 1e-3, 0.9, 0.999, 1e-8)),
    RuleRow(
        gradient_descent.ADAMOptimizer,
        lambda: gradient_descent.ADAMOptimizer(0.01, beta1=0.5, beta2=0.9, epsilon=1e-3),
        lambda g: adam(g, 0.01, 0.5, 0.9, 1e-3),
        "other arguments",
    ),
]

"""The gradient-descent rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import nn
from nn import gradient_descent
from nn.arrays import Array


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

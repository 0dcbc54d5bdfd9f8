"""The gradient-descent rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nn import gradient_descent as gd
from nn.arrays import Array


@dataclass
class RuleRow:
    """A rule, and its published formula as a plain loop: from parameters and the gradients of all steps to the end."""

    kind: type[gd.IGradientDescent]
    make: Callable[[], gd.IGradientDescent]
    formula: Callable[[Array, Sequence[Array]], Array]
    label: str = ""

    def build(self, length: int = 0) -> gd.IGradientDescent:
        """A new rule, told the variables of a vector of this length."""
        rule = self.make()
        rule.partition(variables(length))
        return rule


def variables(length: int) -> list[int]:
    """Sizes of three variables, or fewer, in a vector: one number, most of the rest, and what remains."""
    sizes = [min(length, 1), max(length - 1, 0) * 4 // 5]
    return [size for size in (*sizes, length - sum(sizes)) if size]


def sgd(w: Array, gradients: Sequence[Array], rates: Callable[[int], float]) -> Array:
    for t, g in enumerate(gradients):
        w = w - rates(t) * g
    return w


def momentum(w: Array, gradients: Sequence[Array], rate: float, mu: float, *, ahead: bool = False, decay: float = 0.0) -> Array:
    v = np.zeros_like(w)
    for g in gradients:
        g = g + decay * w
        v = mu * v + g
        w = w - rate * (g + mu * v if ahead else v)
    return w


def adam(w: Array, gradients: Sequence[Array], rate: float, b1: float, b2: float, epsilon: float, decay: float = 0.0) -> Array:
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(gradients, start=1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        w = w - rate * decay * w - rate * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + epsilon)
    return w


def lamb(w: Array, gradients: Sequence[Array], rate: float, b1: float, b2: float, epsilon: float, decay: float) -> Array:
    borders = np.cumsum(variables(len(w)))[:-1]
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(gradients, start=1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        r = (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + epsilon) + decay * w
        pairs = zip(np.split(w, borders), np.split(r, borders), strict=True)
        w = np.concatenate([x - rate * np.linalg.norm(x) / np.linalg.norm(y) * y for x, y in pairs])
    return w


def adagrad(w: Array, gradients: Sequence[Array], rate: float, epsilon: float) -> Array:
    s = np.zeros_like(w)
    for g in gradients:
        s = s + g**2
        w = w - rate * g / (np.sqrt(s) + epsilon)
    return w


def adadelta(w: Array, gradients: Sequence[Array], rate: float, rho: float, epsilon: float) -> Array:
    s, u = np.zeros_like(w), np.zeros_like(w)
    for g in gradients:
        s = rho * s + (1 - rho) * g**2
        d = np.sqrt(u + epsilon) / np.sqrt(s + epsilon) * g
        u = rho * u + (1 - rho) * d**2
        w = w - rate * d
    return w


def rmsprop(
    w: Array, gradients: Sequence[Array], rate: float, rho: float, epsilon: float, mu: float = 0.0, centered: bool = False
) -> Array:
    s, m, v = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    for g in gradients:
        s = rho * s + (1 - rho) * g**2
        m = rho * m + (1 - rho) * g
        v = mu * v + g / (np.sqrt(s - m**2 if centered else s) + epsilon)
        w = w - rate * v
    return w


def shortened(gradients: Sequence[Array], limit: float) -> list[Array]:
    return [g * min(1, limit / float(np.linalg.norm(g))) for g in gradients]


def limited(gradients: Sequence[Array], limit: float) -> list[Any]:
    return [np.minimum(np.maximum(g, -limit), limit) for g in gradients]


COSINE = gd.WarmUp(gd.Cosine(0.1, 20, final=0.01), 10)

RULES = [
    RuleRow(gd.SGDOptimizer, lambda: gd.SGDOptimizer(0.1), lambda w, g: sgd(w, g, lambda t: 0.1)),
    RuleRow(gd.SGDOptimizer, lambda: gd.SGDOptimizer(COSINE), lambda w, g: sgd(w, g, COSINE), "schedule"),
    RuleRow(
        gd.SGDOptimizer,
        lambda: gd.SGDOptimizer(0.1, clip_norm=2),
        lambda w, g: sgd(w, shortened(g, 2), lambda t: 0.1),
        "short",
    ),
    RuleRow(
        gd.SGDOptimizer,
        lambda: gd.SGDOptimizer(0.1, clip_value=0.5),
        lambda w, g: sgd(w, limited(g, 0.5), lambda t: 0.1),
        "limited",
    ),
    RuleRow(gd.GradientDecay, lambda: gd.GradientDecay(0.1, 0.2), lambda w, g: sgd(w, g, lambda t: 0.1 / (1 + 0.2 * t))),
    RuleRow(gd.MomentumOptimizer, gd.MomentumOptimizer, lambda w, g: momentum(w, g, 0.01, 0.9)),
    RuleRow(
        gd.MomentumOptimizer,
        lambda: gd.MomentumOptimizer(0.02, 0.8, weight_decay=0.1, clip_value=0.5),
        lambda w, g: momentum(w, limited(g, 0.5), 0.02, 0.8, decay=0.1),
        "limited, with decay",
    ),
    RuleRow(gd.NesterovOptimizer, gd.NesterovOptimizer, lambda w, g: momentum(w, g, 0.01, 0.9, ahead=True)),
    RuleRow(gd.ADAMOptimizer, gd.ADAMOptimizer, lambda w, g: adam(w, g, 1e-3, 0.9, 0.999, 1e-8)),
    RuleRow(
        gd.ADAMOptimizer,
        lambda: gd.ADAMOptimizer(0.01, beta1=0.5, beta2=0.9, epsilon=1e-3),
        lambda w, g: adam(w, g, 0.01, 0.5, 0.9, 1e-3),
        "other arguments",
    ),
    RuleRow(gd.ADAMWOptimizer, gd.ADAMWOptimizer, lambda w, g: adam(w, g, 1e-3, 0.9, 0.999, 1e-8, 0.01)),
    RuleRow(
        gd.ADAMWOptimizer,
        lambda: gd.ADAMWOptimizer(weight_decay=0.3, clip_norm=1),
        lambda w, g: adam(w, shortened(g, 1), 1e-3, 0.9, 0.999, 1e-8, 0.3),
        "short",
    ),
    RuleRow(gd.LAMBOptimizer, gd.LAMBOptimizer, lambda w, g: lamb(w, g, 1e-3, 0.9, 0.999, 1e-6, 0.01)),
    RuleRow(
        gd.LAMBOptimizer,
        lambda: gd.LAMBOptimizer(0.02, 0.8, 0.9, 1e-3, 0.2, clip_value=0.5),
        lambda w, g: lamb(w, limited(g, 0.5), 0.02, 0.8, 0.9, 1e-3, 0.2),
        "other arguments",
    ),
    RuleRow(gd.AdaGradOptimizer, gd.AdaGradOptimizer, lambda w, g: adagrad(w, g, 0.01, 1e-10)),
    RuleRow(gd.AdaDeltaOptimizer, gd.AdaDeltaOptimizer, lambda w, g: adadelta(w, g, 1, 0.9, 1e-6)),
    RuleRow(gd.RMSPropOptimizer, gd.RMSPropOptimizer, lambda w, g: rmsprop(w, g, 1e-3, 0.9, 1e-8)),
    RuleRow(
        gd.RMSPropOptimizer,
        lambda: gd.RMSPropOptimizer(0.01, 0.99, 1e-3, momentum=0.5, centered=True),
        lambda w, g: rmsprop(w, g, 0.01, 0.99, 1e-3, 0.5, centered=True),
        "centered, with momentum",
    ),
]

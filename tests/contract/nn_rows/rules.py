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
        rule.partition(variables(length), [(size,) if place % 2 else (size, 1) for place, size in enumerate(variables(length))])
        return rule


def variables(length: int) -> list[int]:
    """Sizes of three variables, or fewer, in a vector: one number, most of the rest, and what remains."""
    sizes = [min(length, 1), max(length - 1, 0) * 4 // 5]
    return [size for size in (*sizes, length - sum(sizes)) if size]


def sgd(w: Array, gradients: Sequence[Array], rates: Callable[[int], float]) -> Array:
    for t, g in enumerate(gradients):
        w = w - rates(t) * g
    return w


def momentum(w: Array, gradients: Sequence[Array], rate: float, mu: float, *, ahead: bool = False, decay: Any = 0.0) -> Array:
    v = np.zeros_like(w)
    for g in gradients:
        g = g + decay * w
        v = mu * v + g
        w = w - rate * (g + mu * v if ahead else v)
    return w


def adam(w: Array, gradients: Sequence[Array], rate: float, b1: float, b2: float, epsilon: float, decay: Any = 0.0) -> Array:
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(gradients, start=1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        w = w - rate * decay * w - rate * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + epsilon)
    return w


def amsgrad(w: Array, gradients: Sequence[Array], rate: float) -> Array:
    m, v, most = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(gradients, start=1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        most = np.maximum(most, v)
        w = w - rate * (m / (1 - 0.9**t)) / (np.sqrt(most / (1 - 0.999**t)) + 1e-8)
    return w


def nadam(w: Array, gradients: Sequence[Array], rate: float, b1: float, b2: float, psi: float, decay: float = 0.0) -> Array:
    m, v, product = np.zeros_like(w), np.zeros_like(w), 1.0
    for t, g in enumerate(gradients, start=1):
        g = g + decay * w
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        u, ahead = (b1 * (1 - 0.96 ** (k * psi) / 2) for k in (t, t + 1))
        product *= u
        d = ahead * m / (1 - product * ahead) + (1 - u) * g / (1 - product)
        w = w - rate * d / (np.sqrt(v / (1 - b2**t)) + 1e-8)
    return w


def lion(w: Array, gradients: Sequence[Array], rate: float, b1: float, b2: float, decay: float) -> Array:
    m = np.zeros_like(w)
    for g in gradients:
        w = w - rate * (np.sign(b1 * m + (1 - b1) * g) + decay * w)
        m = b2 * m + (1 - b2) * g
    return w


def adamax(w: Array, gradients: Sequence[Array], rate: float, b1: float, b2: float) -> Array:
    m, u = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(gradients, start=1):
        m, u = b1 * m + (1 - b1) * g, np.maximum(b2 * u, np.abs(g) + 1e-8)
        w = w - rate / (1 - b1**t) * m / u
    return w


def kernels(w: Array) -> Array:
    """1 for parameters of the variables that `RuleRow.build` gives two axes, 0 for others."""
    return np.concatenate([np.full(size, 1.0 - place % 2) for place, size in enumerate(variables(len(w)))])


def accumulated(gradients: Sequence[Array], steps: int) -> list[Any]:
    groups = [gradients[start : start + steps] for start in range(0, len(gradients), steps)]
    return [sum(group[1:], group[0]) / steps for group in groups if len(group) == steps]


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


def by_variable(step: Callable[..., Array], w: Array, gradients: Sequence[Array], slots: int = 1) -> Array:
    """Steps of `step(t, w, g, *slots)` for each variable with its shape; slots begin at 0 and are changed in place."""
    sizes = variables(len(w))
    borders = np.cumsum(sizes)[:-1]
    shapes = [(size,) if place % 2 else (size, 1) for place, size in enumerate(sizes)]
    parts = [part.reshape(shape) for part, shape in zip(np.split(w, borders), shapes, strict=True)]
    kept = [[np.zeros_like(part) for _ in range(slots)] for part in parts]
    for t, g in enumerate(gradients, start=1):
        cut = zip(parts, np.split(g, borders), kept, strict=True)
        parts = [step(t, part, each.reshape(part.shape), *own) for part, each, own in cut]
    return np.concatenate([part.reshape(-1) for part in parts])


def adafactor(
    w: Array, gradients: Sequence[Array], rate: float, power: float, least: float, most: float, decay: float
) -> Array:
    def step(t: int, w: Array, g: Array, v: Array) -> Array:
        b = 1 - t**power
        # With one column sums of rows are the squares themselves.
        v[:] = b * v + (1 - b) * (g * g + 1e-30)
        u = g / np.sqrt(v)
        u = u / max(1, np.sqrt((u**2).mean()) / most)
        a = max(least, np.sqrt((w**2).mean())) * min(rate, 1 / np.sqrt(t))
        return np.asarray(w - a * u - rate * decay * w)

    return by_variable(step, w, gradients)


def muon(w: Array, gradients: Sequence[Array], rate: float, mu: float, scale: float, decay: float, ahead: bool = True) -> Array:
    def step(t: int, w: Array, g: Array, m: Array, v: Array) -> Array:
        if w.ndim < 2:
            m[:], v[:] = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            u = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        else:
            m[:] = mu * m + g
            x = (g + mu * m if ahead else m).T
            x = x / (np.linalg.norm(x) + 1e-7)
            for _ in range(5):
                s = x @ x.T
                x = 3.4445 * x + (-4.7750 * s + 2.0315 * s @ s) @ x
            u = scale * np.sqrt(max(w.shape)) * x.T
        return np.asarray(w - rate * u - rate * decay * w)

    return by_variable(step, w, gradients, 2)


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
    RuleRow(
        gd.ADAMOptimizer, lambda: gd.ADAMOptimizer(0.01, amsgrad=True), lambda w, g: amsgrad(w, g, 0.01), "largest squares"
    ),
    RuleRow(
        gd.ADAMWOptimizer,
        lambda: gd.ADAMWOptimizer(0.01, weight_decay=gd.KernelDecay(0.3)),
        lambda w, g: adam(w, g, 0.01, 0.9, 0.999, 1e-8, 0.3 * kernels(w)),
        "decay of kernels",
    ),
    RuleRow(
        gd.MomentumOptimizer,
        lambda: gd.MomentumOptimizer(0.02, 0.8, weight_decay=gd.KernelDecay(0.1)),
        lambda w, g: momentum(w, g, 0.02, 0.8, decay=0.1 * kernels(w)),
        "decay of kernels",
    ),
    RuleRow(gd.NadamOptimizer, gd.NadamOptimizer, lambda w, g: nadam(w, g, 2e-3, 0.9, 0.999, 4e-3)),
    RuleRow(
        gd.NadamOptimizer,
        lambda: gd.NadamOptimizer(0.01, 0.8, 0.99, momentum_decay=1, weight_decay=0.1),
        lambda w, g: nadam(w, g, 0.01, 0.8, 0.99, 1, 0.1),
        "other arguments",
    ),
    RuleRow(gd.LionOptimizer, gd.LionOptimizer, lambda w, g: lion(w, g, 1e-4, 0.9, 0.99, 0)),
    RuleRow(
        gd.LionOptimizer,
        lambda: gd.LionOptimizer(0.01, 0.8, 0.9, weight_decay=0.1),
        lambda w, g: lion(w, g, 0.01, 0.8, 0.9, 0.1),
        "other arguments",
    ),
    RuleRow(gd.AdamaxOptimizer, gd.AdamaxOptimizer, lambda w, g: adamax(w, g, 2e-3, 0.9, 0.999)),
    RuleRow(gd.AdafactorOptimizer, gd.AdafactorOptimizer, lambda w, g: adafactor(w, g, 1e-3, -0.8, 1e-3, 1.0, 0.0)),
    RuleRow(
        gd.AdafactorOptimizer,
        lambda: gd.AdafactorOptimizer(0.2, -0.5, epsilon2=0.1, clip_threshold=0.5, weight_decay=0.1),
        lambda w, g: adafactor(w, g, 0.2, -0.5, 0.1, 0.5, 0.1),
        "other arguments",
    ),
    RuleRow(gd.MuonOptimizer, gd.MuonOptimizer, lambda w, g: muon(w, g, 1e-3, 0.95, 0.2, 0.004)),
    RuleRow(
        gd.MuonOptimizer,
        lambda: gd.MuonOptimizer(0.02, 0.8, scale=0.5, nesterov=False, weight_decay=0.1),
        lambda w, g: muon(w, g, 0.02, 0.8, 0.5, 0.1, ahead=False),
        "other arguments",
    ),
    RuleRow(
        gd.GradientAccumulation,
        lambda: gd.GradientAccumulation(gd.ADAMOptimizer(), 3),
        lambda w, g: adam(w, accumulated(g, 3), 1e-3, 0.9, 0.999, 1e-8),
        "of Adam",
    ),
    RuleRow(
        gd.MovingAverage,
        lambda: gd.MovingAverage(gd.LAMBOptimizer(), 0.9),
        lambda w, g: lamb(w, g, 1e-3, 0.9, 0.999, 1e-6, 0.01),
        "of LAMB",
    ),
    RuleRow(
        gd.StochasticAverage,
        lambda: gd.StochasticAverage(gd.SGDOptimizer(COSINE), 5, 3),
        lambda w, g: sgd(w, g, COSINE),
        "of SGD",
    ),
]

"""Adam whose second moment stands still, so that its first one can be compressed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from nn.gradient_descent import ADAMOptimizer
from parallel_sgd.codec.interfaces import Array

from .rule import LocalRule


class FrozenAdam(LocalRule):
    """In dense batches, those of a `Warmup`, Adam of the mean gradient, bit for bit. From then on v is frozen and

        m_i = beta1 m + (1 - beta1) g_i is sent,  m <- merged m_i,
        w <- w - eta (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^T)) + epsilon),  T being the last step of the warm-up.

    m is the same on all workers, and linear in the gradients, so error feedback can make up for what a packet lacks; with v
    in between it could not. As in `ADAMOptimizer`, m / (1 - beta1) is what is kept and sent.

    Tang et al., "1-bit Adam: communication efficient large-scale training with Adam's convergence speed", 2021.

    Raises: TypeError, ValueError for arguments that `ADAMOptimizer` does not take.
    """

    sends: ClassVar[tuple[str, ...]] = ("gradient",)
    updates: ClassVar[bool] = True

    def __init__(self, learn_rate: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        self._rule = ADAMOptimizer(learn_rate, beta1, beta2, epsilon)
        self._frozen = 0

    def outgoing(self, value: Array, dense: bool) -> Array:
        """Return the gradient, or the momentum that the worker would have by itself."""
        if dense:
            return value
        sent = np.multiply(self._momentum(value), self._rule.beta1)
        return np.add(sent, value, out=sent)

    def incoming(self, merged: Array, dense: bool) -> Array:
        """Make a step; return it."""
        rule, step = self._rule, np.empty_like(merged, subok=False)
        if dense:
            rule.delta(merged, merged, step)  # without decay Adam looks at no parameters
            return step
        momentum, square = self._momentum(merged), rule.state_dict()["square"]
        self._frozen = self._frozen or rule.step
        rule.step += 1
        np.copyto(momentum, merged)
        scale = math.sqrt((1 - rule.beta2**self._frozen) / (1 - rule.beta2))
        np.sqrt(square, out=step)
        np.add(step, rule.epsilon * scale, out=step)
        np.divide(momentum, step, out=step)
        factor = -rule.learn_rate * scale * (1 - rule.beta1) / (1 - rule.beta1**rule.step)
        return np.multiply(step, factor, out=step)

    def _momentum(self, like: Array) -> Array:
        found = self._rule.state_dict().get("momentum")
        if found is None:
            raise RuntimeError(f"{self!r} has no second moment yet: take trigger=Warmup(n) with n of at least 1")
        momentum: Array = np.asarray(found)
        if momentum.shape != like.shape:
            raise ValueError(f"{self!r} remembers {momentum.size} numbers, got {like.size}")
        return momentum

    def state_dict(self) -> dict[str, Any]:
        """Return that of Adam, and the step in which v was frozen."""
        return {**self._rule.state_dict(), "frozen": self._frozen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned."""
        rest = dict(state)
        self._frozen = int(rest.pop("frozen", 0))
        self._rule.load_state_dict(rest)

    def __repr__(self) -> str:
        config = ", ".join(f"{name}={getattr(self._rule, name):g}" for name in ("learn_rate", "beta1", "beta2", "epsilon"))
        return f"FrozenAdam({config})"

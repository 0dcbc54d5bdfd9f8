"""Rules for a worker's own values beside the exchange."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.gradient_descent import ADAMOptimizer, IGradientDescent
from parallel_sgd.codec.interfaces import Array
from parallel_sgd.codec.pipeline.stage import share

from .parts import LocalRule, RuleMaker

__all__ = ["Drift", "Elastic", "FrozenAdam", "LocalRule", "Prox"]


class Stepping(LocalRule):
    """Local rule that goes by the learning rate of the worker's own steps: `learn_rate`, or that of the job's, step by step.

    Raises: TypeError, ValueError unless learn_rate > 0.
    """

    sends: ClassVar[tuple[str, ...]] = ("delta",)

    def __init__(self, learn_rate: float | None = None) -> None:
        if learn_rate is not None:
            learn_rate = arguments.number(self, "learn_rate", learn_rate, 0, open_low=True)
        self.learn_rate = learn_rate
        self._steps = 0
        self._maker: RuleMaker | None = None
        self._rule: IGradientDescent | None = None

    def use(self, rule: RuleMaker | None) -> None:
        self._maker = rule

    def next_rate(self) -> float:
        """Return the learning rate of the next step.

        Raises: LookupError where there is neither a number nor a rule.
        """
        self._steps += 1
        if self.learn_rate is not None:
            return self.learn_rate
        if self._rule is None:
            if self._maker is None:
                raise LookupError(
                    "the learning rate of local steps is that of the job's rule, but there is none: pass 'learn_rate'"
                )
            # made on first use: the job's rule is not known when the part is made
            self._rule = self._maker()
        # the rule's schedule is asked for this very step; the rule itself makes none
        self._rule._step_number = self._steps - 1
        return self._rule.learn_rate


class Prox(Stepping):
    """Proximal term: every local step also follows mu (w - w_global), the gradient of mu / 2 ||w - w_global||^2:

        w <- w - eta (g + mu (w - w_global))    with SGD; after other rules w <- w' - eta mu (w - w_global),

    w being the parameters before the step and w_global those of the last exchange. With mu = 0 it changes nothing.

    Li et al., "Federated optimization in heterogeneous networks" (FedProx), 2020.

    Args:
        mu: the weight of the term, a number >= 0.
        learn_rate: eta, a number > 0; None: that of the job's rule, step by step.

    Raises: TypeError, ValueError unless mu >= 0 and learn_rate > 0.
    """

    means: ClassVar[bool] = False
    keeps: ClassVar[tuple[str, ...]] = ("steps", "global", "before")

    def __init__(self, mu: float, learn_rate: float | None = None) -> None:
        super().__init__(learn_rate)
        self.mu = arguments.number(self, "mu", mu, 0)
        self._global: Array | None = None
        self._before: Array | None = None

    def begin(self, parameters: Array) -> None:
        # twice: one stays until the next exchange, the other moves with each step
        self._global, self._before = parameters.copy(), parameters.copy()

    def step(self, value: Array) -> Array:
        if not self.mu:
            return value
        if self._before is None or self._global is None:
            self.begin(np.zeros_like(value))
            return self.step(value)
        # the term is the gradient of mu / 2 ||w - w_global||^2, at the parameters before the step
        pull = np.subtract(self._before, self._global)
        np.multiply(pull, self.next_rate() * self.mu, out=pull)
        self._before = np.subtract(value, pull, out=pull)
        return self._before


class Drift(Stepping):
    """Control variates: each worker i keeps c_i, an estimate of its own gradient, and c, that of the mean of all workers:

        local step    y <- y - eta (g - c_i + c)
        exchange      c_i' = c_i - c + (x - y) / (K eta);  x <- x + mean(y - x),  c <- c + mean(c_i' - c_i)

    for K steps since the exchange that gave x; with a schedule K eta is the sum of the rates. Both vectors travel in one
    packet, of 8n bytes. As long as workers count alike and nothing is encoded with a loss, c is the mean of all c_i. For
    SGDOptimizer. eta is `learn_rate`, by default that of the job's rule.

    Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning", 2020, option II, all workers taking
    part with a server rate of 1.

    Raises: TypeError, ValueError unless learn_rate > 0.
    """

    width: ClassVar[int] = 2
    keeps: ClassVar[tuple[str, ...]] = ("steps", "way", "own", "common")

    def __init__(self, learn_rate: float | None = None) -> None:
        super().__init__(learn_rate)
        self._way = 0.0
        self._own: Array | None = None
        self._common: Array | None = None

    def step(self, value: Array) -> Array:
        rate = self.next_rate()
        self._way += rate
        # in the first round c_i and c are 0, and correct nothing
        if self._own is None or self._common is None:
            return value
        correction = np.subtract(self._own, self._common)
        np.multiply(correction, rate, out=correction)
        return np.add(value, correction, out=correction)

    def outgoing(self, value: Array, dense: bool) -> Array:
        if self._own is None or self._common is None:
            self._own, self._common = np.zeros_like(value), np.zeros_like(value)
        both = np.empty(2 * value.size, value.dtype)
        change = both[value.size :]
        both[: value.size] = value
        # (x - y) / (K eta), as `value` is y - x and `_way` K eta
        np.divide(value, -self._way, out=change)
        np.subtract(change, self._common, out=change)
        # c_i moves by what is sent, so that c stays the mean of all c_i
        np.add(self._own, change, out=self._own)
        self._way = 0.0
        return both

    def incoming(self, merged: Array, dense: bool) -> Array:
        size = merged.size // 2
        if self._common is not None:
            np.add(self._common, merged[size:], out=self._common)
        return merged[:size]


class Elastic(LocalRule):
    """Elastic averaging, w <- (1 - alpha) w + alpha mean(w): workers keep models of their own, which explore, near their mean.

    The mean of all workers stays as it is; differences from it shrink by 1 - alpha in each exchange. With alpha = 1 all
    take the mean. Mai et al., "KungFu: making training in distributed machine learning adaptive", 2020, calls it synchronous
    model averaging (SMA); its origin is Zhang, Choromanska and LeCun, "Deep learning with elastic averaging SGD", 2015, where
    the mean is that over time, too.

    Raises: TypeError, ValueError unless 0 < alpha <= 1.
    """

    sends: ClassVar[tuple[str, ...]] = ("weights",)
    agrees: ClassVar[bool] = False

    def __init__(self, alpha: float = 0.1) -> None:
        self.alpha = share(self, "alpha", alpha)
        self._own: Array = np.empty(0, np.float32)

    def outgoing(self, value: Array, dense: bool) -> Array:
        self._own = value.copy()
        return value

    def incoming(self, merged: Array, dense: bool) -> Array:
        result = np.subtract(merged, self._own)
        np.multiply(result, self.alpha, out=result)
        return np.add(self._own, result, out=result)


class FrozenAdam(LocalRule):
    """Adam of the mean gradient, bit for bit, in dense batches, those of a `Warmup`. From then on v is frozen and

        m_i = beta1 m + (1 - beta1) g_i is sent,  m <- merged m_i,
        w <- w - eta (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^T)) + epsilon),  T being the last step of the warm-up.

    m is the same on all workers, and linear in the gradients, so error feedback can make up for numbers that a packet lacks;
    with v in between it could not. As in `ADAMOptimizer`, the vector that is kept and sent is m / (1 - beta1).

    Args:
        learn_rate: eta.
        beta1: the decay of m.
        beta2: the decay of v in the warm-up.
        epsilon: added to the root.

    Tang et al., "1-bit Adam: communication efficient large-scale training with Adam's convergence speed", 2021.

    Raises: TypeError, ValueError for arguments that `ADAMOptimizer` does not take.
    """

    sends: ClassVar[tuple[str, ...]] = ("gradient",)
    updates: ClassVar[bool] = True

    def __init__(self, learn_rate: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        # the rule is Adam itself, so that dense batches have its bits
        self._rule = ADAMOptimizer(learn_rate, beta1, beta2, epsilon)
        self.learn_rate, self.beta1, self.beta2, self.epsilon = learn_rate, beta1, beta2, epsilon
        self._frozen = 0

    def outgoing(self, value: Array, dense: bool) -> Array:
        if dense:
            return value
        sent = np.multiply(self._momentum(value), self._rule.beta1)
        return np.add(sent, value, out=sent)

    def incoming(self, merged: Array, dense: bool) -> Array:
        rule, step = self._rule, np.empty_like(merged, subok=False)
        if dense:
            # parameters are looked at for weight decay alone
            rule.write_change(merged, merged, step)
            return step
        momentum, square = self._momentum(merged), rule.state_dict()["square"]
        # the last step of the warm-up, whose correction of v stays
        self._frozen = self._frozen or rule._step_number
        # t counts on, for the correction of m
        rule._step_number += 1
        np.copyto(momentum, merged)
        # v / (1 - beta2^T), with both roots and constants in one factor: the state holds v / (1 - beta2)
        scale = math.sqrt((1 - rule.beta2**self._frozen) / (1 - rule.beta2))
        np.sqrt(square, out=step)
        np.add(step, rule.epsilon * scale, out=step)
        np.divide(momentum, step, out=step)
        factor = -rule.learn_rate * scale * (1 - rule.beta1) / (1 - rule.beta1**rule._step_number)
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
        return {**self._rule.state_dict(), "frozen": self._frozen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        rest = dict(state)
        self._frozen = int(rest.pop("frozen", 0))
        self._rule.load_state_dict(rest)

"""A spring to the common parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from parallel_sgd.codec.interfaces import Array

from .rule import LocalRate, LocalRule, RuleMaker


class Prox(LocalRule):
    """Every local step also follows mu (w - w_global), the gradient of mu / 2 ||w - w_global||^2:

        w <- w - eta (g + mu (w - w_global))    with SGD; after other rules w <- w' - eta mu (w - w_global),

    w being the parameters before the step and w_global those of the last exchange. With mu = 0 it changes nothing.

    eta is `learn_rate`, by default that of the job's rule. Li et al., "Federated optimization in heterogeneous networks"
    (FedProx), 2020.

    Raises: TypeError, ValueError unless mu >= 0 and learn_rate > 0.
    """

    sends: ClassVar[tuple[str, ...]] = ("delta",)
    means: ClassVar[bool] = False

    def __init__(self, mu: float, learn_rate: float | None = None) -> None:
        self.mu = arguments.number(self, "mu", mu, 0)
        if learn_rate is not None:
            learn_rate = arguments.number(self, "learn_rate", learn_rate, 0, open_low=True)
        self._rate = LocalRate(learn_rate)
        self._global: Array | None = None
        self._before: Array | None = None

    def use(self, rule: RuleMaker | None) -> None:
        """Take its learning rate, unless one was given."""
        self._rate.maker = rule

    def begin(self, parameters: Array) -> None:
        """Fasten the spring."""
        self._global, self._before = parameters.copy(), parameters.copy()

    def step(self, value: Array) -> Array:
        """Pull."""
        if not self.mu:
            return value
        if self._before is None or self._global is None:
            self.begin(np.zeros_like(value))
            return self.step(value)
        pull = np.subtract(self._before, self._global)
        np.multiply(pull, self._rate.next() * self.mu, out=pull)
        self._before = np.subtract(value, pull, out=pull)
        return self._before

    def state_dict(self) -> dict[str, Any]:
        """Return both ends of the spring, and the number of steps."""
        ends = {"global": self._global, "before": self._before}
        return {"steps": self._rate.steps, **{name: value for name, value in ends.items() if value is not None}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned."""
        rest = dict(state)
        self._rate.steps = int(rest.pop("steps", 0))
        self._global, self._before = (
            None if value is None else np.array(value) for value in (rest.pop("global", None), rest.pop("before", None))
        )
        super().load_state_dict(rest)

    def __repr__(self) -> str:
        return f"Prox(mu={self.mu:g}, learn_rate={self._rate.given})"

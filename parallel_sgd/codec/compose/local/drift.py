"""Control variates against the drift of workers whose data differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from parallel_sgd.codec.interfaces import Array

from .rule import LocalRate, LocalRule, RuleMaker


class Drift(LocalRule):
    """Each worker i keeps c_i, an estimate of its own gradient, and all keep c, that of the mean of all workers:

        local step    y <- y - eta (g - c_i + c)
        exchange      c_i' = c_i - c + (x - y) / (K eta);  x <- x + mean(y - x),  c <- c + mean(c_i' - c_i)

    for K steps since the exchange that gave x; with a schedule K eta is the sum of the rates. Both vectors travel in one
    packet, of 8n bytes. As long as workers count alike and nothing is encoded with a loss, c is the mean of all c_i. For
    SGDOptimizer. eta is `learn_rate`, by default that of the job's rule.

    Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning", 2020, option II, all workers taking
    part with a server rate of 1.

    Raises: TypeError, ValueError unless learn_rate > 0.
    """

    sends: ClassVar[tuple[str, ...]] = ("delta",)
    width: ClassVar[int] = 2

    def __init__(self, learn_rate: float | None = None) -> None:
        if learn_rate is not None:
            learn_rate = arguments.number(self, "learn_rate", learn_rate, 0, open_low=True)
        self._rate = LocalRate(learn_rate)
        self._way = 0.0
        self._own: Array | None = None
        self._common: Array | None = None

    def use(self, rule: RuleMaker | None) -> None:
        """Take its learning rate, unless one was given."""
        self._rate.maker = rule

    def step(self, value: Array) -> Array:
        """Go on by what the own gradient is estimated to lack."""
        rate = self._rate.next()
        self._way += rate
        if self._own is None or self._common is None:
            return value
        correction = np.subtract(self._own, self._common)
        np.multiply(correction, rate, out=correction)
        return np.add(value, correction, out=correction)

    def outgoing(self, value: Array, dense: bool) -> Array:
        """Return what has changed in the parameters and in c_i, one after the other."""
        if self._own is None or self._common is None:
            self._own, self._common = np.zeros_like(value), np.zeros_like(value)
        both = np.empty(2 * value.size, value.dtype)
        change = both[value.size :]
        both[: value.size] = value
        np.divide(value, -self._way, out=change)
        np.subtract(change, self._common, out=change)
        np.add(self._own, change, out=self._own)
        self._way = 0.0
        return both

    def incoming(self, merged: Array, dense: bool) -> Array:
        """Take over the mean change of c; return that of the parameters."""
        size = merged.size // 2
        if self._common is not None:
            np.add(self._common, merged[size:], out=self._common)
        return merged[:size]

    def state_dict(self) -> dict[str, Any]:
        """Return c_i and c, and how far the steps since the last exchange went."""
        both = {"own": self._own, "common": self._common}
        numbers = {"steps": self._rate.steps, "way": self._way}
        return {**numbers, **{name: value for name, value in both.items() if value is not None}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned."""
        rest = dict(state)
        self._rate.steps, self._way = int(rest.pop("steps", 0)), float(rest.pop("way", 0.0))
        self._own, self._common = (
            None if value is None else np.array(value) for value in (rest.pop("own", None), rest.pop("common", None))
        )
        super().load_state_dict(rest)

    def __repr__(self) -> str:
        return f"Drift(learn_rate={self._rate.given})"

"""Momentum before the packet."""

from __future__ import annotations

from nn import arguments
from nn.gradient_descent import MomentumOptimizer

from .rule_stage import RuleStage


class Momentum(RuleStage):
    """v <- momentum v + x, sends v: the heavy ball (Polyak, 1964) on every worker, for stages that leave something out.

    Zheng et al., "Communication-efficient distributed blockwise momentum SGD with error-feedback", 2019, place it before the
    error feedback; the rule after the merge then has none of its own.

    Raises: TypeError, ValueError unless 0 <= momentum < 1.
    """

    def __init__(self, momentum: float = 0.9) -> None:
        self.momentum = arguments.number(self, "momentum", momentum, 0, 1)
        super().__init__(MomentumOptimizer(1.0, self.momentum))

    def __repr__(self) -> str:
        return f"Momentum({self.momentum!r})"

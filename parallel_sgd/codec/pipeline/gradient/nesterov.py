"""Momentum that looks ahead, before the packet."""

from __future__ import annotations

from nn import arguments
from nn.gradient_descent import NesterovOptimizer

from .rule_stage import RuleStage


class Nesterov(RuleStage):
    """v <- momentum v + x, sends x + momentum v: accelerated gradient (Nesterov, 1983; Sutskever et al., 2013) on every worker.

    As `Momentum` it belongs before stages that leave something out (Zheng et al., 2019).

    Raises: TypeError, ValueError unless 0 <= momentum < 1.
    """

    def __init__(self, momentum: float = 0.9) -> None:
        self.momentum = arguments.number(self, "momentum", momentum, 0, 1)
        super().__init__(NesterovOptimizer(1.0, self.momentum))

    def __repr__(self) -> str:
        return f"Nesterov({self.momentum!r})"

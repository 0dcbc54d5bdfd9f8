"""Adam before the packet."""

from __future__ import annotations

from nn import arguments
from nn.gradient_descent import ADAMOptimizer

from .rule_stage import RuleStage


class AdamPrecond(RuleStage):
    """Sends the direction of Adam (Kingma and Ba, 2015) on the worker's own moments, step t counted from 1:

    m <- beta1 m + (1 - beta1) x,  v <- beta2 v + (1 - beta2) x^2,
    sends (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).

    Its elements are about 1 in magnitude, so that a scale shared by a whole vector fits them. After the merge follows
    `SGDOptimizer(1e-3)`.

    Raises: TypeError, ValueError unless 0 <= beta1, beta2 < 1 and epsilon > 0.
    """

    def __init__(self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        self.beta1 = arguments.number(self, "beta1", beta1, 0, 1)
        self.beta2 = arguments.number(self, "beta2", beta2, 0, 1)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)
        super().__init__(ADAMOptimizer(1.0, self.beta1, self.beta2, self.epsilon))

    def __repr__(self) -> str:
        return f"AdamPrecond(beta1={self.beta1!r}, beta2={self.beta2!r}, epsilon={self.epsilon!r})"

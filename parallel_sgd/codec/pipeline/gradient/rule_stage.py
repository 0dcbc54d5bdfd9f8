"""The rules of `nn` as stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nn.gradient_descent import IGradientDescent

from ..stage import State, Vector
from .gradient_stage import GradientStage


class RuleStage(GradientStage):
    """Sends what a rule of learning rate 1 subtracts from the parameters; `SGDOptimizer(learn_rate)` follows the merge.

    The bits and the state are those of the rule.
    """

    def __init__(self, rule: IGradientDescent) -> None:
        self._rule = rule
        self._result: Vector = np.empty(0, np.float32)

    def transform(self, x: Vector) -> Vector:
        """Do one step of the rule."""
        if self._result.size != x.size:
            self._result = np.empty(x.size, np.float32)
        self._rule.delta(x, x, self._result)  # without decay no rule looks at the parameters
        return np.negative(self._result, out=self._result)

    def state_dict(self) -> State:
        """Return the step count and the vectors of the rule."""
        return dict(self._rule.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned.

        Raises: ValueError where names or sizes do not fit.
        """
        self._rule.load_state_dict(state)

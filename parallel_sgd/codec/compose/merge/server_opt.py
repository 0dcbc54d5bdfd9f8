"""An optimizer where contributions are merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.gradient_descent import IGradientDescent
from parallel_sgd.codec.interfaces import Array

from .mean import WeightedMean
from .rule import MergeRule


class ServerOpt(MergeRule):
    """Has a rule of its own make one step of what `merge` gives; all workers add that step to their parameters.

    With `send="delta"` the rule takes minus the merged change of the parameters for the gradient: FedAvgM, FedAdam, FedYogi
    (Reddi et al., "Adaptive federated optimization", 2021), DiLoCo with Nesterov's momentum (Douillard et al., 2023); with
    SGD(1) it is federated averaging. With `send="gradient"` it is the optimizer of a parameter server; then the op_type
    is GradientAveragingOptimizer. The result is in both cases the parameters. The rule must not decay weights: it sees none.

    Raises: TypeError unless `rule` is a rule and `merge` a merge rule; ValueError for a rule with decay.
    """

    updates: ClassVar[bool] = True

    def __init__(self, rule: IGradientDescent, merge: MergeRule | None = None) -> None:
        self.rule: IGradientDescent = arguments.instance(self, "rule", rule, IGradientDescent)
        self.merge: MergeRule = WeightedMean() if merge is None else arguments.instance(self, "merge", merge, MergeRule)
        if rule.weight_decay:
            raise ValueError(f"ServerOpt 'rule' must have no weight_decay, got {rule.weight_decay}: it sees no parameters")
        if not rule.elementwise:
            raise ValueError("ServerOpt 'rule' must change each parameter by its own numbers alone, got one with clip_norm")
        self.descends = True
        self._step: Array = np.empty(0, np.float32)

    def combine(self, parts: Sequence[Array], weights: Sequence[float]) -> Array:
        """Return the step of the rule."""
        merged = self.merge.combine(parts, weights)
        if not self.descends:
            np.negative(merged, out=merged)
        if self._step.shape != merged.shape or self._step.dtype != merged.dtype:
            self._step = np.empty_like(merged, subok=False)
        self.rule.delta(merged, merged, self._step)  # without decay no rule looks at the parameters
        return self._step

    def state_dict(self) -> dict[str, Any]:
        """Return the state of both rules."""
        merge = {f"merge.{name}": value for name, value in self.merge.state_dict().items()}
        return {**self.rule.state_dict(), **merge}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` returned."""
        self.rule.load_state_dict({name: value for name, value in state.items() if not name.startswith("merge.")})
        self.merge.load_state_dict({name[6:]: value for name, value in state.items() if name.startswith("merge.")})

    def __repr__(self) -> str:
        return f"ServerOpt({type(self.rule).__name__}({self.rule.get_config()}), {self.merge!r})"

"""Stochastic gradient descent whose learning rate decays."""

from typing import Any

from nn import arguments
from nn.gradient_descent.schedule.schedule import Schedule
from nn.gradient_descent.sgd import SGDOptimizer


class GradientDecay(SGDOptimizer):
    """w <- w - learn_rate / (1 + decay * t) * g, where t counts the steps before this one.

    Decay with the inverse of time is the sequence for which Robbins and Monro (1951) prove convergence: the rates add up to
    infinity, their squares do not. A schedule as `learn_rate` is divided likewise.

    >>> rule, w = nn.gradient_descent.GradientDecay(0.1, decay=0.5), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.95, 2.1]
    """

    def __init__(
        self,
        learn_rate: float | Schedule = 0.01,
        decay: float = 1e-3,
        weight_decay: float = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm)
        self.decay = arguments.number(self, "decay", decay, 0)

    def begin_step(self) -> None:
        """Divide the rate of this step."""
        self.rate /= 1 + self.decay * (self.step - 1)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "decay": self.decay}

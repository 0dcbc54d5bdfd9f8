"""AdaDelta."""

from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.gradient_descent.fading import forget_faded_squares
from nn.gradient_descent.interface import IGradientDescent
from nn.gradient_descent.schedule.schedule import Schedule


class AdaDeltaOptimizer(IGradientDescent):
    """Steps in the units of the parameters, without a rate to choose (Zeiler, 2012):

    s <- rho s + (1 - rho) g^2,  d = sqrt((u + epsilon) / (s + epsilon)) * g,  u <- rho u + (1 - rho) d^2,
    w <- w - learn_rate * d.

    The paper's rule has learn_rate = 1.

    >>> rule, w = nn.gradient_descent.AdaDeltaOptimizer(), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.9968, 2.0032]
    """

    slots = ("square", "step_square")

    def __init__(
        self,
        learn_rate: float | Schedule = 1.0,
        rho: float = 0.9,
        epsilon: float = 1e-6,
        weight_decay: float = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm)
        self.rho = arguments.number(self, "rho", rho, 0, 1)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        """Update both slots of a chunk and write its increment."""
        square, step_square = slots
        other = self.spare(out)
        self._mix(square, gradient, other)
        np.add(square, self.epsilon, out=other)
        np.add(step_square, self.epsilon, out=out)
        np.divide(out, other, out=out)
        np.sqrt(out, out=out)
        np.multiply(out, gradient, out=out)
        self._mix(step_square, out, other)
        forget_faded_squares(self.step, self.rho, square, step_square)
        np.multiply(out, -self.rate, out=out)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "rho": self.rho, "epsilon": self.epsilon}

    def _mix(self, mean: Array, news: Array, scratch: Array) -> None:
        """mean <- rho * mean + (1 - rho) * news^2."""
        np.multiply(news, news, out=scratch)
        np.multiply(scratch, 1 - self.rho, out=scratch)
        np.multiply(mean, self.rho, out=mean)
        np.add(mean, scratch, out=mean)

"""Adam."""

import math
from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.gradient_descent.fading import forget_faded, forget_faded_squares
from nn.gradient_descent.interface import IGradientDescent
from nn.gradient_descent.schedule.schedule import Schedule


class ADAMOptimizer(IGradientDescent):
    """Adaptive moment estimation (Kingma and Ba, 2015), step t:

    m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,
    w <- w - learn_rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon).

    The slots hold M = m / (1 - b1) and V = v / (1 - b2), whose recurrences need one multiplication less each; the factors
    move into the two numbers that all parameters share:
    w <- w - learn_rate * f * M / (sqrt(V) + e)  with  c = sqrt((1 - b2^t) / (1 - b2)),  f = c * (1 - b1) / (1 - b1^t),
    e = epsilon * c.

    >>> rule, w = nn.gradient_descent.ADAMOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.9, 2.1]
    """

    slots = ("momentum", "square")

    @arguments.also(alpha="learn_rate")
    def __init__(
        self,
        learn_rate: float | Schedule = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm)
        self.beta1 = arguments.number(self, "beta1", beta1, 0, 1)
        self.beta2 = arguments.number(self, "beta2", beta2, 0, 1)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)

    def begin_step(self) -> None:
        """Compute the factor of M / (sqrt(V) + e) and e for this step."""
        self.correct(-self.rate)

    def correct(self, factor: float) -> None:
        """Have `increment` write `factor` times the quotient of the corrected moments."""
        scale = math.sqrt((1 - self.beta2**self.step) / (1 - self.beta2))
        self._scale = factor * scale * (1 - self.beta1) / (1 - self.beta1**self.step)
        self._epsilon = self.epsilon * scale

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        """Update both slots of a chunk and write its increment."""
        momentum, square = slots
        np.multiply(momentum, self.beta1, out=momentum)
        np.add(momentum, gradient, out=momentum)
        forget_faded(self.step, momentum)
        np.multiply(gradient, gradient, out=out)
        np.multiply(square, self.beta2, out=square)
        np.add(square, out, out=square)
        forget_faded_squares(self.step, self.beta2, square)
        np.sqrt(square, out=out)
        np.add(out, self._epsilon, out=out)
        np.divide(momentum, out, out=out)
        np.multiply(out, self._scale, out=out)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}

"""AdaGrad."""

from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent
from nn.gradient_descent.schedule.schedule import Schedule


class AdaGradOptimizer(IGradientDescent):
    """Adaptive subgradients (Duchi, Hazan and Singer, 2011): s <- s + g^2,  w <- w - learn_rate * g / (sqrt(s) + epsilon).

    Parameters that seldom have a gradient keep a large rate. s only grows, so training on end comes to a halt.

    >>> rule, w = nn.gradient_descent.AdaGradOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.9, 2.1]
    """

    slots = ("square_sum",)

    def __init__(
        self,
        learn_rate: float | Schedule = 0.01,
        epsilon: float = 1e-10,
        weight_decay: float = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        """Add to the sum of squares of a chunk and write its increment."""
        (square_sum,) = slots
        np.multiply(gradient, gradient, out=out)
        np.add(square_sum, out, out=square_sum)
        np.sqrt(square_sum, out=out)
        np.add(out, self.epsilon, out=out)
        np.divide(gradient, out, out=out)
        np.multiply(out, -self.rate, out=out)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "epsilon": self.epsilon}

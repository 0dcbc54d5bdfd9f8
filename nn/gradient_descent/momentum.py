"""Gradient descent with momentum."""

from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.gradient_descent.fading import forget_faded
from nn.gradient_descent.interface import IGradientDescent
from nn.gradient_descent.schedule.schedule import Schedule


class MomentumOptimizer(IGradientDescent):
    """The heavy ball (Polyak, 1964): v <- momentum * v + g,  w <- w - learn_rate * v.

    The learning rate stands outside of v, as in torch, so that v does not depend on rates that have passed.

    >>> rule, w = nn.gradient_descent.MomentumOptimizer(0.1, momentum=0.9), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.95, 2.1]
    """

    slots = ("velocity",)

    def __init__(
        self,
        learn_rate: float | Schedule = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm)
        self.momentum = arguments.number(self, "momentum", momentum, 0, 1)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        """Update the velocity of a chunk and write -rate * v."""
        (velocity,) = slots
        np.multiply(velocity, self.momentum, out=velocity)
        np.add(velocity, gradient, out=velocity)
        forget_faded(self.step, velocity)
        np.multiply(velocity, -self.rate, out=out)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "momentum": self.momentum}

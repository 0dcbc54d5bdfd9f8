"""Plain stochastic gradient descent."""

import numpy as np

from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent
from nn.gradient_descent.schedule.schedule import Schedule


class SGDOptimizer(IGradientDescent):
    """w <- w - learn_rate * g (Robbins and Monro, 1951).

    The arguments that all rules share (a schedule as learning rate, weight decay, clipping) are told in `IGradientDescent`.

    >>> rule, w = nn.gradient_descent.SGDOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.95, 2.1]
    """

    def __init__(
        self,
        learn_rate: float | Schedule = 0.01,
        weight_decay: float = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, weight_decay, clip_value, clip_norm)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        """Write -rate * g."""
        np.multiply(gradient, -self.rate, out=out)

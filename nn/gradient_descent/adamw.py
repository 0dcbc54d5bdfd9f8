"""Adam with decoupled weight decay."""

from typing import ClassVar

import numpy as np

from nn.arrays import Array
from nn.gradient_descent.adam import ADAMOptimizer
from nn.gradient_descent.schedule.schedule import Schedule


class ADAMWOptimizer(ADAMOptimizer):
    """Adam whose weight decay does not pass through the moments (Loshchilov and Hutter, 2019):

    w <- w - learn_rate * weight_decay * w - (the step of `ADAMOptimizer`).

    >>> rule, w = nn.gradient_descent.ADAMWOptimizer(0.1, weight_decay=0.1), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.89, 2.08]
    """

    decoupled: ClassVar[bool] = True

    def __init__(
        self,
        learn_rate: float | Schedule = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        clip_value: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, beta1, beta2, epsilon, weight_decay, clip_value, clip_norm)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        """Write the increment of Adam and that of the decay."""
        super().increment(value, gradient, out, *slots)
        if self.weight_decay:
            decay = np.multiply(value, -self.rate * self.weight_decay, out=self.spare(out))
            np.add(out, decay, out=out)

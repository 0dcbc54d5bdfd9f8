"""Gradient descent with momentum that looks ahead."""

import numpy as np

from nn.arrays import Array
from nn.gradient_descent.fading import forget_faded
from nn.gradient_descent.momentum import MomentumOptimizer


class NesterovOptimizer(MomentumOptimizer):
    """Accelerated gradient (Nesterov, 1983), in the variables of Sutskever et al. (2013), whose gradient is that at w itself:

    v <- momentum * v + g,  w <- w - learn_rate * (g + momentum * v).

    >>> rule, w = nn.gradient_descent.NesterovOptimizer(0.1, momentum=0.9), np.array([1.0, 2.0])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.905, 2.19]
    """

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        """Update the velocity of a chunk and write -rate * (g + momentum * v)."""
        (velocity,) = slots
        np.multiply(velocity, self.momentum, out=velocity)
        np.add(velocity, gradient, out=velocity)
        forget_faded(self.step, velocity)
        np.multiply(velocity, self.momentum, out=out)
        np.add(out, gradient, out=out)
        np.multiply(out, -self.rate, out=out)

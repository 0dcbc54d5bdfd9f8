"""Adam."""

import math
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent

FADE_CHECK = 128
"""Steps between two looks at momenta that fade out; at b1 = 0.9 a number of 1e-30 needs 175 steps to become denormal."""

FADED = 1e-30
"""Momenta below this move no parameter: with the usual epsilon by at most 1e-22 learning rates."""


class ADAMOptimizer(IGradientDescent):
    """Adaptive moment estimation (Kingma and Ba, 2015), step t:

    m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,
    w <- w - learn_rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon).

    The slots hold M = m / (1 - b1) and V = v / (1 - b2), whose recurrences need one multiplication less each; the factors
    move into the two numbers that all parameters share:
    w <- w - rate * M / (sqrt(V) + e)  with  c = sqrt((1 - b2^t) / (1 - b2)),  rate = learn_rate * c * (1 - b1) / (1 - b1^t),
    e = epsilon * c.
    """

    slots: ClassVar[tuple[str, ...]] = ("momentum", "square")

    def __init__(self, learn_rate: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        super().__init__(learn_rate)
        self.beta1 = arguments.number(self, "beta1", beta1, 0, 1)
        self.beta2 = arguments.number(self, "beta2", beta2, 0, 1)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)

    def begin_step(self) -> None:
        """Compute rate and e of this step."""
        scale = math.sqrt((1 - self.beta2**self.step) / (1 - self.beta2))
        self._rate = -self.learn_rate * scale * (1 - self.beta1) / (1 - self.beta1**self.step)
        self._epsilon = self.epsilon * scale

    def increment(self, gradient: Array, out: Array, *slots: Array) -> None:
        """Update both slots of a chunk and write its increment."""
        momentum, square = slots
        np.multiply(momentum, self.beta1, out=momentum)
        np.add(momentum, gradient, out=momentum)
        if self.step % FADE_CHECK == 0:
            # where gradients stay 0 momenta would become denormal, on which CPUs are fifty times slower
            momentum[np.abs(momentum) < FADED] = 0
        np.multiply(gradient, gradient, out=out)
        np.multiply(square, self.beta2, out=square)
        np.add(square, out, out=square)
        np.sqrt(square, out=out)
        np.add(out, self._epsilon, out=out)
        np.divide(momentum, out, out=out)
        np.multiply(out, self._rate, out=out)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"learn_rate": self.learn_rate, "beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}

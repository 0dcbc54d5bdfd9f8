"""Plain stochastic gradient descent."""

import numpy as np

from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent


class SGDOptimizer(IGradientDescent):
    """w <- w - learn_rate * g (Robbins and Monro, 1951)."""

    def __init__(self, learn_rate: float = 0.01) -> None:
        super().__init__(learn_rate)

    def increment(self, gradient: Array, out: Array, *slots: Array) -> None:
        """Write -learn_rate * g."""
        np.multiply(gradient, -self.learn_rate, out=out)

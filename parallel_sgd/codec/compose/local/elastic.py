"""Workers that the mean draws, but does not replace."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nn import arguments
from parallel_sgd.codec.interfaces import Array

from .rule import LocalRule


class Elastic(LocalRule):
    """w <- (1 - alpha) w + alpha mean(w): workers keep models of their own, which explore, and stay near their mean.

    The mean of all workers stays what it is; what differs from it shrinks by 1 - alpha in each exchange. With alpha = 1 all
    take the mean. Mai et al., "KungFu: making training in distributed machine learning adaptive", 2020, calls it synchronous
    model averaging (SMA); its origin is Zhang, Choromanska and LeCun, "Deep learning with elastic averaging SGD", 2015, where
    the mean is that over time, too.

    Raises: TypeError, ValueError unless 0 < alpha <= 1.
    """

    sends: ClassVar[tuple[str, ...]] = ("weights",)
    agrees: ClassVar[bool] = False

    def __init__(self, alpha: float = 0.1) -> None:
        self.alpha = arguments.number(self, "alpha", alpha, 0, open_low=True)
        if self.alpha > 1:
            raise ValueError(f"Elastic 'alpha' must be a number > 0 and <= 1, got {alpha}")
        self._own: Array = np.empty(0, np.float32)

    def outgoing(self, value: Array, dense: bool) -> Array:
        """Keep the own parameters until the mean is there."""
        self._own = value.copy()
        return value

    def incoming(self, merged: Array, dense: bool) -> Array:
        """Return the own parameters, drawn towards the mean."""
        result = np.subtract(merged, self._own)
        np.multiply(result, self.alpha, out=result)
        return np.add(self._own, result, out=result)

    def __repr__(self) -> str:
        return f"Elastic(alpha={self.alpha:g})"

"""What exchange patterns among neighbours have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from nn import arguments
from parallel_sgd.codec.pipeline import Draw

from .exchange import ExchangePattern


class Neighbours(ExchangePattern):
    """Every worker mixes what a few others have with its own, so models differ and come together over time.

    For parameters: `send="weights"` with op_type=ParameterAveragingOptimizer. `gamma` is the step towards what is decoded
    where a pipeline leaves something out.

    Raises: TypeError, ValueError unless 0 < gamma <= 1.
    """

    agrees: ClassVar[bool] = False

    def __init__(self, gamma: float = 1.0) -> None:
        self.gamma = arguments.number(self, "gamma", gamma, 0, open_low=True)
        if self.gamma > 1:
            raise ValueError(f"{type(self).__name__} 'gamma' must be a number > 0 and <= 1, got {gamma}")

    def fit(self, workers: int) -> None:
        """Raise ValueError where the pattern is not one for this number of workers."""
        return

    @abstractmethod
    def weights(self, node: int, workers: int, draw: Draw) -> dict[int, float]:
        """Return the weights of a worker and of its neighbours in a batch. Who is a neighbour has the same weight back."""

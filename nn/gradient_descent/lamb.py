"""LAMB."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from nn.arrays import Array, empty
from nn.gradient_descent.adam import ADAMOptimizer
from nn.gradient_descent.clipping import norm
from nn.gradient_descent.interface import CHUNK
from nn.gradient_descent.schedule.schedule import Schedule


class LAMBOptimizer(ADAMOptimizer):
    """Adam with a step for each variable in proportion to its norm, for large batches (You et al., 2020):

    r = m^ / (sqrt(v^) + epsilon) + weight_decay * w,  w <- w - learn_rate * (|w| / |r|) * r,

    with the corrected moments m^ and v^ of Adam; the quotient is 1 where either norm is 0. The paper's phi is the identity.
    Norms are those of one variable, so the rule must know where each begins: `partition(sizes)` tells it. It works on the
    whole vector only.

    >>> rule, w = nn.gradient_descent.LAMBOptimizer(0.1), np.array([1.0, 2.0])
    >>> rule.partition([2])
    >>> rule.update(w, np.array([0.5, -1.0]))
    >>> w.round(4).tolist()
    [0.8395, 2.1557]
    """

    decoupled: ClassVar[bool] = True

    def __init__(
        self,
        learn_rate: float | Schedule = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay: float = 0.01,
        clip_value: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learn_rate, beta1, beta2, epsilon, weight_decay, clip_value, clip_norm)
        self._variables: list[slice] = []
        self._change: Array = np.empty(0)

    @property
    def elementwise(self) -> bool:
        """No: a parameter changes by the norm of its variable."""
        return False

    def partition(self, sizes: Sequence[int]) -> None:
        """Take the sizes of the variables, in order."""
        super().partition(sizes)
        ends = np.cumsum(sizes, dtype=int).tolist()
        self._variables = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def update(self, parameters: Array, gradients: Array) -> None:
        """Change `parameters` in place by one step."""
        if self._change.shape != parameters.shape or self._change.dtype != parameters.dtype:
            self._change = empty(parameters.shape, parameters.dtype)
        self.delta(parameters, gradients, self._change)
        np.add(parameters, self._change, out=parameters)

    def delta(self, parameters: Array, gradients: Array, out: Array) -> None:
        """Write the increment of one step into `out`; raise ValueError unless `partition` fits the vector."""
        covered = self._variables[-1].stop if self._variables else 0
        if parameters.shape == gradients.shape and covered != parameters.size:
            raise ValueError(
                f"LAMBOptimizer takes the whole vector, variable by variable, and must be told their sizes by partition() "
                f"(optimizers do): it knows of {covered} parameters, got {parameters.size}"
            )
        super().delta(parameters, gradients, out)
        for variable in self._variables:
            change = out[variable]
            length, step = norm(_pieces(parameters[variable])), norm(_pieces(change))
            np.multiply(change, -self.rate * (length / step if length and step else 1.0), out=change)

    def begin_step(self) -> None:
        """Have `increment` write the direction r: its length is known when a whole variable is done."""
        self.correct(1.0)

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        """Update both slots of a chunk and write r."""
        super().increment(value, gradient, out, *slots)
        if self.weight_decay:
            np.add(out, np.multiply(value, self.weight_decay, out=self.spare(out)), out=out)


def _pieces(vector: Array) -> list[Array]:
    return [vector[start : start + CHUNK] for start in range(0, len(vector), CHUNK)]

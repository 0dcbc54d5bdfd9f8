"""Parallel stochastic gradient descent: workers exchange raw gradients."""

from collections.abc import Iterator

import numpy as np

from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer.exchange import Exchange
from nn.optimizer.interface import IOptimizer
from nn.value import Variable, VariableStore

__all__ = ["IOptimizer", "PSGDOptimizer"]


class PSGDOptimizer(IOptimizer):
    """Puts each gradient the moment it exists, last layer first; after the batch it gets the merged ones and applies the rule.

    Every node applies the same rule to the same merged gradients, so that n workers compute what one computes on the whole
    batch, for every rule.
    """

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        if exchange is None:
            raise ValueError(
                "PSGDOptimizer exchanges gradients and needs an exchange; it runs in ParallelSGD.parallel(). "
                "To train in this process, compile the model with a rule or with GDOptimizer"
            )
        super().__init__(rule, store, exchange)
        self._partners: Exchange = exchange

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        """Put the gradient of one variable for one block."""
        self._partners.put(variable.id, block_id, variable.gradient)

    def finish_batch(self) -> Iterator[int]:
        """Wait for every merged gradient in the order in which they were put, then apply the rule to all of them."""
        for variable in reversed(self.store.variables):
            while not self._partners.ready(variable.id):
                yield variable.id
        for variable in self.store.variables:
            np.copyto(variable.gradient, self._partners.get(variable.id))
        self.rule.update(self.store.values, self.store.gradients)

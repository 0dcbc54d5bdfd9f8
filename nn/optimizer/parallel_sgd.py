"""Parallel stochastic gradient descent: workers exchange raw gradients."""

from collections.abc import Iterator

from nn.optimizer.exchanging import ExchangingOptimizer
from nn.optimizer.interface import IOptimizer
from nn.value import Variable

__all__ = ["IOptimizer", "PSGDOptimizer"]


class PSGDOptimizer(ExchangingOptimizer):
    """Puts each gradient the moment it exists, last layer first; after the batch it gets the merged ones and applies the rule.

    Every node applies the same rule to the same merged gradients, so that n workers compute what one computes on the whole
    batch, for every rule.

    >>> op = nn.optimizer
    >>> container = op.OpContainer(op.PSGDOptimizer, nn.gradient_descent.SGDOptimizer, gd_params=(0.1,))
    >>> container.op_type.puts, container.op_type.gets
    ('gradients', 'gradients')
    """

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        """Put the gradient of one variable for one block."""
        self.partners.put(variable.id, block_id, variable.gradient)

    def finish_batch(self) -> Iterator[int]:
        """Wait for every merged gradient in the order in which they were put, then apply the rule to all of them."""
        yield from self.wait()
        self.take([variable.gradient for variable in self.store.variables])
        self.rule.update(self.store.values, self.store.gradients)
        self.store.apply_changes()

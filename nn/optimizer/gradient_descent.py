"""Training in one process."""

from collections.abc import Iterator
from typing import ClassVar

from nn.optimizer.interface import IOptimizer
from nn.value import Variable


class GDOptimizer(IOptimizer):
    """Gradient descent with the gradients of this process; it waits for nobody."""

    exchanges: ClassVar[bool] = False

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        """Nothing to do: the store holds the gradient."""

    def finish_batch(self) -> Iterator[int]:
        """Apply the rule to the whole parameter vector."""
        self.rule.update(self.store.values, self.store.gradients)
        self.store.apply_changes()
        return iter(())

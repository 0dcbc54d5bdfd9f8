"""Workers exchange parameters."""

from collections.abc import Iterator
from typing import ClassVar

from nn.optimizer.local_rule import LocalRuleOptimizer


class ParameterAveragingOptimizer(LocalRuleOptimizer):
    """Each worker steps with its own gradient and rule; then all take the mean of the parameters of all workers.

    Starting from equal parameters one batch with SGD is one of PSGDOptimizer, up to rounding. With other rules each worker
    has moments of its own.
    """

    puts: ClassVar[str] = "parameters"
    gets: ClassVar[str] = "parameters"

    def finish_batch(self) -> Iterator[int]:
        """Step, put the parameters, wait for the merged ones and take them over."""
        self.rule.update(self.store.values, self.mean_gradient())
        if self.due():
            values = [variable.value for variable in self.store.variables]
            yield from self.exchange_all(values)
            self.take(values)
        self.end_batch()

    def due(self) -> bool:
        """Whether the parameters are exchanged after this batch."""
        return True

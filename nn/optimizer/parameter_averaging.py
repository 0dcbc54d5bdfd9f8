"""Workers exchange parameters."""

from collections.abc import Iterator
from typing import ClassVar

from nn.arrays import Array
from nn.optimizer.local_rule import LocalRuleOptimizer


class ParameterAveragingOptimizer(LocalRuleOptimizer):
    """Each worker steps with its own gradient and rule; then all take the mean of the parameters of all workers.

    Starting from equal parameters one batch with SGD is one of PSGDOptimizer, up to rounding, if all workers have equally many
    samples. With other rules each worker
    has moments of its own. Buffers go the way of the parameters.

    >>> op = nn.optimizer
    >>> container = op.OpContainer(op.ParameterAveragingOptimizer, nn.gradient_descent.SGDOptimizer, gd_params=(0.1,))
    >>> container.op_type.puts, container.op_type.gets
    ('parameters', 'parameters')
    """

    puts: ClassVar[str] = "parameters"
    gets: ClassVar[str] = "parameters"

    @property
    def exchanged_buffers(self) -> Array:
        """Their values."""
        return self.store.buffer_values

    def finish_batch(self) -> Iterator[int]:
        """Step, put the parameters, wait for the merged ones and take them over."""
        self.rule.update(self.store.values, self.mean_gradient())
        self.gather_changes()
        self.store.apply_changes()
        if self.due():
            values = [variable.value for variable in self.store.variables]
            yield from self.exchange_all(values)
            self.take(values)
        self.end_batch()

    def due(self) -> bool:
        """Whether the parameters are exchanged after this batch."""
        return True

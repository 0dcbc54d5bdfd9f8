"""Gradients up, parameters down."""

from collections.abc import Iterator
from typing import ClassVar

from nn.optimizer.exchanging import ExchangingOptimizer
from nn.value import Variable


class GradientAveragingOptimizer(ExchangingOptimizer):
    """Puts each gradient the moment it exists; what comes back are the parameters themselves, which replace the worker's.

    For a parameter server that keeps the parameters and applies a rule of its own to the averaged gradients: the workers'
    codecs must send to such a server, and their rule is not used.

    >>> op = nn.optimizer
    >>> container = op.OpContainer(op.GradientAveragingOptimizer, nn.gradient_descent.SGDOptimizer, gd_params=(0.1,))
    >>> container.op_type.puts, container.op_type.gets
    ('gradients', 'parameters')
    """

    gets: ClassVar[str] = "parameters"

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        """Put the gradient of one variable for one block."""
        self.partners.put(variable.id, block_id, variable.gradient)

    def finish_batch(self) -> Iterator[int]:
        """Wait for the parameters, then take them over."""
        yield from self.wait()
        self.take([variable.value for variable in self.store.variables])
        self.store.apply_changes()

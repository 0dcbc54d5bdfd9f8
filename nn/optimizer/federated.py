"""Workers train alone and exchange parameters now and then."""

from typing import ClassVar

from nn import arguments
from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer.exchange import Exchange
from nn.optimizer.parameter_averaging import ParameterAveragingOptimizer
from nn.value import VariableStore


class FederatedOptimizer(ParameterAveragingOptimizer):
    """Federated averaging (McMahan et al., 2017): `local_batches` steps alone, then the mean of all workers' parameters.

    A subclass says how many: `class Often(FederatedOptimizer): local_batches = 10`; with 1 this is
    ParameterAveragingOptimizer. Batches are counted by the rule's steps. Between exchanges, and after the last batch unless
    that was one, every worker has parameters and buffers of its own.

    >>> op = nn.optimizer
    >>> container = op.OpContainer(op.FederatedOptimizer, nn.gradient_descent.SGDOptimizer, gd_params=(0.1,))
    >>> container.op_type.puts, container.op_type.gets
    ('parameters', 'parameters')
    """

    local_batches: ClassVar[int] = 150
    """Batches from one exchange to the next."""

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        super().__init__(rule, store, exchange)
        arguments.integer(self, "local_batches", self.local_batches, minimum=1)

    def due(self) -> bool:
        """Whether as many batches have passed."""
        return self.rule.step % self.local_batches == 0

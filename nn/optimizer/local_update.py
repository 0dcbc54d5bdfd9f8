"""Workers exchange updates."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer.exchange import Exchange
from nn.optimizer.local_rule import LocalRuleOptimizer
from nn.optimizer.vectors import ModelVector
from nn.value import VariableStore


class LocalUpdateOptimizer(LocalRuleOptimizer):
    """The rule turns the worker's own gradient into an update; the merged updates of all workers are added to the parameters.

    With SGD this is PSGDOptimizer, up to rounding, but in a last, shorter batch of an epoch, where each worker takes the mean
    over its own samples, be they many or few. With other rules each worker has moments of its own, which a codec that loses
    part of what it sends cannot spoil: the right choice for codecs with error feedback. The parameters of all workers
    stay equal.

    >>> op = nn.optimizer
    >>> container = op.OpContainer(op.LocalUpdateOptimizer, nn.gradient_descent.SGDOptimizer, gd_params=(0.1,))
    >>> container.op_type.puts, container.op_type.gets
    ('updates', 'updates')
    """

    puts: ClassVar[str] = "updates"
    gets: ClassVar[str] = "updates"

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        super().__init__(rule, store, exchange)
        self._update = ModelVector.like(store)

    def finish_batch(self) -> Iterator[int]:
        """Put the own update, wait for the merged one and add it."""
        self.rule.delta(self.store.values, self.mean_gradient(), self._update.whole)
        self.gather_changes()
        yield from self.exchange_all(self._update.parts)
        self.take(self._update.parts)
        np.add(self.store.values, self._update.whole, out=self.store.values)
        self.store.apply_changes()
        self.end_batch()

"""Optimizers that apply the rule on the worker, before anything is exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array, zeros
from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer.interface import Exchange
from nn.optimizer.parallel_sgd import ExchangingOptimizer
from nn.value.store import ModelVector, VariableStore
from nn.value.value import Variable


class LocalRuleOptimizer(ExchangingOptimizer):
    """Optimizer with a rule that makes one step of the mean gradient of the worker's own blocks.

    The result belongs to the worker, not to a block, and is put under the id of each of its blocks. So the merged
    result, a mean over blocks, weighs every worker by the number of its blocks.
    """

    by_block: ClassVar[bool] = False

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        super().__init__(rule, store, exchange)
        self._sum = ModelVector.like(store)
        self._changes = zeros(store.buffer_changes.shape, store.dtype)
        self._blocks: list[int] = []

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        # Called for each variable, so a block is met many times.
        if block_id not in self._blocks:
            self._blocks.append(block_id)
        total = self._sum.parts[variable.id]
        # The first block overwrites, so that the sum need not be cleared.
        if len(self._blocks) == 1:
            np.copyto(total, variable.gradient)
        else:
            np.add(total, variable.gradient, out=total)

    def mean_gradient(self) -> Array:
        """Return the mean gradient of this batch's blocks, in the order in which they were computed."""
        if len(self._blocks) > 1:
            np.divide(self._sum.whole, len(self._blocks), out=self._sum.whole)
        return self._sum.whole

    def buffers_ready(self, block_id: int) -> None:
        np.add(self._changes, self.store.buffer_changes, out=self._changes)

    def gather_changes(self) -> None:
        """Leave the mean of the changes of this batch's blocks in the store."""
        if self.store.buffers:
            np.divide(self._changes, len(self._blocks), out=self.store.buffer_changes)
            self._changes[:] = 0

    def exchange_all(self, contents: Sequence[Array]) -> Iterator[int]:
        """Put one array per variable, and the buffers, for each own block; wait until all results are ready."""
        # As the others expect them: last layer first.
        for variable in reversed(self.store.variables):
            for block in self._blocks:
                self.partners.put(variable.id, block, contents[variable.id])
        if self.store.buffers:
            for block in self._blocks:
                self.partners.put(self.buffers_id, block, self.exchanged_buffers)
        yield from self.wait()

    def end_batch(self) -> None:
        """Get ready for the next batch."""
        self._blocks.clear()


class LocalUpdateOptimizer(LocalRuleOptimizer):
    """The rule turns the worker's own gradient into an update; the merged updates of all workers are added to the parameters.

    With SGD this is PSGDOptimizer, up to rounding, but in a last, shorter batch of an epoch, where each worker takes the mean
    over its own samples, be they many or few. With other rules each worker has moments of its own, which a codec that loses
    part of its input cannot spoil: the right choice for codecs with error feedback. The parameters of all workers
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
        # The change, not the new parameters: those are equal on all workers and must stay so.
        self.rule.write_change(self.store.values, self.mean_gradient(), self._update.whole)
        self.gather_changes()
        yield from self.exchange_all(self._update.parts)
        self.take(self._update.parts)
        np.add(self.store.values, self._update.whole, out=self.store.values)
        # Behind the merged update, so that constraints hold for the new parameters.
        self.store.apply_changes()
        self.end_batch()


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
        return self.store.buffer_values

    def finish_batch(self) -> Iterator[int]:
        """Step, put the parameters, wait for the merged ones and take them over."""
        self.rule.update(self.store.values, self.mean_gradient())
        self.gather_changes()
        # Also between exchanges: each worker has buffers of its own until the next one.
        self.store.apply_changes()
        if self.due():
            values = [variable.value for variable in self.store.variables]
            yield from self.exchange_all(values)
            self.take(values)
        self.end_batch()

    def due(self) -> bool:
        """Return whether the parameters are exchanged after this batch."""
        return True


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
        # The rule's count is saved with its state, so that a run that goes on exchanges in the same batches.
        return self.rule._step_number % self.local_batches == 0

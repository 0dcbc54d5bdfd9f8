"""What optimizers have in common that apply the rule on the worker, before anything is exchanged."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from nn.arrays import Array, zeros
from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer.exchange import Exchange
from nn.optimizer.exchanging import ExchangingOptimizer
from nn.optimizer.vectors import ModelVector
from nn.value import Variable, VariableStore


class LocalRuleOptimizer(ExchangingOptimizer):
    """Averages the gradients of the worker's own blocks; the rule makes one step of them.

    What comes out belongs to the worker, not to a block, and is put under the id of each of its blocks. So the merged
    result, a mean over blocks, weighs every worker by the number of its blocks.
    """

    by_block: ClassVar[bool] = False

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        super().__init__(rule, store, exchange)
        self._sum = ModelVector.like(store)
        self._changes = zeros(store.buffer_changes.shape, store.dtype)
        self._blocks: list[int] = []

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        """Add the gradient of one variable for one block to that of the blocks before."""
        if block_id not in self._blocks:
            self._blocks.append(block_id)
        total = self._sum.parts[variable.id]
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
        """Add the changes of the buffers for one block to those of the blocks before."""
        np.add(self._changes, self.store.buffer_changes, out=self._changes)

    def gather_changes(self) -> None:
        """Leave the mean of the changes of this batch's blocks in the store."""
        if self.store.buffers:
            np.divide(self._changes, len(self._blocks), out=self.store.buffer_changes)
            self._changes[:] = 0

    def exchange_all(self, contents: Sequence[Array]) -> Iterator[int]:
        """Put one array per variable, and the buffers, for each own block; wait until all results are ready."""
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

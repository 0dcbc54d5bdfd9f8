"""What all optimizers have in common that work together with other workers."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer.exchange import Exchange
from nn.optimizer.interface import IOptimizer
from nn.value import VariableStore


class ExchangingOptimizer(IOptimizer):
    """An optimizer that puts something for every variable and block, and gets the merged results."""

    puts: ClassVar[str] = "gradients"
    """What it puts: "gradients", "updates" or "parameters"."""

    gets: ClassVar[str] = "gradients"
    """What it takes the results for. Where this differs from `puts`, the codec (a server) must turn one into the other."""

    by_block: ClassVar[bool] = True
    """Whether the content of a block depends on that block alone. If not, it depends on all blocks of the worker, and
    workers that share a block must share all of them, or their copies of it differ."""

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        if exchange is None:
            raise ValueError(
                f"{type(self).__name__} exchanges {self.puts} and needs an exchange; it runs in ParallelSGD.parallel(). "
                f"To train in this process, compile the model with a rule or with GDOptimizer"
            )
        super().__init__(rule, store, exchange)
        self.partners: Exchange = exchange

    @property
    def buffers_id(self) -> int:
        """The id under which all buffers are exchanged, as one vector."""
        return len(self.store.variables)

    @property
    def exchanged_buffers(self) -> Array:
        """What is put for the buffers, and where the result is written to: the changes, which `store.apply_changes` adds."""
        return self.store.buffer_changes

    def buffers_ready(self, block_id: int) -> None:
        """Put the changes of the buffers for one block."""
        if self.store.buffers:
            self.partners.put(self.buffers_id, block_id, self.exchanged_buffers)

    def wait(self) -> Iterator[int]:
        """Yield ids until the result of every variable is ready, last layer first, as they were put; then merge the buffers."""
        for variable in reversed(self.store.variables):
            while not self.partners.ready(variable.id):
                yield variable.id
        yield from self.merge_buffers()

    def merge_buffers(self) -> Iterator[int]:
        """Wait for what became of the buffers and take it over."""
        if self.store.buffers:
            while not self.partners.ready(self.buffers_id):
                yield self.buffers_id
            np.copyto(self.exchanged_buffers, self.partners.get(self.buffers_id))

    def take(self, targets: Sequence[Array]) -> None:
        """Copy the results into arrays, one per variable."""
        for variable, target in zip(self.store.variables, targets, strict=True):
            np.copyto(target, self.partners.get(variable.id))

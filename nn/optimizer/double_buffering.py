"""Gradients travel while the next batch is computed."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np

from nn.arrays import Array
from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer.exchange import Exchange
from nn.optimizer.exchanging import ExchangingOptimizer
from nn.optimizer.vectors import ModelVector
from nn.value import Variable, VariableStore

_PENDING = "pending:"


class DoubleBufferingOptimizer(ExchangingOptimizer):
    """Like PSGDOptimizer with a delay of one batch: batch t sends the gradients of batch t - 1 and applies them at its end,

    w(t + 1) = w(t) + rule(mean over blocks of g(t - 1)),  where g(t - 1) was computed at w(t - 1);  w(1) = w(0).

    So communication has the whole of batch t to be done. The first batch exchanges and applies nothing; the gradients of the
    last batch wait in the state. Every worker applies the same merged gradients.

    All is sent by `begin_batch`, or where nobody calls that, when the first gradient of the batch is ready. Memory: two
    copies of the gradients per own block.
    """

    late_batches: ClassVar[int] = 1
    """How many batches before the present one the gradients are from that a batch exchanges."""

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        super().__init__(rule, store, exchange)
        self._pending: dict[int, ModelVector] = {}
        self._fresh: dict[int, ModelVector] = {}
        self._spare: list[ModelVector] = []
        self._sent = False

    def begin_batch(self) -> None:
        """Put the gradients of the batch before."""
        self._sent = True
        for variable in reversed(self.store.variables):
            for block, gradients in self._pending.items():
                self.partners.put(variable.id, block, gradients.parts[variable.id])

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        """Keep the gradient of one variable for one block until the next batch."""
        if not self._sent:
            self.begin_batch()
        if block_id not in self._fresh:
            self._fresh[block_id] = self._spare.pop() if self._spare else ModelVector.like(self.store)
        np.copyto(self._fresh[block_id].parts[variable.id], variable.gradient)

    def finish_batch(self) -> Iterator[int]:
        """Wait for the merged gradients of the batch before and apply the rule to them."""
        if self._pending:
            yield from self.wait()
            self.take([variable.gradient for variable in self.store.variables])
            self.rule.update(self.store.values, self.store.gradients)
        self._spare += self._pending.values()
        self._pending, self._fresh, self._sent = self._fresh, {}, False
        self.store.apply_changes()

    def state_dict(self) -> dict[str, Array | int | float]:
        """Return the state of the rule, and the gradients of the last batch as `pending:<block>`."""
        pending = {f"{_PENDING}{block}": gradients.whole for block, gradients in self._pending.items()}
        return {**super().state_dict(), **pending}

    def load_own_state(self, state: Mapping[str, Array | int | float]) -> None:
        """Take over the gradients that wait; raise ValueError where they do not fit the model."""
        pending: dict[int, ModelVector] = {}
        for name, value in state.items():
            block, given = name.removeprefix(_PENDING), np.asarray(value)
            if name == block or not block.isdecimal():
                raise ValueError(f"{type(self).__name__} state must hold 'pending:<block>' beside the rule's, got {name!r}")
            if given.shape != self.store.values.shape or given.dtype != self.store.dtype:
                raise ValueError(
                    f"{type(self).__name__} state '{name}' must be {self.store.dtype} of shape {self.store.values.shape}, "
                    f"got {given.dtype} of shape {given.shape}"
                )
            pending[int(block)] = ModelVector.like(self.store)
            np.copyto(pending[int(block)].whole, given)
        self._pending, self._fresh, self._sent = pending, {}, False

"""Gradients travel while the next batch is computed."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from nn.arrays import Array, zeros
from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer.interface import Exchange
from nn.optimizer.parallel_sgd import ExchangingOptimizer
from nn.value.store import ModelVector, VariableStore
from nn.value.value import Variable

_PENDING = "pending:"
_CHANGES = "changes:"


class _Kept(NamedTuple):
    """Gradients and changes that one block leaves for the next batch."""

    gradients: ModelVector
    changes: Array

    @staticmethod
    def like(store: VariableStore) -> "_Kept":
        return _Kept(ModelVector.like(store), zeros(store.buffer_changes.shape, store.dtype))


class DoubleBufferingOptimizer(ExchangingOptimizer):
    """Like PSGDOptimizer with a delay of one batch: batch t sends the gradients of batch t - 1 and applies them at its end,

    w(t + 1) = w(t) + rule(mean over blocks of g(t - 1)),  where g(t - 1) was computed at w(t - 1);  w(1) = w(0).

    So communication has the whole of batch t to be done. The first batch exchanges and applies nothing; the gradients of the
    last batch wait in the state. Every worker applies the same merged gradients.

    All is sent by `begin_batch`, or where the engine does not call that, when the first gradient of the batch is ready. Changes
    of buffers are one batch late, too. Memory: two copies of the gradients per own block.

    >>> op = nn.optimizer
    >>> container = op.OpContainer(op.DoubleBufferingOptimizer, nn.gradient_descent.SGDOptimizer, gd_params=(0.1,))
    >>> container.op_type.puts, container.op_type.gets
    ('gradients', 'gradients')
    """

    def __init__(self, rule: IGradientDescent, store: VariableStore, exchange: Exchange | None = None) -> None:
        super().__init__(rule, store, exchange)
        self._pending: dict[int, _Kept] = {}
        self._fresh: dict[int, _Kept] = {}
        self._spare: list[_Kept] = []
        self._sent = False

    def begin_batch(self) -> None:
        self._sent = True
        # The order in which backward completes them, alike on every worker.
        for variable in reversed(self.store.variables):
            for block, kept in self._pending.items():
                self.partners.put(variable.id, block, kept.gradients.parts[variable.id])
        if self.store.buffers:
            for block, kept in self._pending.items():
                self.partners.put(self.buffers_id, block, kept.changes)

    def gradient_ready(self, variable: Variable, block_id: int) -> None:
        if not self._sent:
            self.begin_batch()
        if block_id not in self._fresh:
            self._fresh[block_id] = self._spare.pop() if self._spare else _Kept.like(self.store)
        # a copy, because the next block overwrites the gradients in the store before these are sent
        np.copyto(self._fresh[block_id].gradients.parts[variable.id], variable.gradient)

    def buffers_ready(self, block_id: int) -> None:
        np.copyto(self._fresh[block_id].changes, self.store.buffer_changes)

    def finish_batch(self) -> Iterator[int]:
        """Wait for the merged gradients of the batch before and apply the rule to them."""
        if self._pending:
            yield from self.wait()
            # In the store, where a reader looks for the gradients that were applied.
            self.take([variable.gradient for variable in self.store.variables])
            self.rule.update(self.store.values, self.store.gradients)
            self.store.apply_changes()
        # The memory of gradients that have been applied serves the next batch.
        self._spare += self._pending.values()
        self._pending, self._fresh, self._sent = self._fresh, {}, False

    def state_dict(self) -> dict[str, Array | int | float]:
        pending = {f"{_PENDING}{block}": kept.gradients.whole for block, kept in self._pending.items()}
        changes = {f"{_CHANGES}{block}": kept.changes for block, kept in self._pending.items() if self.store.buffers}
        return {**super().state_dict(), **pending, **changes}

    def load_own_state(self, state: Mapping[str, Array | int | float]) -> None:
        """Take over the gradients and changes that wait; raise ValueError where they do not fit the model."""
        pending: dict[int, _Kept] = {}
        for name, value in state.items():
            kind, _, block = name.rpartition(":")
            if f"{kind}:" not in (_PENDING, _CHANGES) or not block.isdecimal():
                raise ValueError(f"{type(self).__name__} state must hold 'pending:<block>' beside the rule's, got {name!r}")
            kept = pending.setdefault(int(block), _Kept.like(self.store))
            target, given = kept.gradients.whole if name.startswith(_PENDING) else kept.changes, np.asarray(value)
            if given.shape != target.shape or given.dtype != self.store.dtype:
                raise ValueError(
                    f"{type(self).__name__} state '{name}' must be {self.store.dtype} of shape {target.shape}, "
                    f"got {given.dtype} of shape {given.shape}"
                )
            np.copyto(target, given)
        # Only now, when everything fits: a state that is refused changes nothing.
        self._pending, self._fresh, self._sent = pending, {}, False

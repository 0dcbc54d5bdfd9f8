"""Models of the rounds with which clients begin: that of now, and in asynchronous rounds those of clients that still train."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from nn.arrays import Array
from nn.value.store import VariableStore

__all__ = ["Versions"]


class Versions:
    """Parameters and statistics of the global model before rounds that clients in training began with.

    Args:
        store: that of the model.
        memory: the arrays by name, as a checkpoint keeps them; those of a training that goes on are in it.
    """

    def __init__(self, store: VariableStore, memory: dict[str, Array]) -> None:
        self._store, self._memory = store, memory
        self._free: list[tuple[Array, Array]] = []

    def begin(self, number: int) -> tuple[Array, Array]:
        """Keep the model before a round, and return its parameters and statistics.

        Args:
            number: that of the round.
        """
        found = self._store.values, self._store.buffer_values
        # memory of a round that is over: in rounds that follow each other one model is kept, in the same memory
        kept = self._free.pop() if self._free else tuple([np.empty_like(each) for each in found])
        for name, own, value in zip(_names(number), kept, found, strict=True):
            np.copyto(own, value)
            self._memory[name] = own
        return self[number]

    def __getitem__(self, number: int) -> tuple[Array, Array]:
        values, statistics = _names(number)
        return self._memory[values], self._memory[statistics]

    def end(self, waiting: Collection[int]) -> None:
        """Forget the models with which no client trains any more.

        Args:
            waiting: numbers of the rounds with models that are kept.
        """
        for number in {int(name.split()[0]) for name in self._memory}.difference(waiting):
            values, statistics = _names(number)
            self._free.append((self._memory.pop(values), self._memory.pop(statistics)))


def _names(number: int) -> tuple[str, str]:
    return f"{number} values", f"{number} statistics"

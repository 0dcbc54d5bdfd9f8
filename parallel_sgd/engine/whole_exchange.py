"""Exchange of an optimizer that puts and gets single variables, where one codec has all of them as one flat vector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

import numpy as np

from nn.arrays import Array, empty
from nn.optimizer import IOptimizer

from ..batch_sync.sync.interface import ISyncType
from ..codec.bank import CodecBank
from .channel import Wait
from .exchange import BlockExchange, ReplacementCheck
from .merge import MeanOfHalves


class WholeExchange(BlockExchange):
    """Exchange that collects the variables of a block into one vector, and gives each variable its part of the result.

    A block's vector goes to the codec when its last variable has been put. Ids behind those of the variables are shifted to
    the places behind the vector, so that an optimizer, also one of a user's own, need not know of it.

    Args:
        bank: the codecs of the worker: that of all variables, and that of the buffers, if there are any.
        sync: the sync type; it decides when a result is ready.
        replaced: looks at the first results where they replace parameters, or None.
        names: those of the variables.
        shapes: those of the variables.
    """

    def __init__(
        self,
        bank: CodecBank,
        sync: ISyncType,
        replaced: ReplacementCheck | None,
        names: Sequence[str],
        shapes: Sequence[tuple[int, ...]],
    ) -> None:
        super().__init__(bank, sync, replaced, names)
        self._shapes = list(shapes)
        ends = np.cumsum([0, *map(prod, shapes)]).tolist()
        self._parts = [slice(*each) for each in pairwise(ends)]
        self._vectors: dict[int, Array] = {}  # by block: all stay until the batch is over, so codecs may keep them
        self._missing: dict[int, int] = {}  # variables that a block's vector still lacks
        self._result: Array | None = None
        self.ready = lambda variable: sync.ready(self._place(variable))
        self.wait = self._wait

    def _place(self, variable: int) -> int:
        return max(0, variable - len(self._parts) + 1)

    def _wait(self, variable: int) -> Iterator[Wait]:
        return self.sync.wait(self._place(variable))

    def begin(self, epoch: int, batch: int) -> None:
        self._result = None
        super().begin(epoch, batch)

    def pairs(self, optimizer: IOptimizer) -> frozenset[int]:
        """Return no blocks: a vector holds the gradient of one block."""
        return frozenset()

    def put(self, variable_id: int, block_id: int, content: Array) -> None:
        """Add a variable to the vector of its block, which may be overwritten then; the last one sends it."""
        if variable_id >= len(self._parts):
            super().put(self._place(variable_id), block_id, content)
            return
        vector = self._vectors.get(block_id)
        if vector is None:
            vector = self._vectors[block_id] = empty((self._parts[-1].stop,), content.dtype)
        np.copyto(vector[self._parts[variable_id]], content.reshape(-1))
        missing = self._missing[block_id] = self._missing.get(block_id, len(self._parts)) - 1
        if not missing:
            del self._missing[block_id]
            view = vector.view()
            view.flags.writeable = False
            self._views[0] = (vector, view)  # the form that results are compared with
            self._put(0, block_id, view)

    def read(self, variable_id: int) -> Array | MeanOfHalves:
        """Return the part of the merged result that belongs to a variable; the whole is looked at once in a batch."""
        if variable_id >= len(self._parts):
            return super().read(self._place(variable_id))
        if self._result is None:
            found = super().read(0)
            self._result = found.whole() if isinstance(found, MeanOfHalves) else found
        return self._result[self._parts[variable_id]].reshape(self._shapes[variable_id])

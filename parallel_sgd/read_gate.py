"""Which workers may read from the parameter server, so that nobody gets too far ahead of the slowest one."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

Step = tuple[int, int]  # (epoch, batch), counted from 0


class Read(NamedTuple):
    """A worker that waits for an answer; `clock` counts the batches in which it has sent something, this one included."""

    clock: int
    node: int
    step: Step


class ReadGate:
    """The waiting reads of one variable. A read with clock c opens when c - (clock of the slowest worker) <= `staleness`.

    So it contains what every worker has sent in its first c - `staleness` batches (Ho et al., NIPS 2013).
    """

    def __init__(self, workers: Collection[int], staleness: float) -> None:
        self._staleness = staleness
        self._clocks = dict.fromkeys(workers, 0)
        self._steps: dict[int, Step] = {}
        self._waiting: list[Read] = []

    @property
    def waiting(self) -> bool:
        """Whether a read waits."""
        return bool(self._waiting)

    def arrived(self, node: int, step: Step) -> None:
        """A packet of `node` has been given to the codec; a second one of the same batch is answered again."""
        newest = self._steps.get(node)
        if newest is None or step > newest:
            self._steps[node] = step
            self._clocks[node] += 1
        if newest is None or step >= newest:
            read = Read(self._clocks[node], node, step)
            if read not in self._waiting:
                self._waiting.append(read)

    def open(self, present: Collection[int]) -> list[Read]:
        """The reads that need not wait any more, in the order of their arrival. Only workers in `present` are waited for."""
        if not self._waiting:
            return []
        slowest = min((self._clocks[node] for node in present if node in self._clocks), default=0)
        opened = [read for read in self._waiting if read.clock - slowest <= self._staleness]
        if opened:
            self._waiting = [read for read in self._waiting if read not in opened]
        return opened

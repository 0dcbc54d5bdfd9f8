"""Gradient coding among workers, without a server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .grad_code import GradCode
from .interfaces import Array, BlockWeight, netEncapsulation


class GradCodePeers(GradCode):
    """`GradCode` where every worker sends its coded sum to all others and decodes the first n - s that are there.

    Workers that have heard different ones get means that differ by rounding (`GradCode` tells how much), and so do their
    models, as if each summed in another order: none can know which sums the others have had without waiting for the slow ones.
    Where replicas must have the same bits, take `GradCode` with a server; or `Plain` with the same `CyclicAssignment`, which
    bears as many stragglers and sends each block by itself. With more than s workers missing a batch ends in a time-out.
    Bytes per worker and variable of n elements: 4n for each other worker, whatever s is.

    Raises: ValueError where the assignment is not cyclic.
    """

    needs_server = False
    serves = False
    agrees = False

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.forms = ((int, int, np.ndarray, bool),)
        self._hears_workers = True
        self._others = [node for node in self._workers if node != node_id]
        self._before: tuple[int, Array | None] = (-1, None)

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation | None:
        """Add a block; send the coded sum to all when the last one is computed."""
        if not self._encodes(block_weight) or self._sent is None:
            return None
        self._take_in(self.node_id, self._sent)
        return netEncapsulation(self._others, (self._round, self.node_id, self._sent, False))

    def receive_blocks(self, content: Any) -> netEncapsulation | None:
        """Take a coded sum; answer one that asks with the own."""
        round_, node, coded, asks = content
        if round_ == self._round and self._result is None:
            self._take_in(node, coded)
        else:
            self.late += 1
        own = self._sent if round_ == self._round else self._before[1] if round_ == self._before[0] else None
        return netEncapsulation(node, (round_, self.node_id, own, False)) if asks and own is not None else None

    def receive_late(self, content: Any) -> netEncapsulation | None:
        """Answer one that is a batch behind."""
        return self.receive_blocks(content)

    def _take_in(self, node: int, coded: Array) -> None:
        """Keep a coded sum; the own one counts last, when its buffer is free for the mean."""
        self._coded[node] = coded
        mean = self._decoded() if self._sent is not None else None
        if mean is not None:
            self.set_result(mean)

    def do_something_to_save_yourself(self) -> netEncapsulation | None:
        """Send the coded sum again to those that were not heard, and ask for theirs."""
        if self._sent is None:
            return None
        return netEncapsulation(self.missing_nodes(), (self._round, self.node_id, self._sent, True))

    def get_result(self) -> Array | None:
        """The mean over all blocks."""
        if self._result is not None:
            self._before = (self._round, self._sent)
            self._buffer = None  # one that asks late gets what was sent
        return super().get_result()

    def missing_nodes(self) -> Iterable[int]:
        """The workers whose sums are not there."""
        return tuple(node for node in self._others if node not in self._coded)

    def dispose(self) -> None:
        """Let go of all arrays."""
        super().dispose()
        self._before = (-1, None)

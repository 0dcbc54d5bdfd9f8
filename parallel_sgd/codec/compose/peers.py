"""Results one batch late, and results for those that are late."""

from __future__ import annotations

import numpy as np

from parallel_sgd.codec.interfaces import Array, BlockWeight, netEncapsulation
from parallel_sgd.codec.pipeline import PayloadError
from parallel_sgd.unusable import Like

from .batch import Batch
from .packet import DENSE, RESULT, Packet
from .reducing import Reducing
from .units import Grain


class Peers(Reducing):
    """Merging among workers, without a server.

    Where packets are views of arrays that the next batch changes, one that asks late gets the whole result instead.
    With `Delay(1)` the result of a batch is that of the one before, whose packets may still come.
    """

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self._delivered = True

    def open(self, step: tuple[int, int], dense: bool) -> None:
        """Begin a batch; under `Delay` the last one goes on."""
        late, batch = self.parts.trigger.late, self.batch
        if late:
            self.batch = None  # keeps its buffers
        super().open(step, dense)
        if late:
            self.before = batch
        self._delivered = False

    def update_blocks(self, block_weight: BlockWeight) -> list[netEncapsulation] | None:
        """Take a block; after the last one a late result may be ready."""
        packets = super().update_blocks(block_weight)
        self._deliver()
        return packets

    def finish(self, batch: Batch, result: Array) -> None:
        """The batch is over."""
        batch.done, batch.result = True, result
        self._deliver()

    def wanted(self) -> Batch | None:
        """Return the batch whose result is waited for."""
        return self.before if self.parts.trigger.late else self.batch

    def _deliver(self) -> None:
        if self._delivered or self.batch is None:
            return
        wanted = self.wanted()
        if wanted is None:
            if self.complete:
                self._delivered = True
                self.set_result(np.zeros(self.shape, np.float32))
        elif wanted.done and wanted.result is not None and (self.complete or wanted is self.batch):
            self._delivered = True
            if wanted is not self.batch:
                self.ages[1] += self.units.count
            self.set_result(wanted.result)

    def check_part(self, packet: Packet, like: Like, numbers: int) -> None:
        """A whole result is sent where exact sums are views."""
        if not packet.flags & RESULT or self._lasting or self.units.grain is not Grain.SPANS:
            super().check_part(packet, like, numbers)

    def accept(self, batch: Batch, packet: Packet) -> None:
        """Take a packet, or a whole result."""
        if packet.flags & RESULT and packet.payload is not None:
            if packet.sender not in batch.asked:
                raise PayloadError("it is a result, for which it was not asked")
            self.finish(batch, packet.payload.reshape(self.shape))
        else:
            super().accept(batch, packet)

    def answer_again(self, batch: Batch, node: int) -> None:
        """Send again, or send the result."""
        super().answer_again(batch, node)
        if not batch.sent and batch.views and batch.result is not None:
            whole = batch.result.reshape(-1).copy()
            self.post([node], self.packet(RESULT | DENSE, 0, (0, 0))._replace(size=whole.size, payload=whole))

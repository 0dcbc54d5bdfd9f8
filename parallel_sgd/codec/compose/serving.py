"""What a parameter server does beyond merging, and workers that talk to one."""

from __future__ import annotations

import numpy as np

from parallel_sgd.codec.pipeline import PayloadError
from parallel_sgd.node_ids import Parameter_Server
from parallel_sgd.unusable import Like

from .batch import Batch
from .collector import Gatherer
from .packet import ASK, LACKING, PAST, Packet
from .reducing import Reducing


class Serving(Reducing):
    """The server begins a batch with the first packet of it. It answers one that asks too early with what it lacks, or closes
    the batch without that where `quorum` allows it.
    """

    def take(self, packet: Packet) -> None:
        """Open batches as workers come to them; a question, which may overtake them, does not tell whether it is dense."""
        if (
            self.node_id == Parameter_Server
            and not packet.flags & ASK
            and (self.batch is None or self.job.step > self.batch.step)
        ):
            if self.batch is not None and self.batch.under_way:
                epoch, batch = self.job.step
                raise ValueError(
                    f"{type(self).__name__}: node({packet.sender}) is in epoch {epoch + 1}, batch {batch + 1} of variable "
                    f"{self.variable} already, but the parameter server has not answered the batch before"
                )
            self.open(self.job.step, bool(packet.flags & PAST))
        super().take(packet)

    def check_part(self, packet: Packet, like: Like, numbers: int) -> None:
        """The server says what it lacks."""
        if not packet.flags & LACKING or packet.sender != Parameter_Server:
            super().check_part(packet, like, numbers)
        elif packet.payload is not None and not set(packet.payload.tolist()) <= set(self.job.assignment.blocks):
            raise PayloadError(f"it names other blocks than the {self.job.assignment.block_count} of the job")

    def accept(self, batch: Batch, packet: Packet) -> None:
        """Take a packet; on a worker it may say what the server lacks."""
        if packet.flags & LACKING and packet.payload is not None:
            batch.lacking = [int(block) for block in packet.payload]
        else:
            super().accept(batch, packet)

    def answer_again(self, batch: Batch, node: int) -> None:
        """Send the answer again, or tell what is missing."""
        super().answer_again(batch, node)
        quorum = getattr(self.composition.exchange, "quorum", 1.0)
        for place in batch.under_way:
            found = batch.collectors[place]
            if isinstance(found, Gatherer) and found.share() >= quorum:
                self.close(batch, place, found.merged())
            else:
                lacking = np.array(self.units.blocks(found.missing()), np.int64)
                self.post([node], self.packet(LACKING, place, (0, 0))._replace(size=lacking.size, payload=lacking))

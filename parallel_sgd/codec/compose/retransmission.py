"""Packets of a batch, kept and sent again when they are asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from parallel_sgd.codec.interfaces import Array, netEncapsulation
from parallel_sgd.codec.pipeline import PayloadError
from parallel_sgd.merge import Span

from .composed import Composed
from .gather import Collector
from .packet import ASK, LACKING, PAST, RESULT, Packet
from .parts import Shard


class Assembly:
    """A vector that is merged in shards."""

    def __init__(self, shards: list[Shard]) -> None:
        self.shards = shards
        self.left = set(range(len(shards)))
        self.whole: Array | None = None

    @property
    def size(self) -> int:
        return self.shards[-1].stop

    def fill(self, shard: int, value: Array) -> Array | None:
        """Take a merged shard; return the vector when it is complete. Of several shards, `whole` is the room for them."""
        self.left.discard(shard)
        if len(self.shards) == 1:
            self.whole = value
        elif self.whole is not None:
            place = self.shards[shard]
            np.copyto(self.whole[place.start : place.stop], value)
        return None if self.left else self.whole


@dataclass(eq=False)
class Batch:
    """One exchange of one variable.

    `dense`: past all stages. `closed`: the places that this node has merged. `lacking`: what the server said that it lacks.
    `asked`: the nodes that were asked for what is missing. `rooms`: vectors of its own. `views`: packets refer to arrays that
    the next batch changes.
    """

    step: tuple[int, int]
    dense: bool
    sent: list[tuple[list[int], Packet]] = field(default_factory=list)
    collectors: dict[int, Collector] = field(default_factory=dict)
    vectors: dict[int, Assembly] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    lacking: list[int] = field(default_factory=list)
    asked: set[int] = field(default_factory=set)
    rooms: list[Array] = field(default_factory=list)
    views: bool = False
    done: bool = False
    result: Array | None = None

    @property
    def under_way(self) -> list[int]:
        return [place for place in self.collectors if place not in self.closed]


class Retransmitting(Composed):
    """Keeps what it has sent in this batch and in the one before.

    A worker whose result is overdue sends its packets again to those from whom something is missing, and asks for theirs.
    `late` counts packets that came when their batch was over, `duplicates` those whose content was there already; both change
    nothing.
    """

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.batch: Batch | None = None
        self.before: Batch | None = None
        self.repeated = 0

    @property
    def duplicates(self) -> int:
        return self.repeated

    def open(self, step: tuple[int, int], dense: bool) -> None:
        self.before, self.batch = self.batch, Batch(step, dense)

    def under_way(self) -> Batch:
        if self.batch is None:
            raise RuntimeError(f"{type(self).__name__} has no batch under way")
        return self.batch

    def send(self, batch: Batch, targets: list[int], packet: Packet) -> None:
        if targets:
            batch.sent.append((targets, packet))
            self.post(targets, packet)

    def take(self, packet: Packet) -> None:
        """Take a packet of this batch or of the one before; answer one that asks."""
        step = self.job.step
        found = next((batch for batch in (self.batch, self.before) if batch is not None and batch.step == step), None)
        if found is None or (found.done and not packet.flags & ASK):
            self.late += 1
            return
        if packet.flags & ASK:
            self.answer_again(found, packet.sender)
            return
        if not packet.flags & (RESULT | LACKING) and bool(packet.flags & PAST) != found.dense:
            raise PayloadError(f"it {'passes' if found.dense else 'goes past'} the stages, and nothing else of its batch does")
        self.accept(found, packet)

    @abstractmethod
    def accept(self, batch: Batch, packet: Packet) -> None:
        """Take a packet of a batch that is not over."""

    def answer_again(self, batch: Batch, node: int) -> None:
        """Send again to `node` what it was sent in this batch."""
        for targets, packet in batch.sent:
            if node in targets:
                self.post([node], packet)

    def wanted(self) -> Batch | None:
        return self.batch

    @abstractmethod
    def silent(self, batch: Batch) -> set[int]:
        """Return the nodes from which something is missing."""

    @abstractmethod
    def missing_units(self, batch: Batch) -> list[int]:
        """Return the contributions that are missing here."""

    def do_something_to_save_yourself(self) -> Iterable[netEncapsulation] | None:
        """Send again and ask, once."""
        batch = self.wanted()
        missing = set() if batch is None or batch.done else self.silent(batch) - {self.node_id}
        return None if batch is None or not missing else self._rescue(batch, missing)

    def _rescue(self, batch: Batch, missing: set[int]) -> Iterator[netEncapsulation]:
        for targets, packet in batch.sent:
            again = [node for node in targets if node in missing]
            if again:
                yield netEncapsulation(again, tuple(packet))
        batch.asked |= missing
        yield netEncapsulation(sorted(missing), tuple(self.packet(ASK, 0, (0, 0))))

    def packet(self, flags: int, place: int, span: Span) -> Packet:
        """Return a packet without a payload."""
        return Packet(self.fingerprint, flags, self.node_id, place, *span, 0, None)

    def missing_blocks(self) -> Iterable[int]:
        batch = self.wanted()
        if batch is None or batch.done:
            return ()
        return batch.lacking or self.units.blocks(self.missing_units(batch))

    def dispose(self) -> None:
        super().dispose()
        self.batch = self.before = None

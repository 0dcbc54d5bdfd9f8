"""Codecs that merge in one place, in several, or everywhere: all to all, ring, shards, parameter server."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np

from parallel_sgd.codec.interfaces import Array, BlockWeight, CountingPackets, netEncapsulation
from parallel_sgd.codec.pipeline import Draw, PayloadError
from parallel_sgd.codec.pipeline.stage import MERGE, Remembers, State
from parallel_sgd.engine.block_tree import Span
from parallel_sgd.engine.channel import Parameter_Server
from parallel_sgd.engine.unusable import Like
from parallel_sgd.profiles.blockassignment.assignments import FixedBlockAssignment

from .composed import Batch, Composed
from .encoders import ANY, Encoders, dense
from .gather import Assembly, Collector, Gatherer, Merging
from .packet import ASK, DENSE, DOWN, INTEGERS, LACKING, PAST, RESULT, Packet
from .parts import Grain, Shard

#: A place is a shard of the vector of a round: `round * ROUND + shard`.
# a vector has at most one shard per worker, far fewer than this, so places of two rounds never meet
ROUND: Final = 1 << 16
_MOST_KNOWN: Final = 1 << 12  # packets; a peer may make up fields without end


class Reducing(Composed):
    """Merging by shards: contributions go to the owner of each shard; its result travels to all workers, unless all merge it.

    Every node decodes each payload, the sender too, so that all replicas have the same bits, and merges in the order of the
    contributions' numbers, so that these do not depend on the order of arrival.
    """

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        # a worker's own pipeline decodes for all: it has drawn the shared numbers
        # already; blocks and servers have none of their own
        decoder = node_id if self.units.workers and node_id != Parameter_Server else -1
        self.encoders = Encoders(self.parts, self.composition.exchange.linear, decoder)
        self.ages = Counter[int]() if self.encoders.uploads is None else self.encoders.uploads.staleness
        self.staleness = self.ages
        self._merging = Merging(self.units, self.parts.merge)
        # results that stay beyond the batch must not lie in buffers that it gives back
        self._lasting = self.parts.merge.updates or self.parts.trigger.late
        self._rooms: list[Array] = []
        self._known: set[tuple[int, ...]] = set()  # fields of packets with numbers as they are, that were found right
        self._cuts: dict[int, list[Shard]] = {}  # by how many numbers they are cut from
        #: Bytes of the payloads that have been encoded for the last contribution.
        self.uploaded = 0

    @property
    def duplicates(self) -> int:
        return self.repeated + self._merging.duplicates

    def open(self, step: tuple[int, int], dense: bool) -> None:
        """Begin a batch; take back the buffers of the one before last, and those of the last that no node asks for."""
        # both are over: what comes for them now is late and merges nothing
        for batch in (self.before, self.batch):
            if batch is not None:
                self._merging.take_back(batch.collectors)
                # views of arrays that change now; `answer_again` sends the whole result in their place
                if batch.views:
                    batch.sent.clear()
        if self.before is not None:
            self._rooms += self.before.rooms
        super().open(step, dense)

    def contribute(self, span: Span, value: Array) -> None:
        batch = self.under_way()
        self.uploaded = 0
        if batch.owners and batch.owners[span[0]] is None:
            # nothing is sent for a block without a client, and in a round without any there is nothing to wait for
            self._assembly(batch, 0, value.size)
            if self.complete and not any(owner is not None for owner in batch.owners):
                self.finish(batch, np.zeros(self.shape, value.dtype))
            return
        if not batch.dense:
            draw = self.draw(batch.step, self._owner(batch, span[0]))
            value = self.encoders.start(self._encoder(batch, span), value, self.shape, draw)
        self._send_up(batch, 0, span, value)

    @staticmethod
    def _encoder(batch: Batch, span: Span) -> int:
        # one pipeline serves all clients in turn: `recall` gives it the memory of each
        return ANY if batch.owners else span[0]

    def recall(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of the memory of the client of the next contribution.

        Args:
            state: as `remembered` returned it; empty for a client without one.
        """
        self.encoders.recall(state)

    def remembered(self) -> State:
        """Return the memory of the client of the last contribution, as copies."""
        found = self.encoders.remembered()
        return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in found.items()}

    def _owner(self, batch: Batch, unit: int) -> int:
        """Return the number of the contributor by which random numbers go: that of the client, where there are clients, since
        its block is another one in each batch.
        """
        owner = batch.owners[unit] if batch.owners else unit
        if owner is None:
            raise PayloadError(f"it holds what is over the block {unit}, which has no client in this round")
        return owner

    def _shards(self, size: int) -> list[Shard]:
        """Return the shards of a vector of so many numbers."""
        found = self._cuts.get(size)
        if found is None:
            found = self._cuts[size] = self._cut(size)
        return found

    def _cut(self, size: int) -> list[Shard]:
        """Cut a vector of so many numbers into shards, of clients by the number of blocks, so that the cuts, at which encodings
        begin anew, do not depend on the number of workers.
        """
        exchange, assignment = self.composition.exchange, self.job.assignment
        if not self.by_client:
            return exchange.shards(size, assignment, self.variable)
        blocks = assignment.block_count
        cut = exchange.shards(size, FixedBlockAssignment(blocks, 1, blocks), self.variable)
        workers = [holders[0] for holders in assignment.block_2_node]
        return [each if each.owner is None or each.owner < 0 else each._replace(owner=workers[each.owner]) for each in cut]

    def _assembly(self, batch: Batch, round_: int, size: int) -> Assembly:
        found = batch.vectors.get(round_)
        if found is None:
            found = batch.vectors[round_] = Assembly(self._shards(size))
        return found

    def _send_up(self, batch: Batch, round_: int, span: Span, value: Array) -> None:
        assembly = self._assembly(batch, round_, value.size)
        # sum over a span goes to those that cannot make it; to the server it always goes
        node, lacking = self.node_id, self.units.lacking(span)
        for number in self._order(assembly.shards):
            start, stop, owner = assembly.shards[number]
            part, place = value[start:stop], round_ * ROUND + number
            # an owner that holds all the blocks makes the same sum itself
            targets = lacking if owner is None else [owner] if owner in lacking or owner == Parameter_Server else []
            payload: Array | None = part
            flags = DENSE | PAST if batch.dense else DENSE
            if not batch.dense and self.encoders.encodes:
                encoder, draw = self._encoder(batch, span), self._draw_up(batch, span[0], number)
                payload, flags = self.encoders.encode_up(encoder, number, part, draw)
            self.uploaded += 0 if payload is None else payload.nbytes
            if flags & DENSE and targets:
                payload = self._kept(batch, part)
            packet = Packet(self.fingerprint, flags, node, place, *span, part.size, payload)
            self.send(batch, targets, packet)
            # its own contribution is decoded as well, from the bytes that the others get
            if owner is None or owner == node:
                self._collect(batch, packet)

    def _order(self, shards: Sequence[Shard]) -> Iterable[int]:
        """Return the numbers of shards in the order in which they leave: first those of the next nodes, as `from_neighbour`."""
        node = self.node_id
        first = next((number for number, shard in enumerate(shards) if shard.owner is not None and shard.owner > node), 0)
        return chain(range(first, len(shards)), range(first))

    def _draw_up(self, batch: Batch, contributor: int, shard: int) -> Draw:
        # one number for contribution and shard: no two packets of a batch draw alike
        clients = self.job.contributors
        count = clients.count if self.by_client and clients is not None else self.units.count
        return self.draw(batch.step, self._owner(batch, contributor) + shard * count)

    def _kept(self, batch: Batch, value: Array) -> Array:
        """Return an array that has the numbers of `value` as long as other nodes may ask for it."""
        # exact sums stay as they are until the next batch; only that makes a copy superfluous
        if not self._lasting and self.units.grain is Grain.SPANS and self.node_id != Parameter_Server:
            batch.views = True
            return value
        return value.copy()

    def accept(self, batch: Batch, packet: Packet) -> None:
        if packet.flags & DOWN:
            self._fill(batch, packet.place, self._merged(batch, packet))
        else:
            self._collect(batch, packet)

    def check(self, content: Any, like: Like | None) -> None:
        """Refuse packets that this composition does not send. Those of each batch differ from those of the one before in their
        numbers alone: then nothing else is looked at again.
        """
        if self._is_known(content, like):
            self.see(content, Packet._make(content))
            return
        super().check(content, like)
        if like is not None and content[1] & (DENSE | ASK | RESULT | LACKING) == DENSE and len(self._known) < _MOST_KNOWN:
            self._known.add(content[:-1])

    def _is_known(self, content: Any, like: Like | None) -> bool:
        """Tell whether all but the numbers of a packet was found right before, and these are finite."""
        if like is None or like is not self._like or type(content) is not tuple or not content:
            return False
        fields, payload = content[:-1], content[-1]
        return (
            INTEGERS.issuperset(map(type, fields))  # before they are looked up: 1.0 is equal to 1, and a list has no hash
            and fields in self._known
            and fields[2] == self.job.sender
            and type(payload) is np.ndarray
            and payload.shape == fields[-1:]
            and payload.dtype == like.dtype
            and math.isfinite(np.vdot(payload, payload))
        )

    def check_part(self, packet: Packet, like: Like, numbers: int) -> None:
        round_, number = divmod(packet.place, ROUND)
        size = self.encoders.size(round_, like.shape, numbers, bool(packet.flags & PAST))
        # cut as for the own values, by numbers alone: a packet may come before these
        shards = self._shards(size)
        if number >= len(shards):
            raise PayloadError(f"it is for shard {number}, and there are {len(shards)}")
        start, stop, owner = shards[number]
        if packet.size != stop - start:
            raise PayloadError(f"it is for {packet.size} numbers, and must be for {stop - start}")
        if packet.flags & (DOWN | RESULT | LACKING):
            # merged shards come from their owner and from no other node
            if not packet.flags & DOWN or packet.sender != owner:
                raise PayloadError(f"it is a result, and node({packet.sender}) makes none")
        elif owner is not None and owner != self.node_id:
            # misdirected, by a node with other settings or on purpose
            raise PayloadError(f"it is for node({owner}), which merges this shard")
        else:
            self.check_contribution(packet)

    def _collect(self, batch: Batch, packet: Packet) -> None:
        """Add a contribution to those of its place; merge them when all are there."""
        low, high, place = packet.low, packet.high, packet.place
        # bounds of the wire: they are places in lists
        if not 0 <= low < high <= self.units.count:
            raise PayloadError(f"{type(self).__name__} merges {self.units.count} contributions, got {low}..{high}")
        if batch.owners:
            self._owner(batch, low)
        found = batch.collectors.get(place)
        if found is None:
            found = batch.collectors[place] = self._merging.collector(place)
            if isinstance(found, Gatherer) and batch.owners and self.job.contributors is not None:
                found.expect(batch.owners, self.job.contributors.weights(batch.step))
        # closed or there already: a copy (SUB-23)
        if place in batch.closed or (self.units.grain is not Grain.SPANS and found.has(low)):
            self.repeated += 1
            return
        if packet.flags & DENSE:
            value = dense(packet.payload, packet.size)
        else:
            shard = place % ROUND
            value = self.encoders.decode_up(low, shard, packet.payload, packet.size, self._draw_up(batch, low, shard))
        if found.add((low, high), value, not self._lasting, packet.sender):
            self.close(batch, place, self._combined(batch, place, found))

    def _combined(self, batch: Batch, place: int, found: Collector) -> Array:
        # the merge rule's numbers are its own, whatever stages have drawn
        draw = self.draw(batch.step, place)._replace(place=MERGE)
        return found.merged(batch.number, draw)

    def close(self, batch: Batch, place: int, merged: Array) -> None:
        """Close a place, with its contributions merged: send the result to all, where they do not merge it themselves."""
        batch.closed.add(place)
        shard = place % ROUND
        if not self.composition.exchange.returns:
            # all merge the place themselves, with equal bits
            self._fill(batch, place, merged)
            return
        payload, flags = merged, DENSE | PAST
        if not batch.dense:
            # numbers below -1 belong to merged shards, so that they differ from those of contributors
            payload, flags = self.encoders.encode_down(shard, merged, self.draw(batch.step, -2 - shard))
        if flags & DENSE:
            payload = self._kept(batch, merged)
        packet = Packet(self.fingerprint, flags | DOWN, self.node_id, place, 0, self.units.count, merged.size, payload)
        own = self.node_id
        self.send(batch, [node for node in self.job.assignment.nodes if node != own], packet)
        if own != Parameter_Server:
            # decoded from its own bytes: all replicas have what the others read
            self._fill(batch, place, self._merged(batch, packet))

    def _merged(self, batch: Batch, packet: Packet) -> Array:
        if packet.flags & DENSE:
            return dense(packet.payload, packet.size)
        shard = packet.place % ROUND
        return self.encoders.decode_down(shard, packet.payload, packet.size, self.draw(batch.step, -2 - shard))

    def _fill(self, batch: Batch, place: int, value: Array) -> None:
        """Take a merged shard; when the vector is complete, it is the result or leads to the next round."""
        round_, shard = divmod(place, ROUND)
        assembly = batch.vectors.get(round_)
        # a shard that was filled, or a round that has not begun here
        if assembly is None or shard not in assembly.left:
            self.repeated += 1
            return
        size = assembly.shards[shard].stop - assembly.shards[shard].start
        if value.size != size:
            raise PayloadError(f"{type(self).__name__} expects a shard of {size} numbers, got {value.size}")
        if assembly.whole is None and len(assembly.shards) > 1:
            # from the batch before last, where there was one of this size
            assembly.whole = self._room(assembly.size, value.dtype)
            batch.rooms.append(assembly.whole)
        whole = assembly.fill(shard, value)
        if whole is None:
            return
        vector, complete = (whole, True) if batch.dense else self.encoders.proceed(whole)
        if complete:
            self.finish(batch, self.result_of(vector))
        else:
            # the next round is one contribution of this worker, of the mean of the first
            self._send_up(batch, round_ + 1, (self.node_id, self.node_id + 1), vector)

    def _room(self, size: int, dtype: np.dtype[Any]) -> Array:
        for number, room in enumerate(self._rooms):
            if room.shape == (size,) and room.dtype == dtype:
                return self._rooms.pop(number)
        return np.empty(size, dtype)

    def silent(self, batch: Batch) -> set[int]:
        owners = {assembly.shards[number].owner for assembly in batch.vectors.values() for number in assembly.left}
        holders = {node for unit in self.missing_units(batch) for node in self.units.holders(unit)}
        return {owner for owner in owners if owner is not None} | holders

    def missing_units(self, batch: Batch) -> list[int]:
        units: set[int] = set()
        for round_, assembly in batch.vectors.items():
            for number in assembly.left:
                # only what this node merges itself can be missing here; for the rest its owner is silent
                if assembly.shards[number].owner in (None, self.node_id):
                    found = batch.collectors.get(round_ * ROUND + number)
                    every = [unit for unit, owner in enumerate(batch.owners) if owner is not None] or range(self.units.count)
                    units.update(every if found is None else found.missing())
        return sorted(units)

    @property
    def in_common(self) -> tuple[str, ...]:
        """Names of the parts that remember the same on all workers: a rule by which each merges the changes of all clients.
        Without clients the number of workers decides what it merges, and with it about its memory.
        """
        return ("merge",) if self.by_client and all(shard.owner is None for shard in self._shards(1)) else ()

    def within(self) -> dict[str, Remembers]:
        # the memory of clients goes to the worker that trains them next (`remembered`)
        own = {} if self.by_client else self.encoders.within()
        return {**super().within(), **own, "merge": self._merging}

    def dispose(self) -> None:
        super().dispose()
        self._merging.clear()
        self._rooms.clear()


class Peers(Reducing, CountingPackets):
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
        batch.done, batch.result = True, result
        # without the base, which would give the result at once: under `Delay` it is that of the next batch
        self._deliver()

    @property
    def counts_packets(self) -> bool:
        """Whether all that a packet can bring about is known: a class derived from a composition may do more, and the late
        result of `Delay` and the contributions of clients are counted otherwise.
        """
        return "composition" in vars(type(self)) and not self.parts.trigger.late and not self.by_client

    def fewest_packets(self) -> int:
        """Return the fewest packets of a closed place or of a whole vector, whichever needs fewer of them."""
        batch = self.batch
        if batch is not None and batch.done:
            return sys.maxsize
        if batch is None or not batch.vectors:
            return 1
        # a packet brings one shard of a result, or a sum over no more contributions than its sender has
        found, here = sys.maxsize, (None, self.node_id)
        for round_, assembly in batch.vectors.items():
            whole = 0
            for number in assembly.left:
                needed = 1
                if assembly.shards[number].owner in here:
                    collector = batch.collectors.get(round_ * ROUND + number)
                    lacks = self.units.count if collector is None else collector.lacks
                    needed = max(1, -(-lacks // self.units.most))
                    found = min(found, needed)
                whole += needed
            if whole:
                found = min(found, whole)
        return found

    def wanted(self) -> Batch | None:
        return self.before if self.parts.trigger.late else self.batch

    def _deliver(self) -> None:
        if self._delivered or self.batch is None:
            return
        wanted = self.wanted()
        if wanted is None:
            # the very first batch has no result before it
            if self.complete:
                self._delivered = True
                self.set_result(np.zeros(self.shape, np.float32))
        elif wanted.done and wanted.result is not None and (self.complete or wanted is self.batch):
            self._delivered = True
            if wanted is not self.batch:
                # one batch old, each contribution
                self.ages[1] += self.units.count
            self.set_result(wanted.result)

    def check_part(self, packet: Packet, like: Like, numbers: int) -> None:
        """Refuse as the base does, but take a whole result where exact sums are views."""
        if not packet.flags & RESULT or self._lasting or self.units.grain is not Grain.SPANS:
            super().check_part(packet, like, numbers)

    def accept(self, batch: Batch, packet: Packet) -> None:
        if packet.flags & RESULT and packet.payload is not None:
            if packet.sender not in batch.asked:
                raise PayloadError("it is a result, for which it was not asked")
            self.finish(batch, packet.payload.reshape(self.shape))
        else:
            super().accept(batch, packet)

    def answer_again(self, batch: Batch, node: int) -> None:
        super().answer_again(batch, node)
        if not batch.sent and batch.views and batch.result is not None:
            whole = batch.result.reshape(-1).copy()
            self.post([node], self.packet(RESULT | DENSE, 0, (0, 0))._replace(size=whole.size, payload=whole))


class Serving(Reducing):
    """Merging on the server, which begins a batch with the first packet of it. It answers a worker that asks too early with the
    blocks that it lacks, or closes the batch without these where `quorum` allows it.
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
            # the first packet says whether the batch is dense, as the trigger says on all workers
            self.open(self.job.step, bool(packet.flags & PAST))
        super().take(packet)

    def check_part(self, packet: Packet, like: Like, numbers: int) -> None:
        if not packet.flags & LACKING or packet.sender != Parameter_Server:
            super().check_part(packet, like, numbers)
        elif packet.payload is not None and not set(packet.payload.tolist()) <= set(self.job.assignment.blocks):
            raise PayloadError(f"it names other blocks than the {self.job.assignment.block_count} of the job")

    def accept(self, batch: Batch, packet: Packet) -> None:
        if packet.flags & LACKING and packet.payload is not None:
            batch.lacking = [int(block) for block in packet.payload]
        else:
            super().accept(batch, packet)

    def answer_again(self, batch: Batch, node: int) -> None:
        super().answer_again(batch, node)
        quorum = self.composition.exchange.quorum
        for place in batch.under_way:
            found = batch.collectors[place]
            if isinstance(found, Gatherer) and found.share() >= quorum:
                self.close(batch, place, self._combined(batch, place, found))
            else:
                lacking = np.array(self.units.blocks(found.missing()), np.int64)
                self.post([node], self.packet(LACKING, place, (0, 0))._replace(size=lacking.size, payload=lacking))

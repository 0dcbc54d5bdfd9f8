"""Base of all composed codecs, and a batch of one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parallel_sgd.codec.interfaces import (
    Array,
    BlockWeight,
    CheckingPackets,
    Remembering,
    TakingLate,
    Tracking,
    netEncapsulation,
)
from parallel_sgd.codec.pipeline import Draw, PayloadError
from parallel_sgd.codec.pipeline.stage import Remembers, gathered, room_for, scattered
from parallel_sgd.codec.settings import GlobalSettings
from parallel_sgd.codec.traits import Traits
from parallel_sgd.engine.block_tree import Span
from parallel_sgd.engine.channel import Parameter_Server
from parallel_sgd.engine.unusable import Like

from .builder import refuse
from .gather import Assembly, Collector, OwnBlocks, Units
from .packet import ASK, LACKING, PAST, RESULT, Packet, fingerprint_of
from .parts import Composition, Grain
from .trigger import Trigger

_NOTHING = object()


@dataclass(eq=False)
class Batch:
    """One exchange of one variable.

    Args:
        step: the (epoch, batch), counted from 0.
        dense: the exchange goes past all stages.
        number: number of the exchange, counted from 0.
        sent: the packets that this node has sent, each with its targets, to be sent again to a node that asks.
        collectors: the contributions to each place so far.
        vectors: the vector of each round, with the shards that it still lacks.
        closed: the places that this node has merged.
        lacking: the blocks that the server said it lacks.
        asked: the nodes that were asked for missing packets.
        rooms: vectors of its own, for use by later batches.
        views: packets refer to arrays that the next batch changes.
        owners: the client of each block, None for a block without one; empty where contributions are no clients'.
        done: the exchange is over.
        result: the result, in the variable's shape, once there is one.
    """

    step: tuple[int, int]
    dense: bool
    number: int = 0
    sent: list[tuple[Collection[int], Packet]] = field(default_factory=list)
    collectors: dict[int, Collector] = field(default_factory=dict)
    vectors: dict[int, Assembly] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    lacking: list[int] = field(default_factory=list)
    asked: set[int] = field(default_factory=set)
    rooms: list[Array] = field(default_factory=list)
    views: bool = False
    owners: Sequence[int | None] = ()
    done: bool = False
    result: Array | None = None

    @property
    def under_way(self) -> list[int]:
        return [place for place in self.collectors if place not in self.closed]


class Composed(CheckingPackets, Remembering, TakingLate, Tracking):
    """Codec made of parts by `Codec.of`.

    It puts the worker's own blocks together, asks the trigger, and hands over contributions, which subclasses exchange.

    It keeps the packets that it has sent in this batch and in the one before. A worker with an overdue result sends its packets
    again to the nodes that have not sent theirs, and asks for these. `late` counts packets that came when their batch was over,
    `duplicates` those with a content that was there already; both change nothing.
    """

    traits = Traits(keeps_content=False, synchronous=True)

    @property
    @abstractmethod
    def composition(self) -> Composition:
        """The parts as they were given; a class attribute of every class that `Codec.of` makes."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.job = GlobalSettings.current()
        self.variable = self.job.variable
        assignment = self.job.assignment
        serves = node_id == Parameter_Server
        self.job.check_node(self)
        self.parts = self.composition.make()
        # again in the job: parts that read parameters are known here for the first time
        refuse(self.composition, self.parts)
        # 32 bits in each packet: two nodes with other parts or parameters find out at the first one
        self.fingerprint = fingerprint_of(self.composition.identity(self.parts))
        self.units = Units(self._grain(), assignment, self.parts.merge.weights)
        merge = self.parts.merge
        # before anything is sent: in `combine` it would be an error of the packet that came last
        if self.units.count < merge.fewest:
            raise ValueError(f"{merge!r} needs {merge.fewest} workers or more, got {self.units.count}")
        # whether a merge rule is told the number of the exchange: sums over spans are merged without one
        self._tells = self.units.grain is not Grain.SPANS
        self.batch: Batch | None = None
        self.before: Batch | None = None
        self.repeated = self.late = 0
        self._title = f"{type(self).__name__} of variable {self.variable}"
        self._content: Any = _NOTHING
        self._seen: Packet = Packet(0, 0, 0, 0, 0, 0, 0, None)
        self._like: Like | None = None
        self._numbers = 0
        self._fired = False
        self._batches = self._exchanges = 0
        self._outbox: list[netEncapsulation] = []
        self.shape: tuple[int, ...] = ()
        # a server puts no blocks
        self._own: OwnBlocks | None = None
        if not serves:
            mine = assignment.node_2_block[node_id]
            # under `Delay` the batch goes on while the next one is computed, so contents must be copied
            stays = not self.parts.trigger.late
            self._own = OwnBlocks(self.units.grain, node_id, mine, assignment.block_count, stays)
        self._fresh = True
        self._adds = self.composition.send == "delta" or self.parts.updates
        self._reference: Array | None = None
        # a server has no parameters, and buffers are none
        if self._adds and self.variable < len(self.job.values):
            # a copy: the model's own values move on between exchanges
            self._reference = self.job.values[self.variable].flatten()
        self._local = None if serves else self.parts.local
        self._dense = False
        if self._local is not None:
            self._local.use(self.job.rule)
            if self._reference is not None:
                self._local.begin(self._reference)
        self._difference: Array = np.empty(0, np.float32)

    @property
    def duplicates(self) -> int:
        return self.repeated

    @property
    def complete(self) -> bool:
        return self._own is not None and self._own.complete

    @property
    def by_client(self) -> bool:
        """Whether contributions are those of clients, each encoded by itself and weighed where they are merged."""
        return self.job.contributors is not None and self.units.grain is Grain.BLOCKS

    def _grain(self) -> Grain:
        grain = self.composition.grain(self.parts)
        # the mean over the clients that a worker has trained would depend on the number of workers
        return Grain.BLOCKS if grain is Grain.WORKERS and self.job.contributors is not None else grain

    def update_blocks(self, block_weight: BlockWeight) -> list[netEncapsulation] | None:
        content = block_weight.content
        if self._own is None:
            raise TypeError(f"{type(self).__name__} on the parameter server computes no blocks")
        # the first block of a batch: all decisions for it are made here, alike on all workers
        if self._fresh:
            self._own.reset()
            self._fresh = False
            self.shape = content.shape
            self._fired = self.parts.trigger.fires(self._batches)
            self._dense = self._fired and self.parts.trigger.dense(self._batches)
            if self._fired:
                self.open(self.job.step, self._dense)
        whole = self._own.add(block_weight.span, content)
        if self._own.complete:
            self._fresh = True
            # counted when whole, so that a state between two batches is the same on all workers
            self._batches += 1
        if not self._fired:
            # between exchanges the worker goes on with its own values
            if self._own.complete:
                mean = self._own.mean()
                self.set_result((mean if self._local is None else self._local.step(mean)).reshape(self.shape))
            return None
        if whole is not None:
            span, value = whole
            self.contribute(span, self._outgoing(value))
        return self._posted()

    def _outgoing(self, value: Array) -> Array:
        if self._local is not None:
            value = self._local.step(value)
        if self.composition.send == "delta":
            value = self._changed(value)
        return value if self._local is None else self._local.outgoing(value, self._dense)

    def open(self, step: tuple[int, int], dense: bool) -> None:
        """Begin a batch with an exchange.

        Args:
            step: the (epoch, batch), counted from 0.
            dense: the exchange goes past all stages.
        """
        # two batches: a late packet may still be of the one before (`TakingLate`)
        self.before, self.batch = self.batch, Batch(step, dense, self._exchanges)
        if self.by_client and self.job.contributors is not None:
            self.batch.owners = self.job.contributors.of(step)
        self._exchanges += 1

    def under_way(self) -> Batch:
        if self.batch is None:
            raise RuntimeError(f"{type(self).__name__} has no batch under way")
        return self.batch

    @abstractmethod
    def contribute(self, span: Span, value: Array) -> None:
        """Send a contribution of this node.

        Args:
            span: the contributions [low, high), numbered as in `Units`, that the vector holds.
            value: a flat vector, which stays unchanged until the batch is over.
        """

    def check(self, content: Any, like: Like | None) -> None:
        """Refuse packets that this composition does not send."""
        packet = self._packet(content)
        # looked up once per array, not per packet
        if like is not None and like is not self._like:
            self._like, self._numbers = like, like.size * (1 if self.parts.local is None else self.parts.local.width)
        numbers = self._numbers
        packet.check(like, numbers)
        self.job.check_sender(packet.sender)
        # a hostile packet could go past the stages to have its numbers counted as they are
        if packet.flags & PAST and type(self.parts.trigger).dense is Trigger.dense:
            raise PayloadError(f"it goes past the stages, which {self.parts.trigger!r} never does")
        # a question holds no numbers
        if like is not None and not packet.flags & ASK:
            self.check_part(packet, like, numbers)

    @abstractmethod
    def check_part(self, packet: Packet, like: Like, numbers: int) -> None:
        """Refuse a packet in which its sender has no part, or of another size than that of its place.

        Args:
            packet: the packet, with fields that are right for any composition.
            like: shape and type of the array that is put for the variable.
            numbers: how many numbers are sent for the variable in all.

        Raises: Unusable naming the fault.
        """

    def check_contribution(self, packet: Packet) -> None:
        """See that the sender supplies the contributions that a packet holds.

        Raises: Unusable where it does not.
        """
        node, span = packet.sender, (packet.low, packet.high)
        if self.units.grain is Grain.SPANS:
            self.job.check_span(span, node)
        elif not self.units.supplies(node, span):
            what = "of the worker" if self.units.workers else "over the block"
            raise PayloadError(f"it holds what is {what} {span[0]}, which node({node}) does not supply")

    def see(self, content: Any, packet: Packet) -> None:
        """Keep the packet that a content was read as: `check` and `receive_blocks` get the same object.

        Args:
            content: the content.
            packet: the packet.
        """
        self._content, self._seen = content, packet

    def _packet(self, content: Any) -> Packet:
        if content is not self._content:
            self.see(content, Packet.of(content, self.fingerprint, self._title))
        return self._seen

    def receive_blocks(self, content: Any) -> list[netEncapsulation] | None:
        """Take a packet.

        Raises: PayloadError for one that this composition has not sent.
        """
        # let go of the content: the codec would keep it until the next packet comes
        packet, self._content = self._packet(content), _NOTHING
        self.take(packet)
        return self._posted()

    def receive_late(self, content: Any) -> list[netEncapsulation] | None:
        return self.receive_blocks(content)

    def post(self, targets: Collection[int], packet: Packet) -> None:
        """Have a packet leave when the present call ends.

        Args:
            targets: ids of its receivers.
            packet: the packet.
        """
        if targets:
            self._outbox.append(netEncapsulation(targets, tuple(packet)))

    def send(self, batch: Batch, targets: Collection[int], packet: Packet) -> None:
        """Post a packet, and keep it for nodes that ask again.

        Args:
            batch: the batch that keeps it.
            targets: the nodes that get it; where there are none, nothing is sent or kept.
            packet: the packet.
        """
        if targets:
            # kept although sent: an overdue worker may ask for it
            batch.sent.append((targets, packet))
            self.post(targets, packet)

    def take(self, packet: Packet) -> None:
        """Take a packet of this batch or of the one before; answer one that asks."""
        step = self.job.step
        # late packets carry their own step, which the bank has set
        found = self.batch
        if found is None or found.step != step:
            found = self.before if self.before is not None and self.before.step == step else None
        # a question is answered even when the batch is over here
        if found is None or (found.done and not packet.flags & ASK):
            self.late += 1
            return
        if packet.flags & ASK:
            self.answer_again(found, packet.sender)
            return
        # dense and encoded contributions cannot be merged with each other
        if not packet.flags & (RESULT | LACKING) and bool(packet.flags & PAST) != found.dense:
            raise PayloadError(f"it {'passes' if found.dense else 'goes past'} the stages, and nothing else of its batch does")
        self.accept(found, packet)

    @abstractmethod
    def accept(self, batch: Batch, packet: Packet) -> None:
        """Take a packet.

        Args:
            batch: its batch, which is not over.
            packet: the packet.
        """

    def finish(self, batch: Batch, result: Array) -> None:
        """End a batch.

        Args:
            batch: the batch.
            result: its result, in the variable's shape.
        """
        batch.done, batch.result = True, result
        self.set_result(result)

    def answer_again(self, batch: Batch, node: int) -> None:
        """Send again the packets that a node was sent in a batch.

        Args:
            batch: the batch.
            node: id of the node.
        """
        for targets, packet in batch.sent:
            if node in targets:
                self.post([node], packet)

    def wanted(self) -> Batch | None:
        """Return the batch that a result is still wanted for."""
        return self.batch

    @abstractmethod
    def silent(self, batch: Batch) -> set[int]:
        """Return the nodes from which something is missing."""

    @abstractmethod
    def missing_units(self, batch: Batch) -> list[int]:
        """Return the contributions that are missing here."""

    def do_something_to_save_yourself(self) -> Iterable[netEncapsulation] | None:
        batch = self.wanted()
        missing = set() if batch is None or batch.done else self.silent(batch) - {self.node_id}
        return None if batch is None or not missing else self._rescue(batch, missing)

    def _rescue(self, batch: Batch, missing: set[int]) -> Iterator[netEncapsulation]:
        for targets, packet in batch.sent:
            # to each only what it was sent before: shards of others are none of its business
            again = [node for node in targets if node in missing]
            if again:
                yield netEncapsulation(again, tuple(packet))
        # results are believed only from nodes that were asked
        batch.asked |= missing
        # after the own packets, so that one that lacks these can finish first
        yield netEncapsulation(sorted(missing), tuple(self.packet(ASK, 0, (0, 0))))

    def packet(self, flags: int, place: int, span: Span) -> Packet:
        """Return a packet of this node without a payload.

        Args:
            flags: those of `compose.packet`, such as ASK.
            place: the place that it is for, which counts shards and rounds.
            span: the contributions [low, high) that it holds.
        """
        return Packet(self.fingerprint, flags, self.node_id, place, *span, 0, None)

    def missing_blocks(self) -> Iterable[int]:
        batch = self.wanted()
        if batch is None or batch.done:
            return ()
        return batch.lacking or self.units.blocks(self.missing_units(batch))

    def draw(self, step: tuple[int, int], contributor: int) -> Draw:
        """Return the key of the random numbers of one packet of this variable.

        Args:
            step: the (epoch, batch), counted from 0.
            contributor: the number that tells the packet from others of the batch, as a node's id would.
        """
        return Draw(self.job.seed, *step, self.variable, contributor)

    def result_of(self, flat: Array) -> Array:
        """Return the result of a batch that was merged to `flat`: itself, or the parameters to which it is added."""
        if self._local is not None:
            flat = self._local.incoming(flat, self._dense)
        if self._adds:
            if self._reference is None:
                # without parameters of its own, a server counts changes from zero
                self._reference = np.zeros_like(flat)
            # in place: the reference is the parameters after this exchange
            flat = np.add(self._reference, flat, out=self._reference)
            if self._local is not None:
                self._local.begin(flat)
        return flat.reshape(self.shape)

    def _changed(self, value: Array) -> Array:
        if self._reference is None:
            self._reference = np.zeros_like(value)
        self._difference = room_for(value, self._difference)
        return np.subtract(value, self._reference, out=self._difference)

    def _posted(self) -> list[netEncapsulation] | None:
        if not self._outbox:
            return None
        posted, self._outbox = self._outbox, []
        return posted

    def within(self) -> dict[str, Remembers]:
        """Return the parts that remember something, by their names in the state."""
        return {} if self._local is None else {"local": self._local}

    def state_dict(self) -> dict[str, Any]:
        """Return the number of batches so far, the parameters after the last exchange where changes of them are sent, and the
        states of the parts; of a server that has a merge rule to tell it to, the number of exchanges.
        """
        reference = {} if self._reference is None else {"reference": self._reference}
        # not of a worker, whose count follows from its batches: a state of one number more would not be that of all workers
        counted = {"exchanges": self._exchanges} if self._own is None and self._tells else {}
        return {"batches": self._batches, **counted, **reference, **gathered(self.within())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        rest = scattered(self.within(), state)
        self._batches = int(rest.pop("batches", 0))
        if self._own is None:
            # a worker's count follows from its batches (see `state_dict`)
            self._exchanges = int(rest.pop("exchanges", 0))
        elif self._tells:
            trigger = self.parts.trigger
            self._exchanges = self._batches if trigger.always else sum(map(trigger.fires, range(self._batches)))
        reference = rest.pop("reference", None)
        if reference is not None:
            # copied: the state is read-only memory of a checkpoint's file
            self._reference = np.array(reference)
        super().load_state_dict(rest)

    def dispose(self) -> None:
        super().dispose()
        self.batch = self.before = None
        self._outbox.clear()
        if self._own is not None:
            self._own.reset()

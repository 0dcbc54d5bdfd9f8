"""What all composed codecs have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from parallel_sgd.channel import Parameter_Server
from parallel_sgd.codec.interfaces import Array, BlockWeight, Codec, netEncapsulation
from parallel_sgd.codec.pipeline import Draw, PayloadError
from parallel_sgd.codec.pipeline.stage import prefixed, room_for, split
from parallel_sgd.codec.settings import GlobalSettings
from parallel_sgd.merge import Span
from parallel_sgd.unusable import Like

from .builder import refuse
from .gather import OwnBlocks, Units
from .packet import ASK, PAST, Packet, fingerprint_of
from .parts import Composition, Grain
from .trigger import Trigger

_NOTHING = object()


class Composed(Codec):
    """A codec made of parts by `Codec.of`.

    It puts the worker's own blocks together, asks the trigger, and hands over what is to be sent; subclasses exchange it.
    `late` counts packets that came when their batch was over.
    """

    keeps_content = False
    synchronous = True

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
        if node_id not in assignment.nodes and not (serves and self.serves):
            nodes = [*assignment.nodes, Parameter_Server] if self.serves else list(assignment.nodes)
            raise ValueError(f"{type(self).__name__} exchanges among the nodes {nodes}, it cannot run on node {node_id}")
        self.parts = self.composition.make()
        refuse(self.composition, self.parts)
        self.fingerprint = fingerprint_of(self.composition.identity(self.parts))
        self.units = Units(self._grain(), assignment, self.parts.merge.weights)
        self.late = 0
        self._title = f"{type(self).__name__} of variable {self.variable}"
        self._content: Any = _NOTHING
        self._seen: Packet = Packet(0, 0, 0, 0, 0, 0, 0, None)
        self._like: Like | None = None
        self._numbers = 0
        self._fired = False
        self._batches = 0
        self._outbox: list[netEncapsulation] = []
        self.shape: tuple[int, ...] = ()
        self._own: OwnBlocks | None = None
        if not serves:
            mine = assignment.node_2_block[node_id]
            stays = not self.parts.trigger.late
            self._own = OwnBlocks(self.units.grain, node_id, mine, assignment.block_count, stays)
        self._fresh = True
        self._adds = self.composition.send == "delta" or self.parts.updates
        self._reference: Array | None = None
        if self._adds and self.variable < len(self.job.values):
            self._reference = self.job.values[self.variable].flatten()
        self._local = None if serves else self.parts.local
        self._dense = False
        if self._local is not None:
            self._local.use(self.job.rule)
            if self._reference is not None:
                self._local.begin(self._reference)
        self._difference: Array = np.empty(0, np.float32)

    @property
    def complete(self) -> bool:
        return self._own is not None and self._own.complete

    def _grain(self) -> Grain:
        return self.composition.grain(self.parts)

    def update_blocks(self, block_weight: BlockWeight) -> list[netEncapsulation] | None:
        content, block = block_weight
        if self._own is None:
            raise TypeError(f"{type(self).__name__} on the parameter server computes no blocks")
        if self._fresh:
            self._own.reset()
            self._fresh = False
            self.shape = content.shape
            self._fired = self.parts.trigger.fires(self._batches)
            self._dense = self._fired and self.parts.trigger.dense(self._batches)
            if self._fired:
                self.open(self.job.step, self._dense)
        whole = self._own.add(block, content)
        if self._own.complete:
            self._fresh = True
            self._batches += 1
        if not self._fired:
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

    @abstractmethod
    def open(self, step: tuple[int, int], dense: bool) -> None:
        """A batch with an exchange begins; `dense`: past all stages."""

    @abstractmethod
    def contribute(self, span: Span, value: Array) -> None:
        """Send a contribution, a flat vector that stays unchanged until the batch is over."""

    @abstractmethod
    def take(self, packet: Packet) -> None:
        """A packet of this batch has arrived, or of the one before."""

    def check(self, content: Any, like: Like | None) -> None:
        """Refuse packets that this composition does not send."""
        packet = self._packet(content)
        if like is not None and like is not self._like:
            self._like, self._numbers = like, like.size * (1 if self.parts.local is None else self.parts.local.width)
        numbers = self._numbers
        packet.check(like, numbers)
        self.job.check_sender(packet.sender)
        if packet.flags & PAST and type(self.parts.trigger).dense is Trigger.dense:
            raise PayloadError(f"it goes past the stages, which {self.parts.trigger!r} never does")
        if like is not None and not packet.flags & ASK:
            self.check_part(packet, like, numbers)

    @abstractmethod
    def check_part(self, packet: Packet, like: Like, numbers: int) -> None:
        """Refuse what its sender has no part in, and another size than that of its place; `numbers` are sent in all.

        Raises: Unusable saying what is wrong.
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

    def _packet(self, content: Any) -> Packet:
        """Read the content of a packet, once."""
        if content is not self._content:
            self._seen = Packet.of(content, self.fingerprint, self._title)
            self._content = content
        return self._seen

    def receive_blocks(self, content: Any) -> list[netEncapsulation] | None:
        """Take a packet.

        Raises: PayloadError for one that this composition has not sent.
        """
        packet, self._content = self._packet(content), _NOTHING
        self.take(packet)
        return self._posted()

    def receive_late(self, content: Any) -> list[netEncapsulation] | None:
        return self.receive_blocks(content)

    def post(self, targets: list[int], packet: Packet) -> None:
        """Have a packet leave when the present call ends."""
        if targets:
            self._outbox.append(netEncapsulation(targets, tuple(packet)))

    def draw(self, step: tuple[int, int], contributor: int) -> Draw:
        """Return what the random numbers of a contribution depend on."""
        return Draw(self.job.seed, *step, self.variable, contributor)

    def result_of(self, flat: Array) -> Array:
        """Return the result of a batch that was merged to `flat`: itself, or the parameters to which it is added."""
        if self._local is not None:
            flat = self._local.incoming(flat, self._dense)
        if self._adds:
            if self._reference is None:
                self._reference = np.zeros_like(flat)
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

    def state_dict(self) -> dict[str, Any]:
        """How many batches there were, what the local rule remembers, and the parameters after the last exchange where changes
        of them are sent.
        """
        reference = {} if self._reference is None else {"reference": self._reference}
        local = {} if self._local is None else self._local.state_dict()
        return {"batches": self._batches, **reference, **prefixed("local", local)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        rest = dict(state)
        self._batches = int(rest.pop("batches", 0))
        reference = rest.pop("reference", None)
        if reference is not None:
            self._reference = np.array(reference)
        if self._local is not None:
            own, rest = split("local", rest)
            self._local.load_state_dict(own)
        super().load_state_dict(rest)

    def dispose(self) -> None:
        super().dispose()
        self._outbox.clear()
        if self._own is not None:
            self._own.reset()

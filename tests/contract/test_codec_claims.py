"""SEC-11, SEC-21: a node has its own vote: what it sends in the name of others is refused, naming it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from network.errors import BadContent
from nn.optimizer.sharded import shard_bounds
from parallel_sgd import Parameter_Server
from parallel_sgd import codec as codecs
from parallel_sgd.codec import ADPSGD, AsyncPS, Codec, GlobalSettings, GradCode, Plain, SyncPS, netEncapsulation
from parallel_sgd.codec.compose import PS, AllToAll, Ring, Tree, Warmup
from parallel_sgd.codec.compose.composed import Composed
from parallel_sgd.codec.compose.packet import DENSE, PAST, RESULT, Packet
from parallel_sgd.codec.compose.reduce import ROUND
from parallel_sgd.codec.pipeline import PowerSGD, RandomK
from parallel_sgd.engine.sharded_exchange import GradientShard, ParameterShard
from parallel_sgd.engine.unusable import Like, Unusable
from parallel_sgd.profiles import DuplicateAssignment, IIDBlockAssignment
from parallel_sgd.simulation.immediate import reliable
from parallel_sgd.testing.array_job import ArrayJob

from .test_codec_gate import assignment_of
from .test_codecs import ROWS, bits, lost_once

KINDS = [kind for kind in ROWS if kind.__name__ != "DummyCodec"]
#: Where ids and ranges stand in what a worker sends; counters of rounds and questions are its own affair.
FIELDS: dict[type[Codec], tuple[int, ...]] = {
    Composed: (1, 2, 3, 4, 5, 6),
    Plain: (0, 1, 3),
    SyncPS: (1, 2, 4),
    AsyncPS: (0,),
    GradCode: (1,),
    ADPSGD: (0,),
}


class Liar:
    """From the second batch on, what one worker sends is what `lie` makes of the contents; `received` tells it what came."""

    def __init__(self, node: int, lie: Callable[[tuple[int, ...], Any], Iterator[tuple[tuple[int, ...], Any]]]) -> None:
        self.node, self._lie = node, lie
        self.lies = 0

    def packets(self, packets: Any, node: int) -> Any:
        if node != self.node or GlobalSettings.current().step < (0, 1) or packets is None:
            return packets
        found = [packets] if isinstance(packets, netEncapsulation) else list(packets)
        return [netEncapsulation(*said) for packet in found for said in self._lie(packet.targets, packet.content)]

    def heard(self, content: Any, node: int) -> list[netEncapsulation]:
        return []

    def of(self, kind: type[Codec]) -> type[Codec]:
        """The codec of the job, that lies on one node."""
        liar = self

        class Lying(kind):  # type: ignore[misc, valid-type]
            def update_blocks(self, block_weight: Any) -> Any:
                return liar.packets(super().update_blocks(block_weight), self.node_id)

            def receive_blocks(self, content: Any) -> Any:
                more = liar.heard(content, self.node_id)
                packets = liar.packets(super().receive_blocks(content), self.node_id)
                packets = [] if packets is None else [packets] if isinstance(packets, netEncapsulation) else list(packets)
                return more + packets

            def do_something_to_save_yourself(self) -> Any:
                return liar.packets(super().do_something_to_save_yourself(), self.node_id)

        Lying.__name__ = kind.__name__
        return Lying


class Claimant(Liar):
    """Says another number in one field."""

    def __init__(self, node: int, field: int, change: Callable[[int], int]) -> None:
        super().__init__(node, self._claims)
        self.field, self._change = field, change

    def _claims(self, targets: tuple[int, ...], content: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
        parts = list(content)
        if self.field < len(parts) and type(parts[self.field]) is int:
            changed = self._change(parts[self.field])
            self.lies += changed != parts[self.field]
            parts[self.field] = changed
        yield targets, tuple(parts)


class Shortened(Liar):
    """Sends one number less than there are at a place."""

    def __init__(self, node: int, place: int) -> None:
        super().__init__(node, self._short)
        self._place = place

    def _short(self, targets: tuple[int, ...], content: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
        packet = Packet(*content)
        if packet.payload is not None and packet.place == self._place:
            self.lies += 1
            packet = packet._replace(size=packet.size - 1, payload=packet.payload[:-1])
        yield targets, tuple(packet)


class Forger(Liar):
    """Says what it hears from others once more, to all, with its own numbers, and before them."""

    def __init__(self, node: int, nodes: list[int]) -> None:
        super().__init__(node, self._own)
        self._others = [other for other in nodes if other != node]
        self._arrays: dict[int, list[Any]] = {}

    def _own(self, targets: tuple[int, ...], content: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
        parts = content if isinstance(content, tuple) else (content,)
        self._arrays[GlobalSettings.current().variable] = [part for part in parts if isinstance(part, np.ndarray)]
        yield targets, content

    def heard(self, content: Any, node: int) -> list[netEncapsulation]:
        if node != self.node or GlobalSettings.current().step < (0, 1):
            return []
        self.lies += 1
        mine = iter(self._arrays.get(GlobalSettings.current().variable, ()))
        forged = self._forged(content, mine)
        if isinstance(content, tuple) and len(content) == len(Packet._fields):
            forged = tuple(Packet(*forged)._replace(sender=node))
        return [netEncapsulation(self._others, forged)]

    def _forged(self, content: Any, mine: Iterator[Any]) -> Any:
        if isinstance(content, np.ndarray):
            own = next(mine, None)
            alike = own is not None and (own.shape, own.dtype) == (content.shape, content.dtype)
            return own.copy() if alike else content * content.dtype.type(2)
        if isinstance(content, (tuple, list)):
            return type(content)([self._forged(part, mine) for part in content])
        return content


def outcome(kind: type[Codec], liar: Liar, honest: list[list[bytes]], **settings: Any) -> bool:
    """True when the liar was refused; else what it has said must have changed nothing, or was a question in place of a packet,
    which others miss.
    """
    row = ROWS[kind]
    given = {"parameters": row.parameters, "sync_type": row.sync_type, "batches": 3, **settings}
    job = ArrayJob(assignment_of(kind), codec=liar.of(kind), server=kind if row.server else None, **given)
    try:
        job.run()
    except BadContent as error:
        assert error.node_id == liar.node, str(error)
        assert re.match(rf"{kind.__name__}, variables? \d.*, epoch 1, batch \d$", error.what)
        return True
    except TimeoutError:
        assert isinstance(liar, Claimant) and issubclass(kind, Composed) and liar.field == 1, "it was taken for another one's"
        return False
    assert bits(job) == honest, "somebody else's vote was taken"
    return False


def honest_bits(kind: type[Codec], **settings: Any) -> list[list[bytes]]:
    row = ROWS[kind]
    given = {"parameters": row.parameters, "sync_type": row.sync_type, "batches": 3, **settings}
    return bits(ArrayJob(assignment_of(kind), codec=kind, server=kind if row.server else None, **given).run())


CHANGES: list[Callable[[int], int]] = [
    lambda field: field + 1,
    lambda field: field ^ 4,
    lambda field: field ^ PAST,
    lambda field: 2,
    lambda field: Parameter_Server,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.share(60)
def test_no_other_id_or_range_is_taken(kind: type[Codec]) -> None:
    """Each field of ids and ranges, in a job that loses packets, so that nodes also ask."""
    fields = next(fields for base, fields in FIELDS.items() if issubclass(kind, base))
    link = lost_once if ROWS[kind].exchanges else lambda: reliable
    honest = honest_bits(kind, link=link())
    refused = tried = 0
    for field in fields:
        for change in CHANGES:
            liar = Claimant(0, field, change)
            refused += outcome(kind, liar, honest, link=link())
            tried += bool(liar.lies)
    assert refused >= tried * 0.5 > 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.share(6)
def test_nobody_speaks_for_others(kind: type[Codec]) -> None:
    """Contributions of other workers, merged shards, answers and results of the server, in the liar's words."""
    row = ROWS[kind]
    nodes = [*assignment_of(kind).nodes, *([Parameter_Server] if row.server else [])]
    refused = lies = 0
    for node in (0, 1):

        def link(sender: int, receiver: int, _key: Any, node: int = node) -> tuple[float, ...]:
            return (0.0 if node in (sender, receiver) else 0.5,)

        liar = Forger(node, nodes)
        refused += outcome(kind, liar, honest_bits(kind, link=link), link=link)
        lies += liar.lies
    assert refused and lies


def packet_of(codec: Any, sender: int, flags: int, place: int, span: tuple[int, int], size: int) -> tuple[Any, ...]:
    payload = np.ones(size if flags & DENSE else 4 * size, np.float32 if flags & DENSE else np.uint8)
    return tuple(Packet(codec.fingerprint, flags, sender, place, *span, size, payload))


@pytest.mark.parametrize("up", [lambda: RandomK(0.5), lambda: PowerSGD(1)], ids=["RandomK", "PowerSGD"])
@pytest.mark.parametrize("exchange", [PS(), AllToAll(), Ring(), Tree()], ids=repr)
def test_the_first_of_a_linear_code_does_not_decide_on_the_size(exchange: Any, up: Callable[[], Any]) -> None:
    """Node 1 comes first, with fewer numbers, in each round: it is named, and not the honest ones after it."""
    kind = Codec.of(exchange, up=up, name="Coded")
    rounds = 0
    for round_ in (0, 1):
        liar = Shortened(1, round_ if isinstance(exchange, Tree) else round_ * ROUND)
        job = ArrayJob(
            IIDBlockAssignment(3),
            codec=liar.of(kind),
            server=kind if kind.traits.needs_server else None,
            shapes=((30, 20), (20,)),
            link=lambda sender, *_: (0.0 if sender == 1 else 0.5,),
        )
        try:
            job.run()
        except BadContent as error:
            assert error.node_id == 1, str(error)
            rounds += 1
        else:
            assert not liar.lies
    assert rounds == (2 if isinstance(up(), PowerSGD) else 1)


@pytest.mark.parametrize("kind", [Plain, codecs.FirstCopy, codecs.Ring, codecs.Median, codecs.Krum, SyncPS, codecs.LAQ])
def test_a_result_that_nobody_asked_for_is_refused(kind: type[Codec]) -> None:
    """The answer that is given to one that comes late, given at once by a worker."""

    def lie(targets: tuple[int, ...], content: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
        whole = np.full(shape(), 7, np.float32)
        if kind is Plain:
            content = (0, 0, whole)
        elif kind is SyncPS:
            targets, content = (0,), whole
        else:
            fields = Packet(*content)
            content = tuple(
                fields._replace(flags=DENSE | RESULT, low=0, high=0, place=0, size=whole.size, payload=whole.ravel())
            )
        yield targets, content

    def shape() -> tuple[int, ...]:
        return (16,) if kind.traits.scope == "model" else ((3, 4), (4,))[GlobalSettings.current().variable]

    assert outcome(kind, Liar(1, lie), [])


def test_copies_of_a_block_come_from_those_who_hold_it() -> None:
    """With redundant blocks, by exact sums, by blocks and by workers; of 4 workers two hold each of the blocks 0 to 3."""
    assignment = DuplicateAssignment(4, 2)
    for kind in (Plain, codecs.FirstCopy, codecs.FirstCopyInt8, codecs.Median):
        with GlobalSettings.use(assignment) as settings:
            codec: Any = kind(0)
            # Plain looks when it takes a packet, before it adds anything
            like = Like((8,), np.dtype(np.float32))
            take = codec.receive_blocks if kind is Plain else partial(codec.check, like=like)
            for sender in (1, 2, 3):
                settings.sender = sender
                for low in range(4):
                    for high in range(low + 1, 5):
                        held = set(range(low, high)) <= set(assignment.node_2_block[sender])
                        whole = high - low == (len(assignment.node_2_block[sender]) if kind is not codecs.FirstCopyInt8 else 1)
                        mine = (low, high) == (sender, sender + 1) if kind is codecs.Median else held and whole
                        if kind is Plain:
                            content: Any = (low, high, np.ones(8, np.float32))
                        else:
                            flags = 0 if kind is codecs.FirstCopyInt8 else DENSE
                            content = packet_of(codec, sender, flags, 0, (low, high), 8)
                        if mine:
                            take(content)
                        else:
                            with pytest.raises(Unusable, match=rf"which node\({sender}\) does not supply"):
                                take(content)


def test_a_shard_of_an_optimizer_is_its_owners() -> None:
    """Sums come from those who supply them, to the owner; parameters and questions from it; nobody asks for another."""
    values = [np.zeros(960, np.float32)]
    low, high = shard_bounds(960, 3)[1:3]
    ones = np.ones(high - low, np.float32)
    with GlobalSettings.use(IIDBlockAssignment(3), values=values) as settings:
        settings.variable = 1
        owner, other = GradientShard(1), GradientShard(0)
        settings.variable = 4
        parameters_of_owner, parameters = ParameterShard(1), ParameterShard(0)
        for codec, sender, good, bad in (
            (owner, 2, [(2, 3, ones)], [(0, 1, ones), (1, 2, ones), (0, 3, ones), 2, 1]),
            (other, 1, [1], [(1, 2, ones), 0, 2]),
            (other, 2, [], [1, 2, (2, 3, ones)]),
            (parameters, 1, [ones], [(0, 5), (2, 5)]),
            (parameters, 2, [], [ones]),
            (parameters_of_owner, 2, [(2, 5)], [ones, (0, 5)]),
        ):
            settings.sender = sender
            for content in good:
                codec.check(content, None)
            for content in bad:
                with pytest.raises(Unusable):
                    codec.check(content, None)


def test_dense_batches_are_all_dense() -> None:
    """One that goes past the stages where the others do not, or the other way round, is named by workers."""
    kind = Codec.of(AllToAll(), up=lambda: RandomK(0.5), trigger=Warmup(2), name="Warm")

    def lie(targets: tuple[int, ...], content: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
        packet = Packet(*content)
        yield targets, tuple(packet._replace(flags=packet.flags ^ PAST))

    with pytest.raises(BadContent) as info:
        ArrayJob(
            IIDBlockAssignment(3), codec=Liar(1, lie).of(kind), link=lambda sender, *_: (0.0 if sender == 1 else 0.5,)
        ).run()
    assert info.value.node_id == 1
    assert len(bits(ArrayJob(IIDBlockAssignment(3), codec=kind).run())) == 3

"""Exchange patterns: all to all, parameter server, shards, ring."""

from __future__ import annotations

from typing import Any, ClassVar

from nn import arguments
from parallel_sgd.codec.interfaces import Codec
from parallel_sgd.codec.pipeline.stage import share
from parallel_sgd.engine.channel import Parameter_Server
from parallel_sgd.profiles.blockassignment.abstract import ISetting

from .builder import build
from .parts import Composition, ExchangePattern, Parts, Shard, flat
from .reduce import Peers, Serving


class AllToAll(ExchangePattern):
    """All-to-all exchange: every worker sends to all others, and all merge. Bytes per worker: W - 1 payloads."""

    rounds: ClassVar[bool] = True
    in_one_place: ClassVar[bool] = True
    merges_first_copies: ClassVar[bool] = True

    def compose(self, **parts: Any) -> type[Codec]:
        return build(Peers, self, **parts)


class PS(ExchangePattern):
    """Exchange through the parameter server, which merges and sends the result to all workers. `ps_codec` is the same class.

    Bytes per worker: a payload up, one down. With `quorum` < 1 a worker with a result overdue by `ssgd_timeout_limit` has
    the server close the batch without the missing workers, if at least this share of the weight is there.

    Raises: TypeError, ValueError unless 0 < quorum <= 1.
    """

    needs_server: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    returns: ClassVar[bool] = True
    in_one_place: ClassVar[bool] = True
    merges_first_copies: ClassVar[bool] = True

    def __init__(self, quorum: float = 1.0) -> None:
        self.quorum = share(self, "quorum", quorum)

    def compose(self, **parts: Any) -> type[Codec]:
        return build(Serving, self, **parts)

    def refuse(self, composition: Composition, parts: Parts) -> None:
        # a server has one batch under way for each variable
        if parts.trigger.late:
            raise ValueError(f"{parts.trigger!r} needs two batches under way: take AllToAll(), ShardedPS() or Ring()")
        # the memory at the receiver would lack what a missing packet has changed
        needs_all = parts.code is not None or any(stage.needs_every_packet for stage in flat(parts.stage))
        if self.quorum < 1 and needs_all:
            raise ValueError(f"PS(quorum={self.quorum}) may leave a packet out, but {parts.up!r} needs every one: use PS()")

    def shards(self, n: int, assignment: ISetting, variable: int) -> list[Shard]:
        return [Shard(0, n, Parameter_Server)]


class ShardedPS(ExchangePattern):
    """Sharded exchange: every worker is the server for a part of each variable. Shards go to their owners, merged ones to all.

    Bytes per worker: 2 (W - 1) / W payloads, and the scales of each shard. Both ways may be encoded. Variables of fewer than
    W `smallest` elements are cut into fewer shards; owners take turns over variables.

    Raises: TypeError, ValueError unless smallest is a positive integer.
    """

    returns: ClassVar[bool] = True

    def __init__(self, smallest: int = 1024) -> None:
        self.smallest = arguments.integer(self, "smallest", smallest, minimum=1)

    def compose(self, **parts: Any) -> type[Codec]:
        return build(Peers, self, **parts)

    def refuse(self, composition: Composition, parts: Parts) -> None:
        if parts.merge.whole:
            raise ValueError(f"{parts.merge!r} looks at vectors as a whole, but {self!r} cuts them: take AllToAll() or PS()")

    def shards(self, n: int, assignment: ISetting, variable: int) -> list[Shard]:
        # not smaller: a packet costs some 65 us of a processor at both ends (ADR 36)
        count = max(1, min(assignment.node_count, n // self.smallest))
        # running products, so that sizes differ by one at most
        cuts = [n * number // count for number in range(count + 1)]
        # in turns, so that small variables do not all have the first worker for an owner
        owners = [(variable + number) % assignment.node_count for number in range(count)]
        return [Shard(*part) for part in zip(cuts, cuts[1:], owners)]  # noqa: B905  one cut more than shards


class Ring(ShardedPS):
    """Reduce-scatter and all-gather at the bytes of a ring, 2 (W - 1) / W payloads per worker, for linear parts.

    A literal ring adds up along its way, so its bits depend on the number of workers. Here every shard goes straight to its
    owner, which adds along the fixed tree over blocks: the same bytes, and the bits of `Plain`. A linear stage such as
    RandomK encodes each variable as a whole; its payloads are averaged and decoded once. Patarasuk and Yuan, "Bandwidth
    optimal all-reduce algorithms for clusters of workstations", 2009, tells the bytes.
    """

    linear: ClassVar[bool] = True
    rounds: ClassVar[bool] = True

    def refuse(self, composition: Composition, parts: Parts) -> None:
        super().refuse(composition, parts)
        if parts.merge.first_copy and parts.up is not None:
            raise ValueError(f"FirstCopy encodes every block by itself, but {self!r} averages payloads: take AllToAll()")

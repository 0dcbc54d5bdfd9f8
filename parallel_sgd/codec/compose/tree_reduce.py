"""Sums along a tree of workers, and the mean back down."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from parallel_sgd.codec.interfaces import Array, Codec
from parallel_sgd.codec.pipeline import PayloadError
from parallel_sgd.codec.pipeline.stage import Remembers
from parallel_sgd.engine.block_tree import Span
from parallel_sgd.engine.merge import TreeSum
from parallel_sgd.engine.unusable import Like

from .builder import build
from .composed import Batch, Composed
from .encoders import Encoders, dense
from .merge import Mean
from .packet import DENSE, DOWN, LACKING, PAST, RESULT, Packet
from .parts import Composition, ExchangePattern, Grain, Parts


class Tree(ExchangePattern):
    """Tree of workers: sums climb it and the mean comes down, for linear parts: 2 log2(W) steps in place of W packets.

    It is binary, the tree over blocks along which everything is merged, so the bits are those of `Plain`. Bytes: every worker
    but one sends a payload up and gets one down; the first worker sends and receives log2(W) of each. Without redundancy.
    """

    linear: ClassVar[bool] = True
    rounds: ClassVar[bool] = True

    def compose(self, **parts: Any) -> type[Codec]:
        return build(TreeReduction, self, **parts)

    def refuse(self, composition: Composition, parts: Parts) -> None:
        if type(parts.merge) is not Mean:
            raise ValueError(f"Tree takes the mean over all blocks, got {parts.merge!r}: leave 'merge' out")
        if parts.trigger.late:
            raise ValueError(f"{parts.trigger!r} needs two batches under way: take AllToAll(), ShardedPS() or Ring()")


class TreeReduction(Composed):
    """Reduction along the tree: a worker adds its value to the sums that others send it, up to the root of the tree. The worker
    there sends the mean back down.

    The sum over a span belongs to the worker with the span's first contribution. It goes up to the one of the span around it,
    and the mean comes down on the way of each worker's first sum.
    """

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        assignment = self.job.assignment
        if assignment.redundancy > 1:
            raise ValueError(f"{type(self).__name__} has one way for each block: use AllToAll() where workers share blocks")
        self._stages = Encoders(self.parts, linear=True, decoder=node_id)
        # all routes are computed by all: a packet's sender is checked against its own
        self._routes = {node: self._route(node) for node in assignment.nodes}
        self._children = [node for node in assignment.nodes if node != node_id and self._parent(node) == node_id]
        self._sums: dict[int, TreeSum] = {}
        self._means: dict[int, Array] = {}

    def _owner(self, span: Span) -> int:
        return self.units.holders(span[0])[0]

    def _route(self, node: int) -> dict[Span, int]:
        """Return the spans of the sums that a worker hands on, each with the worker that gets it; the root goes to itself."""
        # from a worker, only sums whose parent span another one owns
        tree, route = self.units.tree, {}
        for span in [*tree.parent, tree.root]:
            around = tree.parent.get(span)
            if self._owner(span) == node and (around is None or self._owner(around) != node):
                route[span] = node if around is None else self._owner(around)
        return route

    def _parent(self, node: int) -> int:
        # its first span is that with the lowest block: by it the mean comes back
        return self._routes[node][min(self._routes[node])]

    def open(self, step: tuple[int, int], dense: bool) -> None:
        super().open(step, dense)
        for sums in self._sums.values():
            sums.reset()
        self._means.clear()

    def contribute(self, span: Span, value: Array) -> None:
        batch = self.under_way()
        if not batch.dense:
            value = self._stages.start(span[0], value, self.shape, self.draw(batch.step, span[0]))
        self._add(batch, 0, span, self._weigh(value))

    def _weigh(self, value: Array) -> Array:
        # equal weights cost no rounding
        weights = self.units.weights
        if not self.units.workers or all(weight == weights[0] for weight in weights):
            return value
        weighted: Array = np.multiply(value, value.dtype.type(weights[self.node_id]))
        return weighted

    def _add(self, batch: Batch, round_: int, span: Span, value: Array) -> None:
        """Add a sum; hand it on when its span is complete."""
        sums = self._sums.get(round_)
        if sums is None:
            sums = self._sums[round_] = TreeSum(self.units.tree, tops=self._routes[self.node_id])
        before = sums.duplicates
        # copied, since a payload stays valid for this call alone
        whole = sums.add(span, value, stays=False)
        self.repeated += sums.duplicates - before
        if whole is None:
            return
        top, total = whole
        if top != self.units.tree.root:
            packet = self.packet(DENSE | (PAST if batch.dense else 0), round_, top)
            # a copy: the sum's buffer is used again in the next batch, and the packet may be asked for again
            self.send(batch, [self._routes[self.node_id][top]], packet._replace(size=total.size, payload=total.copy()))
            return
        weights = self.units.weights
        even = all(weight == weights[0] for weight in weights)
        # the number of equal shares, or the sum of the weights
        self._descend(batch, round_, np.divide(total, len(weights) if even else sum(weights)))

    def _descend(self, batch: Batch, round_: int, mean: Array) -> None:
        """Hand the mean on; it is the result or leads to the next round."""
        if round_ in self._means:
            self.repeated += 1
            return
        self._means[round_] = mean
        packet = self.packet(DENSE | DOWN | (PAST if batch.dense else 0), round_, self.units.tree.root)
        self.send(batch, self._children, packet._replace(size=mean.size, payload=mean))
        vector, complete = (mean, True) if batch.dense else self._stages.proceed(mean)
        if complete:
            self.finish(batch, self.result_of(vector))
        else:
            # in the second round each worker has one contribution, its own
            self._add(batch, round_ + 1, (self.node_id, self.node_id + 1), self._weigh(vector))

    def check_part(self, packet: Packet, like: Like, numbers: int) -> None:
        size = self._stages.size(packet.place, like.shape, numbers, bool(packet.flags & PAST))
        if packet.size != size:
            raise PayloadError(f"it is for {packet.size} numbers, and must be for {size}")
        node, span = packet.sender, (packet.low, packet.high)
        if packet.flags & DOWN:
            fits = span == self.units.tree.root and node == self._parent(self.node_id)
        else:
            fits = not packet.flags & (RESULT | LACKING) and self._routes.get(node, {}).get(span) == self.node_id
        if not fits:
            raise PayloadError(f"it is for the span {span}, of which node({node}) sends nothing here")

    def accept(self, batch: Batch, packet: Packet) -> None:
        payload = dense(packet.payload, packet.size)
        if packet.flags & DOWN:
            self._descend(batch, packet.place, payload)
        else:
            self._add(batch, packet.place, (packet.low, packet.high), payload)

    def silent(self, batch: Batch) -> set[int]:
        # a round begins when the mean of the one before has come
        round_ = len(self._means)
        nodes = {self._parent(self.node_id)}
        sums = self._sums.get(round_)
        missing = set(range(self.units.count)) if sums is None else set(sums.missing())
        for node, route in self._routes.items():
            # of the workers below, those alone whose sums have something that is missing
            nodes.update(node for span, target in route.items() if target == self.node_id and missing & set(range(*span)))
        return nodes

    def missing_units(self, batch: Batch) -> list[int]:
        sums = self._sums.get(len(self._means))
        missing = range(self.units.count) if sums is None else sums.missing()
        return [unit for unit in missing if any(low <= unit < high for low, high in self._routes[self.node_id])]

    def _grain(self) -> Grain:
        grain = super()._grain()
        # there is one way for each block, so nothing is gained by single ones
        return Grain.WORKERS if grain is Grain.BLOCKS else grain

    def within(self) -> dict[str, Remembers]:
        return {**super().within(), **self._stages.within()}

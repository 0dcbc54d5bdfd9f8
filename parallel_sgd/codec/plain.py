"""Dense all-to-all exchange, the correctness anchor, exact to the bit; and a codec without any exchange."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from parallel_sgd.engine.block_tree import Copy, Span, block_tree
from parallel_sgd.engine.merge import BlockMean, OwnMean, TreeSum
from parallel_sgd.engine.unusable import Unusable

from .interfaces import Array, BlockWeight, Codec, Partial, TakingLate, netEncapsulation
from .settings import GlobalSettings
from .traits import PacketTraits, Traits

__all__ = ["DummyCodec", "Plain"]

#: `(low, high, sum over the blocks [low, high))`. A fourth element is the worker that asks for an answer, because it misses
#: something. `(0, 0, mean)` is the answer of one that is done.
PlainContent = tuple[int, int, Array] | tuple[int, int, Array, int]


class Plain(Partial, TakingLate):
    """Dense exchange: every worker sends the sums over its whole subtrees of blocks to all workers that lack one of these.

    The result is the mean over all blocks, summed along the fixed tree, so every worker gets the same bits. With redundant
    blocks the first copy counts and later ones change nothing. Bytes per variable of n elements: 4n per subtree and target.
    """

    traits = Traits(
        keeps_content=False,
        takes_sums=True,
        reads_in_place=True,
        takes_first_copy=True,
        synchronous=True,
        elementwise=True,
        packets=PacketTraits(((int, int, np.ndarray), (int, int, np.ndarray, int)), keeps_type=True),
    )

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self._settings = GlobalSettings.current()
        assignment = self._settings.assignment
        self._settings.check_node(self)
        mine = assignment.node_2_block[node_id]
        tree = block_tree(assignment.block_count)
        spans = tree.cover(mine)
        self._last = mine[-1]
        self._holders = assignment.block_2_node
        # targets of a span lack at least one of its blocks: a node that holds all of them computes the sum itself
        targets = {span: {node for block in range(*span) for node in assignment.get_adversary(block)} for span in spans}
        self._targets = {span: tuple(sorted(nodes)) for span, nodes in targets.items() if nodes}
        # one block is its own subtree: no sum, no buffer
        self._own = TreeSum(tree, tops=spans) if len(mine) > 1 else None
        self._all = BlockMean(assignment.block_count)
        self._sent: dict[Span, Array] = {}
        self._asked: set[int] = set()
        self._mean: Array | None = None
        # `complete` and no result: the one moment between two batches
        self._complete = False  # until the first block of the next batch, which comes after the result was taken

    @property
    def duplicates(self) -> int:
        return self._all.duplicates

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation | None:
        content, block = block_weight
        # the first block that comes after the result was taken, own or foreign, begins the next batch
        begins = self._complete and self._begins()
        span, total = block_weight.span, content
        if self._own is not None:
            whole = self._own.add(span, content, stays=block == self._last)
            if whole is None:
                return None
            span, total = whole
        # kept for the rescue: no other node can make this sum again, but by redundancy
        self._sent[span] = total
        # stays: own sums live in `_own`, until `_begins` of the next batch
        mean = self._all.mean_with(span, total, stays=True, node=self._node_id, begins=begins)
        if mean is not None:
            self._finish(mean, tuple(self._all.copies))
        targets = self._targets.get(span)
        return None if targets is None else netEncapsulation(targets, (*span, total))

    def receive_blocks(self, content: PlainContent) -> list[netEncapsulation] | None:
        low, high, value, *asking = content
        sender = self._settings.sender
        # a known span of this sender needs no further look; all else goes through `_check_sender`
        if asking or sender is None or (low, high) not in self._settings.spans.get(sender, ()):
            self._check_sender(low, high, asking)
        if high != 0:
            begins = self._complete and self._begins()
            # given: what came over the wire is this codec's own, so the sum may be written into it
            mean = self._all.mean_with((low, high), value, stays=True, given=True, node=sender, begins=begins)
            if mean is not None:
                self._finish(mean, tuple(self._all.copies))
        # any node could send a result: it counts only from a worker that was asked
        elif sender in self._asked or sender is None:
            self._finish(value, None)
        else:
            raise Unusable("it is a result, for which it was not asked")
        # the answer has all own sums again: which one the asking worker misses is not known here
        return [netEncapsulation(asking, (*span, total)) for span, total in self._sent.items()] if asking else None

    def _check_sender(self, low: int, high: int, asking: list[int]) -> None:
        """Refuse sums over blocks that the sender does not supply, and questions in the name of another worker."""
        settings = self._settings
        for node in asking:
            settings.check_sender(node)
        sender = settings.sender
        if high != 0 and sender is not None and (low, high) not in settings.spans.get(sender, ()):
            settings.check_span((low, high), sender)

    def receive_late(self, content: PlainContent) -> netEncapsulation | None:
        """Give the result to a worker that still asks for it."""
        low, high, _, *asking = content
        self._check_sender(low, high, asking)
        if not asking or self._mean is None:
            return None
        return netEncapsulation(asking, (0, 0, self._mean.copy()))  # the buffer may be overwritten before the bytes have left

    def do_something_to_save_yourself(self) -> Iterator[netEncapsulation] | None:
        """Send the own sums again to the workers of the missing blocks, and ask them for an answer."""
        # a block may be with several workers: all are asked, and the first copy counts
        late = {node for block in self._all.missing() for node in self._holders[block]} - {self.node_id}
        if not (late and self._sent):
            return None
        # remembered, since only their results are believed
        self._asked = late
        return (netEncapsulation(late, (*span, total, self.node_id)) for span, total in self._sent.items())

    def _begins(self) -> bool:
        """Forget the batch before when the block that has come is the first one since its result was taken.

        Returns: True where the sum over all blocks is still to be reset.
        """
        if self._result is not None:
            return False
        self._complete = False
        self._sent.clear()
        self._asked = set()
        if self._own is None:
            return True  # `mean_with` forgets the batch before then
        self._own.reset()
        self._all.reset()
        return False

    def missing_blocks(self) -> Iterable[int]:
        return self._all.missing()

    def settle(self) -> None:
        # bits depend on which blocks are there, so `FirstK` does not promise equal replicas
        mean = self._all.mean_so_far()
        if mean is not None:
            self._finish(mean, tuple(self._all.copies))

    def dispose(self) -> None:
        super().dispose()
        self._sent.clear()
        if self._own is not None:
            self._own.reset()
        self._all.reset()
        self._mean = None

    def _finish(self, mean: Array, copies: tuple[Copy, ...] | None) -> None:
        # the first of two results counts: merged here, or told by a worker that was asked
        if self._result is None:
            self._mean = self._result = mean
            self.copies, self._complete = copies, True


class DummyCodec(Codec):
    """Codec without an exchange, so n workers train n different models.

    The result is the mean over the worker's own blocks of the batch. A batch is still `block_size` times all blocks of the
    data; a worker's step uses its own share of it. Sends nothing.
    """

    traits = Traits(keeps_content=False, agrees=False, packets=PacketTraits(keeps_type=True))

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        settings = GlobalSettings.current()
        settings.check_node(self)
        self._own = OwnMean(settings.assignment.node_2_block[node_id])

    def update_blocks(self, block_weight: BlockWeight) -> None:
        content, block = block_weight
        self._result = self._own.add(block, content)

    def receive_blocks(self, content: Any) -> None:
        """Refuse a packet, for no codec of this class sends any.

        Raises: TypeError, because another codec runs for this variable on some other node.
        """
        raise TypeError(f"DummyCodec exchanges nothing, got a packet with {type(content).__name__}")

    def get_result(self) -> Array | None:
        """Return the mean over the own blocks; valid until the next batch's result is complete."""
        if self._result is not None:
            self._own.reset()
        return super().get_result()

    def dispose(self) -> None:
        super().dispose()
        self._own.reset()

"""Dense exchange through the parameter server: every worker sends its sums there and gets the mean back, exact to the bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from parallel_sgd.engine.block_tree import Span, block_tree
from parallel_sgd.engine.channel import Parameter_Server
from parallel_sgd.engine.merge import TreeSum
from parallel_sgd.engine.unusable import Like, Unusable

from .interfaces import Array, BlockWeight, CheckingPackets, Tracking, netEncapsulation
from .settings import GlobalSettings
from .traits import PacketTraits, Traits

__all__ = ["SyncPS"]

#: To the server: `(round, low, high, sum over the blocks [low, high))`, rounds being the results so far. A fifth element is
#: the worker that asks for an answer, because it misses the result.
Sum = tuple[int, int, int, Array] | tuple[int, int, int, Array, int]
#: To a worker: the mean, with redundant blocks in a list with `Tracking.copies`; or, for one that asks while the server lacks
#: blocks, which these are.
Answer = Array | list[Any] | tuple[int, ...]

_UP: tuple[Any, ...] = ((int, int, int, np.ndarray), (int, int, int, np.ndarray, int))
_DOWN: tuple[Any, ...] = (np.ndarray, [np.ndarray, tuple], (int, ...))


class SyncPS(CheckingPackets, Tracking):
    """Dense exchange through the server, which merges the sums of all workers along the fixed tree.

    It sends the mean to every worker when all blocks are there. For both sides: `codec=SyncPS, ps_codec=SyncPS`. The bits are
    those of `Plain`. With redundant blocks the first copy counts and later ones change nothing. Bytes per worker and variable
    of n elements: 4n up for each whole subtree of its blocks, 4n down, where blocks are redundant with some more that name the
    workers of the copies that counted.
    """

    traits = Traits(
        keeps_content=False,
        takes_sums=True,
        takes_first_copy=True,
        needs_server=True,
        serves=True,
        synchronous=True,
        reads_in_place=True,
        packets=PacketTraits(keeps_type=True),
    )

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        # the forms that come differ by side, so a packet of the other direction is refused at once
        self.traits = self.traits.with_forms(*(_UP if node_id == Parameter_Server else _DOWN))
        self._settings = GlobalSettings.current()
        assignment = self._settings.assignment
        self._settings.check_node(self)
        self._workers = assignment.nodes
        self._block_count = assignment.block_count
        tree = block_tree(assignment.block_count)
        # the server's own tree has the whole as its top
        mine = assignment.blocks if node_id == Parameter_Server else assignment.node_2_block[node_id]
        self._last = mine[-1]
        self._sums = TreeSum(tree, tops=tree.cover(mine))
        # both sides count rounds, so that a packet which is sent again cannot enter the next batch
        self._round = 0
        self._sent: dict[Span, Array] = {}
        # without redundancy each block has one holder, and no copies need to be told
        self._redundant = assignment.redundancy > 1
        self._answer: Answer | None = None
        self._missing: tuple[int, ...] = ()
        self.late = 0

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation | None:
        content, block = block_weight
        whole = self._sums.add(block_weight.span, content, stays=block == self._last)
        if whole is None:
            return None
        span, total = whole
        # kept until the result comes, for the rescue
        self._sent[span] = total
        return netEncapsulation(Parameter_Server, (self._round, *span, total))

    def check(self, content: Any, like: Like | None) -> None:
        """Refuse sums over blocks that the sender does not supply, and answers of any node but the server."""
        super().check(content, like)
        settings = self._settings
        if self.node_id == Parameter_Server:
            # the asking worker names itself; believed only if it is the sender
            _, low, high, _, *asking = content
            for node in asking:
                settings.check_sender(node)
            if settings.sender is not None:
                settings.check_span((low, high), settings.sender)
            return
        settings.check_sender(Parameter_Server)
        # copies that the server names become rows of the ledger, so they are checked like packets
        if isinstance(content, list):
            for span, node in content[1]:
                settings.check_span(span, node)
        elif isinstance(content, tuple) and not set(content) <= set(range(self._block_count)):
            raise Unusable(f"it names the blocks {str(content)[:80]}, and there are {self._block_count}")

    def receive_blocks(self, content: Any) -> netEncapsulation | None:
        if self.node_id == Parameter_Server:
            return self._serve(content)
        self._take(content)
        return None

    def _serve(self, content: Sum) -> netEncapsulation | None:
        """Merge a sum; answer all workers when it was the last one, and the asking one in any case."""
        round_, low, high, total, *asking = content
        # SUB-21: a worker cannot be a round ahead of the mean that it needs
        if round_ > self._round:
            raise ValueError(f"The parameter server is in round {self._round}, but a worker is in round {round_} already")
        if round_ == self._round:
            whole = self._sums.add((low, high), total, stays=True, node=self._settings.sender)
            if whole is not None:
                # in new memory: the one before may be in line
                mean = np.divide(whole[1], self._block_count, out=np.empty_like(whole[1]))
                self._answer = [mean, tuple(self._sums.copies)] if self._redundant else mean
                self._sums.reset()
                self._round += 1
                return netEncapsulation(self._workers, self._answer)
            # early questions get the list of missing blocks, which the worker's time-out message names (SUB-26)
            return netEncapsulation(asking, tuple(self._sums.missing())) if asking else None
        self.late += 1
        # the answer of the last round is kept for a worker that lost it; no worker can need an older one
        return netEncapsulation(asking, self._answer) if asking and round_ == self._round - 1 else None

    def _take(self, content: Answer) -> None:
        if isinstance(content, tuple):
            self._missing = content
        elif self._result is None:
            content, self.copies = content if isinstance(content, list) else (content, None)
            # a second answer, after a rescue, changes nothing
            self.set_result(content)

    def do_something_to_save_yourself(self) -> Iterator[netEncapsulation] | None:
        if not self._sent:
            return None
        return (netEncapsulation(Parameter_Server, (self._round, *s, total, self.node_id)) for s, total in self._sent.items())

    def get_result(self) -> Array | None:
        if self._result is not None:
            self._round += 1
            self._sent.clear()
            self._sums.reset()
            self._missing = ()
        return super().get_result()

    def missing_blocks(self) -> Iterable[int]:
        return self._missing

    def dispose(self) -> None:
        super().dispose()
        self._sent.clear()
        self._sums.reset()
        self._answer = None

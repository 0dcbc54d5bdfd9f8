"""Exchange of shards that `ShardedPSGDOptimizer` asks for: reduce-scatter of gradients, all-gather of parameters.

With W workers the engine's variable s stands for the gradient of shard s, variable W + s for its parameters; worker s owns
both. A worker sends 4 bytes per element of every other shard for each whole subtree of its blocks, and 4 bytes per element of
its own shard to each other worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from nn.optimizer.sharded import shard_bounds

from ..codec.interfaces import Array, BlockWeight, CheckingPackets, Codec, TakingLate, Tracking, netEncapsulation
from ..codec.settings import GlobalSettings, JobSettings
from ..codec.traits import PacketTraits, Traits
from ..profiles.blockassignment.abstract import ISetting
from .block_tree import Span, block_tree
from .merge import LateMean, TreeSum
from .unusable import Like, Unusable, check_form, is_finite, not_finite


def like_shard(settings: JobSettings, shard: int) -> Like | None:
    """Return shape and type of a shard of the model; None where the settings have no model."""
    values = settings.values
    if not values:
        return None
    # the cut of the optimizer itself, so a shard has the same elements on every worker and in the rule
    bounds = shard_bounds(sum(value.size for value in values), settings.assignment.node_count)
    return Like((bounds[shard + 1] - bounds[shard],), values[0].dtype)


def check_shard(content: object, like: Like | None, several: bool = False) -> None:
    """Check that the array with which `content` ends, if it does, is such a shard of finite numbers, or `several` of them.

    Raises: Unusable saying the fault.
    """
    part = content[-1] if isinstance(content, tuple) else content
    if not isinstance(part, np.ndarray):
        return
    if not is_finite(part):
        raise Unusable(not_finite(part))
    if like is not None:
        size = like.shape[0]
        # slots of a rule come as one vector of several shards; how many there are the rule alone knows
        times = part.size // size if several and size else 1
        # an empty array would pass as 0 shards
        if part.ndim != 1 or part.dtype != like.dtype or not part.size or part.size != times * size:
            raise Unusable(f"it is {Like(part.shape, part.dtype)}, and must be {like}")


class GradientShard(CheckingPackets, Tracking):
    """Codec that brings the sums of all workers for one shard to its owner, which merges them along the fixed tree: the bits of
    `Plain`.

    Only the owner gets a result. A packet is `(low, high, sum over the blocks [low, high))`, or the node that asks for it.
    """

    traits = Traits(
        keeps_content=False,
        takes_sums=True,
        reads_in_place=True,
        synchronous=True,
        packets=PacketTraits((int, (int, int, np.ndarray)), alike=True),
    )

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        settings = GlobalSettings.current()
        assignment = settings.assignment
        mine = assignment.node_2_block[node_id]
        tree = block_tree(assignment.block_count)
        self._owner = assignment.nodes[settings.variable]
        self._like = like_shard(settings, settings.variable)
        self._first, self._last = mine[0], mine[-1]
        self._holders = assignment.block_2_node
        self._tops = tree.cover(mine)
        # sums of whole subtrees alone: others the owner could not add in the order of the tree, and the bits would differ
        self._own = TreeSum(tree, tops=self._tops)
        self._all = LateMean(assignment.block_count)
        self._sent: dict[Span, Array] = {}
        self._settings = settings
        self._complete = False  # until the first sum of the next batch, which comes after the result was taken

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation | None:
        """Send the sum of a subtree to the owner as soon as its last block is computed."""
        # the last block stays as it is until the batch ends (`BlockExchange.put`), so its sum needs no copy
        content, block = block_weight
        span, total = block_weight.span, content
        if span[0] == self._first:  # of a new batch
            self._own.reset()
            # the owner can ask no more for these: the parameters that this worker has taken since were made with them
            self._sent.clear()
        if block != self._last or span not in self._tops:  # else it is a subtree, and there is nothing to add up or to keep
            whole = self._own.add(span, content, stays=block == self._last)
            if whole is None:
                return None
            span, total = whole
        if self._node_id == self._owner:
            self._merge(span, total, self._node_id)
            return None
        self._sent[span] = total
        return netEncapsulation(self._owner, (*span, total))

    def check(self, content: object, like: Like | None) -> None:
        """Refuse a packet that is no part of this shard."""
        check_form(content, self.traits.packets.forms)
        check_shard(content, self._like)
        self._check_sender(content)

    def receive_blocks(self, content: tuple[int, int, Array] | int) -> Iterator[netEncapsulation] | None:
        """Merge another worker's sum; send the own ones again to an owner that asks."""
        if isinstance(content, int):
            return self._again()
        # packets of the usual form come here without `check` (`_is_usual` in the bank)
        self._check_sender(content)
        low, high, total = content
        self._merge((low, high), total, self._settings.sender)
        return None

    def _check_sender(self, content: object) -> None:
        """Refuse sums over blocks that the sender does not supply, packets for another node, and packets in the name of
        another.
        """
        settings = self._settings
        if isinstance(content, tuple) and self._node_id == self._owner:
            if settings.sender is not None:
                settings.check_span(content[:2], settings.sender)
        # a request holds the id of the owner: any other one is a lie, and so is one that comes to the owner itself
        elif content == self._owner != self._node_id:
            settings.check_sender(self._owner)
        else:
            raise Unusable(f"it is for node({self._owner}), which merges this shard, or in its name")

    def do_something_to_save_yourself(self) -> netEncapsulation | Iterator[netEncapsulation] | None:
        if self.node_id != self._owner:
            return self._again() if self._sent else None
        # all that hold a missing block: whichever answers first will do
        late = {node for block in self._all.missing() for node in self._holders[block]} - {self.node_id}
        return netEncapsulation(late, self.node_id) if late else None

    def missing_blocks(self) -> Iterable[int]:
        return self._all.missing() if self.node_id == self._owner else ()

    def dispose(self) -> None:
        super().dispose()
        self._sent.clear()
        self._own.reset()
        self._all.reset()

    def _again(self) -> Iterator[netEncapsulation]:
        return (netEncapsulation(self._owner, (*span, total)) for span, total in self._sent.items())

    def _merge(self, span: Span, total: Array, node: int | None) -> None:
        # a sum of the next batch may come before the result of this one is taken, which must stay until then
        begins = self._complete and self._result is None
        # an array from the wire has no other owner and may take the sum; the own sums are still sent again on request
        mean = self._all.mean_with(span, total, stays=True, given=node != self._node_id, node=node, begins=begins)
        self._complete = mean is not None or (self._complete and not begins)
        if mean is not None:
            self.copies = tuple(self._all.copies)
            self._result = mean  # type: ignore[assignment]  # or a mean of halves, which `BlockExchange.get` makes one


class ParameterShard(CheckingPackets, TakingLate):
    """Codec that brings the parameters of one shard from its owner to all other workers. One that misses it sends `(node,
    results so far)`.
    """

    traits = Traits(
        keeps_content=False,
        takes_sums=True,  # of which there are none: it is put once
        reads_in_place=True,
        synchronous=True,
        passes_on=True,
        packets=PacketTraits((np.ndarray, (int, int)), alike=True),
    )

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        settings = self._settings = GlobalSettings.current()
        nodes = settings.assignment.nodes
        self._owner = nodes[settings.variable - len(nodes)]
        self._like = like_shard(settings, settings.variable - len(nodes))
        self._others = [node for node in nodes if node != node_id]
        self._rounds = 0  # of the owner: rounds sent so far; of the others: rounds taken
        self._sent: Array | None = None

    def update_blocks(self, block_weight: BlockWeight) -> netEncapsulation:
        """Send the owner's content to all other workers."""
        self._rounds += 1
        self._sent = block_weight.content
        return netEncapsulation(self._others, self._sent)

    def check(self, content: object, like: Like | None) -> None:
        """Refuse a packet that is not this shard; when states are gathered its slots come as one vector."""
        check_form(content, self.traits.packets.forms)
        check_shard(content, self._like, several=True)
        self._settings.check_sender(content[0] if isinstance(content, tuple) else self._owner)

    def receive_blocks(self, content: Array | tuple[int, int]) -> netEncapsulation | None:
        """Take the content; the owner sends it again to one that asks, once it has it."""
        if isinstance(content, tuple):
            node, rounds = content
            # no worker gets further than one round without the asking one, so this is unchanged; the next one may come first
            return netEncapsulation(node, self._sent.copy()) if self._sent is not None and rounds < self._rounds else None
        self._settings.check_sender(self._owner)
        # a second copy of the same round, after a rescue, changes nothing
        if self._result is None:
            self._result = content
            self._rounds += 1
        return None

    def receive_late(self, content: Array | tuple[int, int]) -> netEncapsulation | None:
        """Answer one that is a batch behind."""
        if isinstance(content, tuple):
            return self.receive_blocks(content)
        # a packet that is late has no effect, but one in another's name is refused all the same
        self._settings.check_sender(self._owner)
        return None

    def do_something_to_save_yourself(self) -> netEncapsulation | None:
        return None if self.node_id == self._owner else netEncapsulation(self._owner, (self.node_id, self._rounds))

    def dispose(self) -> None:
        super().dispose()
        self._sent = None


def shard_likes(settings: JobSettings) -> list[Like]:
    """Return shape and type of the values put for the shards of gradients and of parameters."""
    likes = [like_shard(settings, shard) for shard in range(settings.assignment.node_count)]
    return [like for like in (*likes, *likes) if like is not None]


def shard_codecs(assignment: ISetting) -> tuple[list[type[Codec]], tuple[str, ...]]:
    """Return the codecs of all gradient and parameter shards, and names for messages."""
    count = assignment.node_count
    # gradients before parameters: variable W + s is the parameters of shard s
    kinds: list[type[Codec]] = [GradientShard] * count
    kinds += [ParameterShard] * count
    whose = [f"of the shard of node {node}" for node in assignment.nodes]
    return kinds, (*(f"gradient {shard}" for shard in whose), *(f"parameters {shard}" for shard in whose))

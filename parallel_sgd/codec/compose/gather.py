"""Contributions to a result: their numbers, how a worker puts its own together, and where those of all meet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from parallel_sgd.codec.interfaces import Array
from parallel_sgd.codec.pipeline.stage import Draw, State, room_for
from parallel_sgd.engine.block_tree import BlockTree, Span, block_tree
from parallel_sgd.engine.channel import Others
from parallel_sgd.engine.merge import BlockMean, TreeSum
from parallel_sgd.profiles.blockassignment.abstract import ISetting

from .merge import MergeRule, Round
from .parts import Copies, Grain, Shard


class Units:
    """The contributions of a job, numbered: its workers or its blocks.

    `weights` are those of the workers, by default the number of blocks of each. Raises: ValueError for more or fewer.
    """

    def __init__(self, grain: Grain, assignment: ISetting, weights: Sequence[float] | None = None) -> None:
        self.grain = grain
        self.workers = grain is Grain.WORKERS
        self._assignment = assignment
        self.count = assignment.node_count if self.workers else assignment.block_count
        # by blocks, so that the mean over workers is that over samples
        self.weights = [float(len(blocks)) for blocks in assignment.node_2_block] if self.workers else [1.0] * self.count
        if weights is not None and self.workers:
            if len(weights) != self.count:
                raise ValueError(f"WeightedMean 'weights' has {len(weights)} numbers, the job has {self.count} workers")
            self.weights = list(weights)

    @cached_property
    def most(self) -> int:
        """Most contributions that a packet can hold the sum over."""
        return max(map(len, self._assignment.node_2_block)) if self.grain is Grain.SPANS else 1

    @property
    def tree(self) -> BlockTree:
        return block_tree(self.count)

    def holders(self, unit: int) -> list[int]:
        return [unit] if self.workers else list(self._assignment.block_2_node[unit])

    def supplies(self, node: int, span: Span) -> bool:
        """Tell whether a contribution, where it is that of one worker or block, is one of `node`."""
        unit, end = span
        if end != unit + 1 or not 0 <= unit < self.count:
            return False
        return unit == node if self.workers else node in self._assignment.block_2_node[unit]

    def lacking(self, span: Span) -> Collection[int]:
        """Return the workers that cannot make the sum over a span out of their own blocks, in the order of their ids."""
        if self.workers:
            return Others(self._assignment.nodes, span[0])
        if span[1] == span[0] + 1 and len(holders := self._assignment.block_2_node[span[0]]) == 1:
            return Others(self._assignment.nodes, holders[0])
        # redundant, or several blocks: each worker that lacks one of them needs the sum
        return sorted({node for block in range(*span) for node in self._assignment.get_adversary(block)})

    def blocks(self, units: list[int]) -> list[int]:
        """Return the blocks that contributions consist of."""
        if not self.workers:
            return units
        return sorted({block for worker in units for block in self._assignment.node_2_block[worker]})


class OwnBlocks:
    """Blocks of one worker: takes them as they are computed and gives the worker's contributions, as flat vectors.

    Sums run along the tree over block ids. A contribution stays valid until `reset`; where `stays` is False it is also
    independent of the content that was put.
    """

    def __init__(self, grain: Grain, node: int, blocks: Sequence[int], block_count: int, stays: bool = True) -> None:
        tree = block_tree(block_count)
        self._grain = grain
        self._node = node
        self._last = blocks[-1]
        self._count = len(blocks)
        self._stays = stays
        # sums run along the tree whatever the grain, so that they have the bits of `Plain`
        self._sums = TreeSum(tree, tops=tree.cover(blocks))
        self._tops: dict[Span, Array] = {}
        self._left = self._count
        self._mean: Array | None = None

    def add(self, span: Span, content: Array) -> tuple[Span, Array] | None:
        flat = content.reshape(-1)
        self._left -= span[1] - span[0]
        # the last block stays until the batch ends
        whole = self._sums.add(span, flat, stays=self._stays and span[1] == self._last + 1)
        if whole is not None:
            self._tops[whole[0]] = whole[1]
        if self._grain is Grain.BLOCKS:
            return span, flat
        if self._grain is Grain.SPANS:
            return whole
        return ((self._node, self._node + 1), self.mean()) if not self._left else None

    @property
    def complete(self) -> bool:
        return self._left == 0

    def mean(self) -> Array:
        # in block order: equal bits whichever block came last
        tops = [self._tops[span] for span in sorted(self._tops)]
        if self._count == 1:
            return tops[0]
        if self._mean is None:
            self._mean = np.empty_like(tops[0])
        # tops are buffers of the sums, so the mean has memory of its own
        np.copyto(self._mean, tops[0])
        for top in tops[1:]:
            np.add(self._mean, top, out=self._mean)
        return np.divide(self._mean, self._count, out=self._mean)

    def reset(self) -> None:
        self._sums.reset()
        self._tops.clear()
        self._left = self._count


class SpanCollector:
    """The exact mean over blocks of one vector of one batch, out of sums over spans."""

    def __init__(self, units: Units) -> None:
        self._mean = BlockMean(units.count)
        self._units = units.count
        self._done: Array | None = None

    @property
    def duplicates(self) -> int:
        return self._mean.duplicates

    def add(self, span: Span, value: Array, stays: bool, node: int) -> bool:
        # after the mean only duplicates come
        if self._done is None:
            self._done = self._mean.mean_with(span, value, stays)
            return self._done is not None
        self._mean.add(span, value, stays)
        return False

    def has(self, unit: int) -> bool:
        return unit not in self._mean.missing()

    @property
    def lacks(self) -> int:
        return self._mean.lacks

    def missing(self) -> list[int]:
        return self._mean.missing()

    def merged(self, number: int, draw: Draw) -> Array:
        if self._done is None:
            raise RuntimeError(f"There is no mean over {self._units} blocks before all of them are there")
        return self._done

    def reset(self) -> None:
        self._mean.reset()
        self._done = None


class Gatherer:
    """Copies of all contributions to one vector of one batch, for any merge rule, in the order of their numbers."""

    def __init__(self, units: Units, rule: MergeRule) -> None:
        self._weights: Sequence[float] = units.weights
        self._rule = rule
        self._rooms: dict[int, Array] = {}
        self._here: dict[int, int] = {}  # contribution: the worker that it is from
        self._wanted: Sequence[int] = range(units.count)
        self._owners: Sequence[int | None] = ()
        self.duplicates = 0

    def expect(self, owners: Sequence[int | None], weights: Sequence[float]) -> None:
        """Begin a vector to which clients contribute.

        Args:
            owners: the client of each contribution, None for one that does not come.
            weights: those of the contributions.
        """
        self._owners, self._weights = owners, weights
        self._wanted = [unit for unit, owner in enumerate(owners) if owner is not None]

    def add(self, span: Span, value: Array, stays: bool, node: int) -> bool:
        unit = span[0]
        if unit in self._here:
            self.duplicates += 1
            return False
        # always copied: a rule may overwrite its parts, and decoders give the same memory again
        room = self._rooms[unit] = room_for(value, self._rooms.get(unit))
        np.copyto(room, value)
        self._here[unit] = node
        return len(self._here) == len(self._wanted)

    def has(self, unit: int) -> bool:
        return unit in self._here

    @property
    def lacks(self) -> int:
        return len(self._wanted) - len(self._here)

    def missing(self) -> list[int]:
        return [unit for unit in self._wanted if unit not in self._here]

    def share(self) -> float:
        return sum(self._weights[unit] for unit in self._here) / sum(self._weights)

    def merged(self, number: int, draw: Draw) -> Array:
        """Return the result of the rule for the contributions that are there; the copies are used up.

        Args:
            number: number of the exchange.
            draw: the rule's.

        Raises: RuntimeError where the rule returns anything but a vector like its parts.
        """
        # in the order of their numbers, not of arrival
        here = sorted(self._here)
        # a rule that goes by the sender must not go by the worker that happens to train a client
        senders = {unit: owner for unit, owner in enumerate(self._owners) if owner is not None} or self._here
        round_ = Round(number, draw, tuple(senders[unit] for unit in here))
        # parts may be used up by the rule: they are copies
        parts = [self._rooms[unit] for unit in here]
        merged = self._rule.combine(parts, [self._weights[unit] for unit in here], round_)
        if not isinstance(merged, np.ndarray) or merged.shape != parts[0].shape:
            what = f"an array of shape {merged.shape}" if isinstance(merged, np.ndarray) else repr(merged)
            # no TypeError, which would be taken for a fault of the packet that was the last to come
            raise RuntimeError(f"{self._rule!r}.combine() must return an array of shape {parts[0].shape}, got {what}")
        return merged

    def reset(self) -> None:
        self._here.clear()


#: Takes contributions: `add` is True when nothing is missing any more, `stays` says that the value remains unchanged until
#: `reset`; a contribution that is there already changes nothing and is counted. `lacks` is the number of those that are
#: missing. `merged` is valid until the next vector is merged.
Collector = SpanCollector | Gatherer


class Merging:
    """A copy of a merge rule for each place, with its state, and collectors that are used again."""

    def __init__(self, units: Units, rule: MergeRule) -> None:
        self._units = units
        self._rules = Copies(rule)
        self._free: dict[int, list[Collector]] = {}
        self._made: list[Collector] = []

    @property
    def duplicates(self) -> int:
        return sum(found.duplicates for found in self._made)

    def collector(self, place: int) -> Collector:
        # collectors are used again with their rooms: a new one per batch would allocate all of them
        free = self._free.get(place)
        if free:
            return free.pop()
        exact = self._units.grain is Grain.SPANS
        self._made.append(SpanCollector(self._units) if exact else Gatherer(self._units, self._rules(place)))
        return self._made[-1]

    def take_back(self, collectors: dict[int, Collector]) -> None:
        for place, found in collectors.items():
            found.reset()
            self._free.setdefault(place, []).append(found)
        collectors.clear()

    def state_dict(self) -> State:
        return self._rules.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._rules.load_state_dict(state)
        # the rules were replaced, and collectors refer to them
        self.clear()

    def clear(self) -> None:
        self._free.clear()
        self._made.clear()


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
        self.left.discard(shard)
        # one shard is the whole vector: no copy
        if len(self.shards) == 1:
            self.whole = value
        elif self.whole is not None:
            place = self.shards[shard]
            np.copyto(self.whole[place.start : place.stop], value)
        return None if self.left else self.whole

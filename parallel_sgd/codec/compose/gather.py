"""Contributions to a result: what they are, how a worker puts its own together, and where those of all meet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from parallel_sgd.codec.interfaces import Array
from parallel_sgd.codec.pipeline.stage import prefixed, room_for, split
from parallel_sgd.merge import BlockMean, BlockTree, Span, TreeSum, block_tree
from parallel_sgd.profiles.interface import ISetting

from .merge import MergeRule
from .parts import Grain


class Units:
    """The contributions of a job, numbered: its workers or its blocks.

    `weights` are those of the workers, by default the number of blocks of each. Raises: ValueError for more or fewer.
    """

    def __init__(self, grain: Grain, assignment: ISetting, weights: Sequence[float] | None = None) -> None:
        self.grain = grain
        self.workers = grain is Grain.WORKERS
        self._assignment = assignment
        self.count = assignment.node_count if self.workers else assignment.block_count
        self.weights = [float(len(blocks)) for blocks in assignment.node_2_block] if self.workers else [1.0] * self.count
        if weights is not None and self.workers:
            if len(weights) != self.count:
                raise ValueError(f"WeightedMean 'weights' has {len(weights)} numbers, the job has {self.count} workers")
            self.weights = list(weights)

    @property
    def tree(self) -> BlockTree:
        return block_tree(self.count)

    def holders(self, unit: int) -> list[int]:
        """Return the workers that can supply a contribution."""
        return [unit] if self.workers else list(self._assignment.block_2_node[unit])

    def supplies(self, node: int, span: Span) -> bool:
        """Whether a contribution, where it is that of one worker or block, is one of `node`."""
        unit, end = span
        if end != unit + 1 or not 0 <= unit < self.count:
            return False
        return unit == node if self.workers else node in self._assignment.block_2_node[unit]

    def lacking(self, span: Span) -> list[int]:
        """Return the workers that cannot make what a span holds out of their own blocks."""
        if self.workers:
            return [node for node in self._assignment.nodes if node != span[0]]
        return sorted({node for block in range(*span) for node in self._assignment.get_adversary(block)})

    def blocks(self, units: list[int]) -> list[int]:
        """Return the blocks that contributions consist of."""
        if not self.workers:
            return units
        return sorted({block for worker in units for block in self._assignment.node_2_block[worker]})


class OwnBlocks:
    """Takes the blocks of one worker as they are computed and gives what it contributes, as flat vectors.

    Sums run along the tree over block ids. What is returned stays valid until `reset`; where `stays` is False it is also
    independent of the content that was put.
    """

    def __init__(self, grain: Grain, node: int, blocks: Sequence[int], block_count: int, stays: bool = True) -> None:
        tree = block_tree(block_count)
        self._grain = grain
        self._node = node
        self._last = blocks[-1]
        self._count = len(blocks)
        self._stays = stays
        self._sums = TreeSum(tree, tops=tree.cover(blocks))
        self._tops: dict[Span, Array] = {}
        self._left = self._count
        self._mean: Array | None = None

    def add(self, block: int, content: Array) -> tuple[Span, Array] | None:
        flat = content.reshape(-1)
        self._left -= 1
        whole = self._sums.add((block, block + 1), flat, stays=self._stays and block == self._last)
        if whole is not None:
            self._tops[whole[0]] = whole[1]
        if self._grain is Grain.BLOCKS:
            return (block, block + 1), flat
        if self._grain is Grain.SPANS:
            return whole
        return ((self._node, self._node + 1), self.mean()) if not self._left else None

    @property
    def complete(self) -> bool:
        return self._left == 0

    def mean(self) -> Array:
        """Return the mean over all own blocks, which are `complete`."""
        tops = [self._tops[span] for span in sorted(self._tops)]
        if self._count == 1:
            return tops[0]
        if self._mean is None:
            self._mean = np.empty_like(tops[0])
        np.copyto(self._mean, tops[0])
        for top in tops[1:]:
            np.add(self._mean, top, out=self._mean)
        return np.divide(self._mean, self._count, out=self._mean)

    def reset(self) -> None:
        self._sums.reset()
        self._tops.clear()
        self._left = self._count


class Collector(ABC):
    """The contributions to one vector of one batch. Those that are there already change nothing and are counted."""

    duplicates: int

    @abstractmethod
    def add(self, span: Span, value: Array, stays: bool) -> bool:
        """Take what a span holds; True when nothing is missing any more. `stays`: it remains unchanged until `reset`."""

    @abstractmethod
    def has(self, unit: int) -> bool:
        """Whether a contribution is there."""

    @abstractmethod
    def missing(self) -> list[int]:
        """Return the contributions that are not there yet."""

    @abstractmethod
    def merged(self) -> Array:
        """Return what becomes of those that are there; valid until the next one is merged."""

    @abstractmethod
    def reset(self) -> None:
        """Make ready for another batch."""


class SpanCollector(Collector):
    """The exact mean over blocks, out of sums over spans."""

    def __init__(self, units: Units) -> None:
        self._mean = BlockMean(units.count)
        self._units = units.count
        self._done: Array | None = None

    @property
    def duplicates(self) -> int:  # type: ignore[override]
        return self._mean.duplicates

    def add(self, span: Span, value: Array, stays: bool) -> bool:
        if self._done is None:
            self._done = self._mean.mean_with(span, value, stays)
            return self._done is not None
        self._mean.add(span, value, stays)
        return False

    def has(self, unit: int) -> bool:
        return unit not in self._mean.missing()

    def missing(self) -> list[int]:
        return self._mean.missing()

    def merged(self) -> Array:
        if self._done is None:
            raise RuntimeError(f"There is no mean over {self._units} blocks before all of them are there")
        return self._done

    def reset(self) -> None:
        self._mean.reset()
        self._done = None


class Gatherer(Collector):
    """Copies of all contributions, for any merge rule, in the order of their numbers."""

    def __init__(self, units: Units, rule: MergeRule) -> None:
        self._weights = units.weights
        self._rule = rule
        self._rooms: dict[int, Array] = {}
        self._here: set[int] = set()
        self.duplicates = 0

    def add(self, span: Span, value: Array, stays: bool) -> bool:
        unit = span[0]
        if unit in self._here:
            self.duplicates += 1
            return False
        room = self._rooms[unit] = room_for(value, self._rooms.get(unit))
        np.copyto(room, value)
        self._here.add(unit)
        return len(self._here) == len(self._weights)

    def has(self, unit: int) -> bool:
        return unit in self._here

    def missing(self) -> list[int]:
        return [unit for unit in range(len(self._weights)) if unit not in self._here]

    def share(self) -> float:
        """Return how much of the weight of all contributions is there."""
        return sum(self._weights[unit] for unit in self._here) / sum(self._weights)

    def merged(self) -> Array:
        """What the rule makes of those that are there; the copies are used up."""
        here = sorted(self._here)
        return self._rule.combine([self._rooms[unit] for unit in here], [self._weights[unit] for unit in here])

    def reset(self) -> None:
        self._here.clear()


def collector(units: Units, rule: MergeRule) -> Collector:
    """Return what suits the grain of the contributions."""
    return SpanCollector(units) if units.grain is Grain.SPANS else Gatherer(units, rule)


class Merging:
    """A copy of a merge rule for each place, with what it remembers, and collectors that are used again."""

    def __init__(self, units: Units, rule: MergeRule) -> None:
        self._units = units
        self._pattern = rule
        self._rules: dict[int, MergeRule] = {}
        self._free: dict[int, list[Collector]] = {}
        self._made: list[Collector] = []

    @property
    def duplicates(self) -> int:
        return sum(found.duplicates for found in self._made)

    def collector(self, place: int) -> Collector:
        """Return an empty collector."""
        free = self._free.get(place)
        if free:
            return free.pop()
        self._made.append(collector(self._units, self._rule(place)))
        return self._made[-1]

    def take_back(self, collectors: dict[int, Collector]) -> None:
        for place, found in collectors.items():
            found.reset()
            self._free.setdefault(place, []).append(found)
        collectors.clear()

    def state_dict(self) -> dict[str, Any]:
        """Return what the rules remember, as `merge.<place>.<name>`."""
        state: dict[str, Any] = {}
        for place, rule in self._rules.items():
            state |= prefixed(f"merge.{place}", rule.state_dict())
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Take over a copy of what `state_dict` returned; return the names that are of nothing here."""
        rest = dict(state)
        for place in sorted({int(name.split(".")[1]) for name in rest if name.startswith("merge.")}):
            own, rest = split(f"merge.{place}", rest)
            self._rule(place).load_state_dict(own)
        return rest

    def clear(self) -> None:
        self._free.clear()
        self._made.clear()

    def _rule(self, place: int) -> MergeRule:
        found = self._rules.get(place)
        if found is None:
            found = self._rules[place] = deepcopy(self._pattern)
        return found
